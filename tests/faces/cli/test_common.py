"""Tests of what all verbs print: no text of an extension controls the terminal."""

import json
from pathlib import Path

import pytest

from exthost.faces.cli.common import list_names, show_json
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


def test_a_list_of_names_that_is_cut_has_their_number() -> None:
    names = [f"n{number}" for number in range(12)]
    assert list_names(names).endswith(", … (12 in all)")
    assert list_names(names[:3]) == "n0, n1, n2"


def test_the_error_for_an_unknown_extension_says_that_it_names_only_some(tmp_path: Path) -> None:
    entry = '[[extensions]]\nname = "n{}"\nsource = {{type = "process", command = "true"}}\n'
    (tmp_path / "exthost.toml").write_text("".join(entry.format(number) for number in range(12)))
    result = run_inside("inspect", "zzzzzz", "--json", cwd=tmp_path)
    assert "… (12 in all)" in json.loads(result.stdout)["error"]["help"]
