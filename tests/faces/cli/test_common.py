"""What the command line prints of an extension cannot control a terminal."""

import json
from pathlib import Path

import pytest

from exthost.faces.cli.common import show_json
from tests.faces.cli.cli_process import run_inside


def test_json_escapes_terminal_control_characters_and_stays_the_same_json(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    value = {"a": "\x9b31m \x9d \x7f \u202e \u2066", "b": "käse \x1b"}
    show_json(value)
    printed = capfdbinary.readouterr().out.decode()
    assert json.loads(printed) == value and "käse" in printed
    assert printed.rstrip("\n").isprintable()


def test_no_verb_prints_the_names_of_a_package_as_they_are(tmp_path: Path) -> None:
    evil = "x\x1b]0;x\x07\x9b31m\u202e"
    package = tmp_path / "extensions" / evil / ".synaps-plugin"
    package.mkdir(parents=True)
    (tmp_path / "extensions" / f"broken{evil}").mkdir()
    (tmp_path / "extensions" / f"broken{evil}" / "roder-extension.toml").write_text(
        f"id = '{evil}'"
    )
    extension = {"runtime": "process", "command": evil, "permissions": ["tools.register"]}
    (package / "plugin.json").write_text(json.dumps({"extension": extension}))
    (tmp_path / "exthost.toml").write_text(
        "[discovery]\nsearch_paths = ['extensions']\n[defaults]\npermissions = {}\n"
    )
    shown = [
        ("list",), ("tools",), ("validate",), ("doctor", "--all"), ("info", evil),
        ("disable", evil), ("enable", evil), ("inspect", evil), ("uninstall", evil, "--yes"),
    ]  # fmt: skip
    for words in shown:
        done = run_inside(*words, cwd=tmp_path)
        printed = (done.stdout + done.stderr).replace("\n", "")
        assert printed.isprintable(), (words, ascii(printed))
    assert not package.exists()
