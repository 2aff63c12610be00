"""The mutation tool of `make mutants`, which changes one condition of the source at a time."""

import subprocess
from pathlib import Path

import pytest

from scripts import mutants
from scripts.mutants import find_mutants, near_tests, sample

# A module with five conditions to change; the letter é makes byte and character positions differ.
MODULE_TEXT = """
def function(a, b, é):
    if a < b and not é:
        return [x for x in b if x.ready]
    assert a > b
    return 1 if "é" == é else 2
"""


def test_each_condition_is_changed_once(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(MODULE_TEXT, encoding="utf-8")
    found = list(find_mutants(path))
    assert sorted((item.before, item.text) for item in found) == sorted(
        [
            ("a < b", "(a <= b)"),
            ("a < b and not é", "(a < b or not é)"),
            ("not é", "(é)"),
            ("x.ready", "(not x.ready)"),
            ('"é" == é', "('é' != é)"),
        ]
    )
    data = MODULE_TEXT.encode()
    for item in found:
        assert data[item.start : item.end].decode() == item.before
        compile(data[: item.start] + item.text.encode() + data[item.end :], "module.py", "exec")


@pytest.mark.more
def test_a_sample_is_the_same_for_the_same_seed_and_has_tests_near_it() -> None:
    chosen = sample("seed", 20)
    assert chosen == sample("seed", 20) != sample("other", 20)
    assert all(near_tests(item.path) for item in chosen)


@pytest.mark.parametrize(("exit_code", "noticed"), [(1, True), (0, False)])
def test_a_change_is_noticed_if_tests_fail(
    exit_code: int, noticed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mutants.ROOT / "src" / "exthost" / "model" / "semver.py"
    copy = tmp_path / "src" / "exthost" / "model" / "semver.py"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(path.read_bytes())
    mutant = next(find_mutants(path))
    tested_sources: list[bytes] = []

    def run(*_: object, **__: object) -> subprocess.CompletedProcess[bytes]:
        tested_sources.append(copy.read_bytes())
        return subprocess.CompletedProcess((), exit_code)

    monkeypatch.setattr(subprocess, "run", run)
    assert mutants.is_noticed(mutant, tmp_path) is noticed
    assert mutant.text.encode() in tested_sources[0] and copy.read_bytes() == path.read_bytes()
