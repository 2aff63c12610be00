"""Text of an extension that the command line prints cannot control a terminal."""

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
    output = capfdbinary.readouterr().out.decode()
    assert json.loads(output) == value and "käse" in output
    assert output.rstrip("\n").isprintable()


def test_no_verb_prints_control_characters_in_the_names_of_a_package(tmp_path: Path) -> None:
    evil_name = "x\x1b]0;x\x07\x9b31m\u202e"
    package = tmp_path / "extensions" / evil_name / ".synaps-plugin"
    package.mkdir(parents=True)
    (tmp_path / "extensions" / f"broken{evil_name}").mkdir()
    (tmp_path / "extensions" / f"broken{evil_name}" / "roder-extension.toml").write_text(
        f"id = '{evil_name}'"
    )
    extension = {"runtime": "process", "command": evil_name, "permissions": ["tools.register"]}
    (package / "plugin.json").write_text(json.dumps({"extension": extension}))
    (tmp_path / "exthost.toml").write_text(
        "[discovery]\nsearch_paths = ['extensions']\n[defaults]\npermissions = {}\n"
    )
    commands = [
        ("list",), ("tools",), ("validate",), ("doctor", "--all"), ("info", evil_name),
        ("disable", evil_name), ("enable", evil_name), ("inspect", evil_name),
        ("uninstall", evil_name, "--yes"),
    ]  # fmt: skip
    for arguments in commands:
        result = run_inside(*arguments, cwd=tmp_path)
        output = (result.stdout + result.stderr).replace("\n", "")
        assert output.isprintable(), (arguments, ascii(output))
    assert not package.exists()
