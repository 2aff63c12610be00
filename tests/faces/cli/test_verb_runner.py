"""Tests of the errors that all verbs share: wrong arguments, an output that cannot be written, a
deleted working folder, a limit of file sizes, and a state folder that cannot be used."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from exthost.host.control.socket_path import config_key
from exthost.process.state_dirs import log_file
from tests.faces.cli.cli_process import (
    EXTHOST,
    RUN_SECONDS,
    STDERR_WRITER,
    run_inside,
    run_process,
)

# By the arguments of exthost: parts of the message and of the help of the error.
USAGE_ERRORS = {
    ("new",): ("NAME and --dialect are missing", "example: exthost new weather --dialect mcp"),
    ("new", "--dialect", "mcp"): ("NAME is missing", "example: exthost new weather --dialect mcp"),
    ("new", "x", "--dialect", "mpc"): ("--dialect: 'mpc' is not one of", "did you mean mcp?"),
    ("new", "x", "--dialect", "mcp", "--lang", "rus"): ("--lang: 'rus'", "did you mean rust?"),
    ("new", "My Tool", "--dialect", "mcp"): ("'My Tool' is not a name", "for example my-tool"),
    ("new", ".", "--dialect", "nexo"): ("already exists", "choose another name, or delete it"),
    ("new", "x", "--dialect", "mcp", "--template", "hook"): (
        "mcp has no place for a hook",
        "dialects with this template: nexo",
    ),
    ("new", "", "--dialect", "mcp"): ("the name of the extension is empty", "see `exthost new"),
    ("help", "lst"): ("there is no verb 'lst'", "did you mean list?"),
    ("replay", "x", "--process", "٣"): ("'٣' is not a number", "see exthost replay --help"),
    ("replay", "x", "--process", "-1"): ("'-1' is not a number", "see exthost replay --help"),
    ("down", "x"): ("unrecognized arguments: x", "see exthost down --help"),
    ("down", "--", "x"): ("this verb takes no command after --", "exthost inspect -- COMMAND"),
    ("unit", "--run-as", "a\nb"): ("'a\\nb' has a control character", "choose another name"),
    ("inspect", "n" * 5000): ("and there is no exthost.toml here", "give a name, a path"),
    ("inspect", "."): ("it has no manifest and no exthost.toml", "name another folder; a program"),
    ("explain", "mcp-wire-01"): ("there is no error code", "exthost explain lists all error"),
    ("validate", "n" * 5000): ("there is nothing at nnn", "name a folder or a manifest"),
    ("completion", "zhs"): ("SHELL: 'zhs' is not one of bash, zsh", "did you mean zsh?"),
    ("mcp",): ("action is missing", "write exthost mcp import; see exthost mcp --help"),
    ("call",): ("NAME is missing", "write exthost call NAME; see exthost call --help"),
    ("add", "x", "--dialect", "mpc", "--", "ls"): ("no dialect 'mpc'", "did you mean 'mcp'?"),
    ("check", "--rules", "--dialect", "mpc"): ("no dialect 'mpc'", "did you mean 'mcp'?"),
}


@pytest.mark.parametrize(
    ("arguments", "is_json"),
    [
        ("inspect -- ./missing --json", False),
        ("inspect --json -- ./missing", True),
        ("inspect --js -- ./missing", True),
        ("lst -- --json", False),
    ],
)
def test_only_the_json_option_before_the_command_makes_an_error_json(
    arguments: str, is_json: bool, tmp_path: Path
) -> None:
    result = run_inside(*arguments.split(), cwd=tmp_path)
    assert result.returncode in (2, 5)
    assert result.stdout.startswith('{"error":') == is_json
    assert result.stderr.startswith("error[") != is_json


@pytest.mark.parametrize("arguments", USAGE_ERRORS, ids=lambda arguments: " ".join(arguments)[:30])
def test_a_missing_or_misspelt_argument_is_a_usage_error_with_a_suggestion(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    message, help = USAGE_ERRORS[arguments]
    result = run_inside(*arguments, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    headline, *lines = result.stderr.splitlines()
    assert headline.startswith("error[X1") and message in headline
    assert any(line.startswith(f"  help:   {help}") for line in lines), lines


@pytest.mark.parametrize("arguments", ["--help", "--version", "list --help"])
def test_help_that_cannot_be_written_is_an_error_without_a_traceback(arguments: str) -> None:
    result = _run_shell(f"{shlex.join(EXTHOST)} {arguments} > /dev/full")
    assert result.returncode == 2
    assert result.stderr.startswith("error[X1379]: the output cannot be written"), result.stderr


@pytest.mark.sampled
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize(
    ("arguments", "code"), [("", 2), ("--help", 0), ("call --help", 0), ("top --help", 0)]
)
def test_help_is_written_in_every_encoding_of_stdout(
    arguments: str, code: int, encoding: str
) -> None:
    variables = os.environ | {"PYTHONIOENCODING": encoding}
    result = run_process(*arguments.split(), env=variables, encoding=encoding)
    assert (result.returncode, result.stderr) == (code, "")
    assert result.stdout.startswith("usage: exthost") and "\\u2" in result.stdout


def test_messages_that_cannot_be_written_do_not_change_the_outcome(tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").touch()
    line = f"cd {shlex.quote(str(tmp_path))} && {shlex.join(EXTHOST)}"
    assert _run_shell(f"{line} list 2>/dev/full").returncode == 0
    assert _run_shell(f"{line} list nope >/dev/full 2>&1").returncode == 2


# By the arguments of exthost: the code of the error in a deleted working folder.
FOLDER_VERBS = {
    ("list",): "X1316",
    ("run",): "X1316",
    ("doctor",): "X1398",
    ("call", "x"): "X1398",
    ("status",): "X1398",
    ("new", "x", "--dialect", "mcp"): "X1398",
    ("check", "--dialect", "morphir", "--", "true"): "X1398",
    ("inspect", "--dialect", "morphir", "--", "true"): "X0402",
    ("inspect", "--sandbox", "strict", "--dialect", "morphir", "--", "true"): "X0398",
}


@pytest.mark.sampled
@pytest.mark.parametrize("arguments", FOLDER_VERBS)
def test_the_error_for_a_deleted_working_folder_names_it(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    result = run_inside(arguments[0], "--json", *arguments[1:], cwd=folder, deletes_cwd=True)
    error = json.loads(result.stdout)["error"]
    assert error["code"] == FOLDER_VERBS[arguments], error
    text = " ".join([error["message"], *error["evidence"].get("details", ())])
    assert str(folder) in text and "has been deleted" in text, error
    assert "bug" not in error["help"], error


# By the arguments of exthost: the code of the error if the process cannot write files.
WRITING_VERBS = {
    "new x --dialect mcp": "X1329",
    "add x -- true": "X1327",
    f"inspect --dialect morphir -- {sys.executable} {STDERR_WRITER}": "X0405",
}


@pytest.mark.sampled
@pytest.mark.parametrize("arguments", WRITING_VERBS)
def test_the_error_for_a_file_size_limit_names_the_limit(arguments: str, tmp_path: Path) -> None:
    line = f"{shlex.join(EXTHOST)} {arguments}"
    result = _run_shell(f"cd {shlex.quote(str(tmp_path))} && ulimit -f 0 && {line}")
    assert result.returncode in (2, 5), result.stderr
    assert f"error[{WRITING_VERBS[arguments]}]" in result.stderr
    assert "ulimit -f" in result.stderr
    assert list(tmp_path.iterdir()) == []


def _run_shell(script: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_logs_with_a_file_in_place_of_the_state_folder_shows_no_lines(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    (tmp_path / "exthost.toml").write_text(
        "[[extensions]]\nname = 'x'\nsource = { type = 'process', command = 'true' }\n"
    )
    env = {**os.environ, "EXTHOST_HOME": str(tmp_path / "home")}
    result = run_inside("logs", "x", cwd=tmp_path, env=env)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert result.stderr.startswith("x has written nothing yet; its log will be ")


def test_logs_accepts_a_huge_number_of_lines(tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").write_text(
        "[[extensions]]\nname = 'x'\nsource = { type = 'process', command = 'true' }\n"
    )
    assert run_inside("logs", "x", "-n", "9" * 30, cwd=tmp_path).returncode == 0


def test_the_error_for_a_log_that_is_a_folder_names_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    env = {**os.environ, "EXTHOST_HOME": str(home)}
    log = Path(log_file(env, config_key(str(tmp_path / "exthost.toml")), "x"))
    log.mkdir(parents=True)
    result = run_inside("logs", "x", cwd=tmp_path, env=env)
    assert result.returncode == 2
    assert result.stderr.startswith(f"error[X1399]: {log} cannot be used: Is a directory"), (
        result.stderr
    )
