"""`exthost logs`: what an extension said, also after its death, and after its host's."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import (
    EXTHOST,
    RUN_SECONDS,
    extension,
    exthost,
    run_json,
    running,
    write_config,
)


def texts(folder: Path, *words: str) -> list[str]:
    done = exthost(folder, "logs", *words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["text"] for line in done.stdout.splitlines()]


def test_its_log_outlives_it_and_its_host(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"), extension("two"))
    with running(tmp_path):
        [one, two] = run_json(tmp_path, "status")["extensions"]
        assert f"hello from {one['pids'][0]}" in texts(tmp_path, "one")
        os.kill(one["pids"][0], signal.SIGUSR1)
        with subprocess.Popen(
            [*EXTHOST, "logs", "-f", "one"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        ) as following:
            assert following.stdout is not None
            assert any("my last words" in line for line in following.stdout)
            following.send_signal(signal.SIGINT)
            following.stdout.read()
            assert following.wait(timeout=RUN_SECONDS) == 130
    output = texts(tmp_path, "one")
    words = output.index("Traceback: my last words")
    assert output.index(f"process {one['pids'][0]} exited with 3") > words
    assert f"hello from {two['pids'][0]}" in texts(tmp_path, "two")
    lines = exthost(tmp_path, "logs", "one").stdout.splitlines()
    [last] = [line for line in lines if "last words" in line]
    moment, level, source, _ = last.split(" ", 3)
    assert (level, source, moment[-1]) == ("info", "stderr", "Z")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a host that ran "one" and "rude", and has ended."""
    folder = tmp_path_factory.mktemp("ended")
    script = "import os\nos.write(2, b'\\x1b]0;owned\\x07 title\\n')"
    write_config(folder, extension("one"), extension("rude", "python3", "-S", "-c", script))
    with running(folder):
        pass
    return folder


def test_only_so_many_lines_are_shown(ended: Path) -> None:
    everything = texts(ended, "one")
    assert len(everything) > 2
    assert texts(ended, "one", "-n", "2") == everything[-2:]
    assert texts(ended, "one", "-n", "0") == []


def test_the_logs_of_two_configs_are_kept_apart(ended: Path, tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"))
    assert "goodbye" in texts(ended, "one")
    done = exthost(tmp_path, "logs", "one")
    assert (done.returncode, done.stdout) == (0, "") and "has written nothing yet" in done.stderr


def test_a_wrong_name_is_reported(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"))
    error = run_json(tmp_path, "logs", "ona", code=2)["error"]
    assert (error["code"], error["help"]) == ("X1276", "did you mean 'one'?")


def test_an_extension_cannot_write_to_the_terminal_of_a_reader_of_its_log(ended: Path) -> None:
    shown = exthost(ended, "logs", "rude").stdout
    assert "\x1b" not in shown and "\\x1b]0;owned\\x07 title" in shown
    assert texts(ended, "rude")[3] == "\x1b]0;owned\x07 title"
