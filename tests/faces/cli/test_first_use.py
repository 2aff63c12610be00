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
    done = run_inside("inspect", "weather", "--json", cwd=root)
    return "" if done.returncode == 0 else str(json.loads(done.stdout)["error"]["code"])


def test_without_a_lock_a_new_extension_is_started(root: Path) -> None:
    configure(root)
    assert code_of(root) == ""


def test_with_a_lock_it_is_refused_unless_the_lock_names_it(root: Path) -> None:
    configure(root)
    (root / "exthost.lock").write_text("version = 1\n")
    assert code_of(root) == "X1825"
    done = run_inside("lock", "weather", cwd=root)
    assert done.returncode == 0, done.stderr
    assert code_of(root) == ""
    assert (
        "{package}" in (root / "exthost.lock").read_text()
        or "package = " in (root / "exthost.lock").read_text()
    )


@pytest.mark.parametrize("named", ["[overrides.weather]\nstart = 'lazy'\n", "allow"])
def test_a_config_that_names_it_decides(root: Path, named: str) -> None:
    text = 'allowlist = ["weather"]\n' if named == "allow" else named
    configure(root, text + '[trust]\nnew = "refuse"\n')
    assert code_of(root) == ""


def test_refuse_and_allow_hold_with_and_without_a_lock(root: Path) -> None:
    configure(root, '[trust]\nnew = "refuse"\n')
    assert code_of(root) == "X1825"
    configure(root, '[trust]\nnew = "allow"\n')
    (root / "exthost.lock").write_text("version = 1\n")
    assert code_of(root) == ""


def test_ask_shows_what_it_is_and_asks_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(root, '[trust]\nnew = "ask"\n')
    answers: list[bool | None] = [None, False, True]
    questions: list[str] = []

    def ask(question: str) -> bool | None:
        questions.append(question)
        return answers[len(questions) - 1]

    monkeypatch.setattr("exthost.faces.cli.first_use.ask_on_terminal", ask)
    for code in (4, 4, 0, 0):
        done = run_inside("inspect", "weather", cwd=root)
        assert done.returncode == code, done.stderr
    assert len(questions) == 3  # the last time nobody was asked
    done = run_inside("list", cwd=root)
    assert "refused" not in done.stdout
    manifest = root / "found" / "weather" / "plugin.toml"
    manifest.write_text(manifest.read_text() + "# another package\n")
    answers.append(False)
    done = run_inside("inspect", "weather", cwd=root)
    assert done.returncode == 4 and "plugin.toml" in done.stderr and "no sandbox" in done.stderr
    assert "tools: echo" in done.stderr or "runs: " in done.stderr


def test_without_a_terminal_ask_refuses(root: Path) -> None:
    configure(root, '[trust]\nnew = "ask"\n')
    done = run_inside("inspect", "weather", cwd=root)
    assert done.returncode == 4 and "not a terminal" in done.stderr and "X1825" in done.stderr


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
