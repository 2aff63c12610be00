"""How a verb ends when its arguments, its output or its working folder cannot be used."""

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

# Arguments → the message and the help of the error.
SLIPS = {
    ("new",): ("NAME and --dialect are missing", "example: exthost new weather --dialect mcp"),
    ("new", "--dialect", "mcp"): ("NAME is missing", "example: exthost new weather --dialect mcp"),
    ("new", "x", "--dialect", "mpc"): ("--dialect: 'mpc' is not one of", "did you mean mcp?"),
    ("new", "x", "--dialect", "mcp", "--lang", "rus"): ("--lang: 'rus'", "did you mean rust?"),
    ("new", "", "--dialect", "mcp"): ("the name of the extension is empty", "see `exthost new"),
    ("help", "lst"): ("there is no verb 'lst'", "did you mean list?"),
    ("down", "x"): ("unrecognized arguments: x", "see exthost down --help"),
    ("unit", "--run-as", "a\nb"): ("'a\\nb' has a control character", "choose another name"),
    ("inspect", "n" * 5000): ("is neither an extension in the config", "give a name, a path"),
    ("validate", "n" * 5000): ("there is nothing at nnn", "name a folder or a manifest"),
    ("completion", "zhs"): ("SHELL: 'zhs' is not one of bash, zsh", "did you mean zsh?"),
    ("mcp",): ("action is missing", "write exthost mcp import; see exthost mcp --help"),
    ("call",): ("NAME is missing", "write exthost call NAME; see exthost call --help"),
    ("add", "x", "--dialect", "mpc", "--", "ls"): ("no dialect 'mpc'", "did you mean 'mcp'?"),
    ("check", "--rules", "--dialect", "mpc"): ("no dialect 'mpc'", "did you mean 'mcp'?"),
}


@pytest.mark.parametrize("words", SLIPS, ids=lambda words: " ".join(words)[:30])
def test_a_missing_or_misspelt_word_is_a_usage_error_with_the_correct_form(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    message, help = SLIPS[words]
    done = run_inside(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    headline, *lines = done.stderr.splitlines()
    assert headline.startswith("error[X1") and message in headline
    assert any(line.startswith(f"  help:   {help}") for line in lines), lines


@pytest.mark.parametrize("words", ["--help", "--version", "list --help"])
def test_help_that_cannot_be_written_is_an_error_and_no_traceback(words: str) -> None:
    done = _run_shell(f"{shlex.join(EXTHOST)} {words} > /dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith("error[X1379]: the output cannot be written"), done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize(
    ("words", "code"), [("", 2), ("--help", 0), ("call --help", 0), ("top --help", 0)]
)
def test_help_is_written_in_every_encoding_of_stdout(words: str, code: int, encoding: str) -> None:
    variables = os.environ | {"PYTHONIOENCODING": encoding}
    done = run_process(*words.split(), env=variables, encoding=encoding)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith("usage: exthost") and "\\u2" in done.stdout


def test_messages_that_cannot_be_written_do_not_change_the_outcome(tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").touch()
    line = f"cd {shlex.quote(str(tmp_path))} && {shlex.join(EXTHOST)}"
    assert _run_shell(f"{line} list 2>/dev/full").returncode == 0
    assert _run_shell(f"{line} list nope >/dev/full 2>&1").returncode == 2


# Arguments → the code of the error in a deleted working folder.
FOLDER_VERBS = {
    ("list",): "X1316",
    ("run",): "X1316",
    ("doctor",): "X1316",
    ("call", "x"): "X1398",
    ("status",): "X1398",
    ("new", "x", "--dialect", "mcp"): "X1398",
    ("check", "--dialect", "morphir", "--", "true"): "X1398",
    ("inspect", "--dialect", "morphir", "--", "true"): "X0402",
    ("inspect", "--sandbox", "strict", "--dialect", "morphir", "--", "true"): "X0398",
}


@pytest.mark.parametrize("words", FOLDER_VERBS)
def test_a_deleted_working_folder_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    done = run_inside(words[0], "--json", *words[1:], cwd=folder, deletes_cwd=True)
    error = json.loads(done.stdout)["error"]
    assert error["code"] == FOLDER_VERBS[words], error
    text = " ".join([error["message"], *error["evidence"].get("details", ())])
    assert str(folder) in text and "has been deleted" in text, error
    assert "bug" not in error["help"], error


# What is written → the error of a process that may write no file.
WRITERS = {
    "new x --dialect mcp": "X1329",
    "add x -- true": "X1327",
    f"inspect --dialect morphir -- {sys.executable} {STDERR_WRITER}": "X0405",
}


@pytest.mark.parametrize("words", WRITERS)
def test_a_limit_of_file_sizes_is_named(words: str, tmp_path: Path) -> None:
    line = f"{shlex.join(EXTHOST)} {words}"
    done = _run_shell(f"cd {shlex.quote(str(tmp_path))} && ulimit -f 0 && {line}")
    assert done.returncode in (2, 5), done.stderr
    assert f"error[{WRITERS[words]}]" in done.stderr
    assert "ulimit -f" in done.stderr
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


def test_a_state_folder_that_is_a_file_has_no_logs(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    (tmp_path / "exthost.toml").write_text(
        "[[extensions]]\nname = 'x'\nsource = { type = 'process', command = 'true' }\n"
    )
    env = {**os.environ, "EXTHOST_HOME": str(tmp_path / "home")}
    done = run_inside("logs", "x", cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.startswith("x has written nothing yet; its log will be ")


def test_more_lines_than_a_machine_can_count_are_all_lines(tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").write_text(
        "[[extensions]]\nname = 'x'\nsource = { type = 'process', command = 'true' }\n"
    )
    assert run_inside("logs", "x", "-n", "9" * 30, cwd=tmp_path).returncode == 0


def test_a_file_that_the_system_refuses_is_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    env = {**os.environ, "EXTHOST_HOME": str(home)}
    log = Path(log_file(env, config_key(str(tmp_path / "exthost.toml")), "x"))
    log.mkdir(parents=True)
    done = run_inside("logs", "x", cwd=tmp_path, env=env)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error[X1399]: {log} cannot be used: Is a directory"), (
        done.stderr
    )
