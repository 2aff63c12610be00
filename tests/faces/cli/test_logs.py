"""Tests of `exthost logs`, which shows the output of extensions from their log files.

The files remain after the extension and its host have ended. The extension here
(`stderr_writer.py`) writes "hello from PID" when it starts, "goodbye" when it is stopped, and "my
last words" on SIGUSR1, which ends it.
"""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from exthost.host.control.socket_path import config_key
from exthost.host.extension_logs import rotated_path
from exthost.process.state_dirs import log_file
from tests.faces.cli.cli_process import (
    EXTHOST,
    RUN_SECONDS,
    extension,
    host_process,
    run_exthost,
    run_inside,
    run_json,
    write_config,
)


def log_texts(folder: Path, *arguments: str) -> list[str]:
    """Return the texts of the lines that `exthost logs` prints."""
    result = run_exthost(folder, "logs", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return [json.loads(line)["text"] for line in result.stdout.splitlines()]


@pytest.mark.more
def test_the_log_can_be_read_after_the_extension_and_its_host_ended(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"), extension("two"))
    with host_process(tmp_path):
        [one, two] = run_json(tmp_path, "status")["extensions"]
        assert f"hello from {one['pids'][0]}" in log_texts(tmp_path, "one")
        os.kill(one["pids"][0], signal.SIGUSR1)
        with subprocess.Popen(
            [*EXTHOST, "logs", "-f", "one"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        ) as logs:
            assert logs.stdout is not None
            assert any("my last words" in line for line in logs.stdout)
            logs.send_signal(signal.SIGINT)
            logs.stdout.read()
            assert logs.wait(timeout=RUN_SECONDS) == 130
    output = log_texts(tmp_path, "one")
    last_words = output.index("Traceback: my last words")
    assert output.index(f"process {one['pids'][0]} exited with 3") > last_words
    assert f"hello from {two['pids'][0]}" in log_texts(tmp_path, "two")
    lines = run_exthost(tmp_path, "logs", "one").stdout.splitlines()
    [last] = [line for line in lines if "last words" in line]
    time, level, source, _ = last.split(" ", 3)
    assert (level, source, time[-1]) == ("info", "stderr", "Z")


@pytest.fixture(scope="module")
def folder_of_ended_host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a host that ran "one" and "rude", and has ended."""
    folder = tmp_path_factory.mktemp("ended")
    script = "import os\nos.write(2, b'\\x1b]0;owned\\x07 title\\n')"
    write_config(folder, extension("one"), extension("rude", "python3", "-S", "-c", script))
    with host_process(folder):
        pass
    return folder


def test_the_number_of_lines_can_be_limited(folder_of_ended_host: Path) -> None:
    everything = log_texts(folder_of_ended_host, "one")
    assert len(everything) > 2
    assert log_texts(folder_of_ended_host, "one", "-n", "2") == everything[-2:]
    assert log_texts(folder_of_ended_host, "one", "-n", "0") == []


def test_the_logs_of_two_configs_are_kept_apart(folder_of_ended_host: Path, tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"))
    assert "goodbye" in log_texts(folder_of_ended_host, "one")
    result = run_exthost(tmp_path, "logs", "one")
    assert (result.returncode, result.stdout) == (0, "")
    assert "has written nothing yet" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--since", "²"], "'²' is neither a duration such as 10m nor a time"),
        (["--since", "٣"], "'٣' is not a duration"),
        (["--since", "0001-01-01T00:00:00+14:00"], "is neither a duration such as 10m nor a time"),
        (["--grep", "a{99999999999}"], "is not a regular expression: the repetition number"),
        (["--grep", "(" * 5000 + ")" * 5000], "is not a regular expression"),
    ],
)
def test_a_time_or_a_pattern_that_cannot_be_read_is_a_usage_error(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    result = run_exthost(tmp_path, "logs", *arguments)
    assert result.returncode == 2, result.stderr
    assert message in result.stderr


def test_an_extension_whose_name_contains_the_suffix_of_logs_is_shown(tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").write_text("")
    environ = {**os.environ, "EXTHOST_HOME": str(tmp_path / "state")}
    for name in ("my.logger", "other"):
        key = config_key(str(tmp_path / "exthost.toml"))
        file = Path(log_file(environ, key, name))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"2026-01-31T12:00:00.000Z info stderr I am {name}\n")
    file.rename(rotated_path(file))
    result = run_inside("logs", "--json", cwd=tmp_path, env=environ)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["extension"] for row in rows] == ["my.logger", "other"]


def test_an_unknown_name_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"))
    error = run_json(tmp_path, "logs", "ona", code=2)["error"]
    assert (error["code"], error["help"]) == ("X1276", "did you mean 'one'?")


def test_a_name_that_begins_with_a_hyphen_is_written_after_two_hyphens(tmp_path: Path) -> None:
    write_config(tmp_path, extension("-f"))
    result = run_exthost(tmp_path, "logs", "--", "-f")
    assert result.returncode == 0 and "-f has written nothing yet" in result.stderr
    result = run_exthost(tmp_path, "info", "--json", "--", "-f")
    assert json.loads(result.stdout)["id"] == "-f"


def test_an_extension_cannot_write_to_the_terminal_of_a_reader_of_its_log(
    folder_of_ended_host: Path,
) -> None:
    output = run_exthost(folder_of_ended_host, "logs", "rude").stdout
    assert "\x1b" not in output and "\\x1b]0;owned\\x07 title" in output
    assert log_texts(folder_of_ended_host, "rude")[3] == "\x1b]0;owned\x07 title"
