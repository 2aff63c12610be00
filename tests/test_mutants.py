"""Tests of `scripts/mutants.py` (`make mutants`), which finds conditions that no test checks.

It changes one condition of the source at a time, such as `a < b` into `a <= b`, and runs the tests
near the changed module: those that import it. Such a change is a mutant. It is noticed if a test
fails.
"""

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
    changes = list(find_mutants(path))
    assert sorted((item.before, item.text) for item in changes) == sorted(
        [
            ("a < b", "(a <= b)"),
            ("a < b and not é", "(a < b or not é)"),
            ("not é", "(é)"),
            ("x.ready", "(not x.ready)"),
            ('"é" == é', "('é' != é)"),
        ]
    )
    data = MODULE_TEXT.encode()
    for item in changes:
        assert data[item.start : item.end].decode() == item.before
        compile(data[: item.start] + item.text.encode() + data[item.end :], "module.py", "exec")


@pytest.mark.more
def test_a_sample_is_the_same_for_the_same_seed_and_has_tests_near_it() -> None:
    chosen = sample("seed", 20)
    assert chosen == sample("seed", 20) != sample("other", 20)
    assert all(any(near_tests(item.path)) for item in chosen)


@pytest.mark.parametrize(
    ("fails_with_change", "fails_without_change", "noticed"),
    [(True, False, True), (False, False, False), (True, True, False)],
)
def test_a_change_is_noticed_if_tests_fail_only_with_it(
    fails_with_change: bool,
    fails_without_change: bool,
    noticed: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A substitute for pytest reports one failed test. A test that fails with the change is run
    again without the change, alone. If it fails then, too, it is deselected for the rest."""
    path = mutants.ROOT / "src" / "exthost" / "model" / "semver.py"
    copy = tmp_path / "src" / "exthost" / "model" / "semver.py"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(path.read_bytes())
    mutant = next(find_mutants(path))
    test_name = "tests/model/test_semver.py::test_order[a b]"
    tested_sources: list[bytes] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        tested_sources.append(copy.read_bytes())
        is_changed = mutant.text.encode() in tested_sources[-1]
        fails = fails_with_change if is_changed else fails_without_change
        if not fails or "--deselect" in command:
            return subprocess.CompletedProcess(command, 0, b"1 passed")
        assert is_changed or command[-1] == test_name
        return subprocess.CompletedProcess(command, 1, f"FAILED {test_name} - no\n".encode())

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(mutants, "near_tests", lambda path: [["tests/model/test_semver.py"]])
    assert mutants.is_noticed(mutant, tmp_path) is noticed
    assert mutant.text.encode() in tested_sources[0] and copy.read_bytes() == path.read_bytes()


@pytest.mark.more
def test_near_tests_are_found_through_reexports_helpers_and_importing_modules() -> None:
    def near(module: str) -> list[list[str]]:
        return near_tests(mutants.SOURCE / module)

    # `exthost.authoring.testing.vectors` re-exports the names of its module `vector`.
    assert "tests/dialects/test_vectors.py" in near("authoring/testing/vectors/vector.py")[0]
    # A helper of these tests imports the module; `config.document` imports it, too.
    groups = near("model/documents/problems.py")
    assert "tests/config/test_document.py" in groups[-1]
    files = [file for group in groups for file in group]
    assert len(files) == len(set(files))
