"""An extension that neither the config nor the lock names is not started unasked."""

import json
from pathlib import Path

import pytest

from exthost.config.discovery.configfile import read_config
from exthost.faces.cli.first_use import say_lock
from tests.extensions.nexo_tree import write_plugin
from tests.faces.cli.cli_process import run_inside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_plugin(tmp_path / "found" / "weather", "weather")
    return tmp_path


def configure(root: Path, text: str = "") -> None:
    search = '[discovery]\nsearch_paths = ["found"]\n'
    (root / "exthost.toml").write_text(search + text)


def code_of(root: Path) -> str:
    result = run_inside("inspect", "weather", "--json", cwd=root)
    return "" if result.returncode == 0 else str(json.loads(result.stdout)["error"]["code"])


def test_without_a_lock_a_new_extension_is_started(root: Path) -> None:
    configure(root)
    assert code_of(root) == ""


def test_with_a_lock_a_new_extension_is_refused_until_it_is_locked(root: Path) -> None:
    configure(root)
    (root / "exthost.lock").write_text("version = 1\n")
    assert code_of(root) == "X1825"
    result = run_inside("lock", "weather", cwd=root)
    assert result.returncode == 0, result.stderr
    assert code_of(root) == ""
    assert "package = " in (root / "exthost.lock").read_text()


@pytest.mark.parametrize("named", ["[overrides.weather]\nstart = 'lazy'\n", "allow"])
def test_a_new_extension_that_the_config_names_is_started(root: Path, named: str) -> None:
    text = 'allowlist = ["weather"]\n' if named == "allow" else named
    configure(root, text + '[trust]\nnew = "refuse"\n')
    assert code_of(root) == ""


def test_refuse_and_allow_apply_with_and_without_a_lock(root: Path) -> None:
    configure(root, '[trust]\nnew = "refuse"\n')
    assert code_of(root) == "X1825"
    configure(root, '[trust]\nnew = "allow"\n')
    (root / "exthost.lock").write_text("version = 1\n")
    assert code_of(root) == ""


def test_ask_describes_a_new_extension_and_remembers_a_yes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(root, '[trust]\nnew = "ask"\n')
    answers: list[bool | None] = [None, False, True]
    questions: list[str] = []

    def ask(question: str) -> bool | None:
        questions.append(question)
        return answers[len(questions) - 1]

    monkeypatch.setattr("exthost.faces.cli.first_use.ask_on_terminal", ask)
    for code in (4, 4, 0, 0):
        result = run_inside("inspect", "weather", cwd=root)
        assert result.returncode == code, result.stderr
    assert len(questions) == 3  # after a yes there is no further question
    result = run_inside("list", cwd=root)
    assert "refused" not in result.stdout
    manifest = root / "found" / "weather" / "plugin.toml"
    manifest.write_text(manifest.read_text() + "# another package\n")
    answers.append(False)
    result = run_inside("inspect", "weather", cwd=root)
    assert (
        result.returncode == 4 and "plugin.toml" in result.stderr and "no sandbox" in result.stderr
    )
    assert "runs: " in result.stderr


def test_without_a_terminal_ask_refuses(root: Path) -> None:
    configure(root, '[trust]\nnew = "ask"\n')
    result = run_inside("inspect", "weather", cwd=root)
    assert result.returncode == 4 and "not a terminal" in result.stderr and "X1825" in result.stderr


def test_a_host_says_at_its_start_how_the_lock_applies(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(root)
    say_lock(read_config(root / "exthost.toml"))
    assert capsys.readouterr().err == ""
    (root / "exthost.lock").write_text("version = 1\n[extensions.weather]\n")
    say_lock(read_config(root / "exthost.toml"))
    assert capsys.readouterr().err == "exthost.lock is enforced: 1 record\n"
    configure(root, '[trust]\nlock = "warn"\n')
    say_lock(read_config(root / "exthost.toml"))
    assert "differences reported" in capsys.readouterr().err
