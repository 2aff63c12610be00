"""`exthost dev`, on a terminal of its own: a save restarts the extension and repeats the call."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exthost.faces.cli.source_watch import changed_files, read_stamps, watched_paths

# A limit that no test is about.
LONG_SECONDS = 100.0

SOURCE = """\
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    tool = {{"name": "greet", "description": "Greet"}}
    result = {{"initialize": {{}}, "capabilities": [tool]}}.get(asked["method"], "{word}")
    print(json.dumps({{"id": asked["id"], "result": result}}), flush=True)
"""


class Terminal:
    """The terminal of a program: what it shows, and keys."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.shown = ""
        self._from = 0

    def wait_for(self, text: str) -> None:
        """Read until this text comes, after the one that was waited for last."""
        deadline = time.monotonic() + LONG_SECONDS
        while (at := self.shown.find(text, self._from)) < 0:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} did not come: {self.shown}"
            if select.select([self._master], [], [], left)[0]:
                try:
                    data = os.read(self._master, 4096)
                except OSError:  # the program has ended
                    data = b""
                assert data, f"{text!r} did not come: {self.shown}"
                self.shown += data.decode("utf-8", "replace")
        self._from = at + len(text)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())


@contextmanager
def developing(folder: Path, *words: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "exthost", "dev", *words]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, start_new_session=True
    ) as process:
        os.close(slave)
        terminal = Terminal(master)
        try:
            yield terminal
            terminal.press("q")
            assert process.wait(timeout=LONG_SECONDS) == 0
        finally:
            process.kill()
            process.wait()
            os.close(master)


def test_a_save_restarts_and_repeats_the_last_call(tmp_path: Path) -> None:
    program = tmp_path / "ext.py"
    program.write_text(SOURCE.format(word="hello"))
    command = ["--dialect", "morphir", "--", sys.executable, "-S", "ext.py"]
    with developing(tmp_path, *command) as terminal:
        terminal.wait_for("is ready")
        terminal.press("c")
        terminal.wait_for("call: ")
        terminal.press("greet name=x\n")
        terminal.wait_for('greet {"name": "x"} -> hello')
        program.write_text(SOURCE.format(word="goodbye"))
        terminal.wait_for("saved: ext.py")
        terminal.wait_for('greet {"name": "x"} -> goodbye')
        # What cannot be started leaves the host as it is, and the next save is tried again.
        program.write_text("raise SystemExit('not yet')\n")
        terminal.wait_for("not yet")
        terminal.wait_for("waiting for a change")
        program.write_text(SOURCE.format(word="welcome back"))
        terminal.wait_for('greet {"name": "x"} -> welcome back')
        terminal.press("t")
        terminal.wait_for("greet  Greet")
        terminal.press("\n")
        terminal.wait_for("-> welcome back")


def test_the_traffic_is_shown(tmp_path: Path) -> None:
    (tmp_path / "ext.py").write_text(SOURCE.format(word="hello"))
    command = ["--dialect", "morphir", "--", sys.executable, "-S", "ext.py"]
    with developing(tmp_path, "--call", "greet {}", *command) as terminal:
        terminal.wait_for("capabilities")
        terminal.wait_for("greet {} -> hello")


@pytest.mark.parametrize("change", ["write", "add", "remove"])
def test_a_change_of_the_sources_is_seen(change: str, tmp_path: Path) -> None:
    source = tmp_path / "src" / "a.py"
    source.parent.mkdir()
    source.write_text("1")
    before = read_stamps([tmp_path])
    if change == "write":
        source.write_text("22")
    elif change == "add":
        (tmp_path / "src" / "b.py").write_text("1")
    else:
        source.unlink()
    assert len(changed_files(before, read_stamps([tmp_path]))) == 1


def test_files_that_tools_write_themselves_do_not_count(tmp_path: Path) -> None:
    before = read_stamps([tmp_path])
    for name in ("__pycache__/a.pyc", "node_modules/x.js", ".git/index", "a.pyc", "a.log"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    assert read_stamps([tmp_path]) == before == {}


def test_of_a_command_its_own_files_are_watched(tmp_path: Path) -> None:
    script = tmp_path / "ext.py"
    script.write_text("")
    assert watched_paths(None, [sys.executable, str(script), "--dialect", "mcp"]) == [script]
    assert watched_paths(str(tmp_path), ["true"]) == [tmp_path]


@pytest.mark.more  # two processes, and the time limits that they are about
def test_the_time_limit_of_dev_and_check_bounds_start_and_detection(tmp_path: Path) -> None:
    silent = ["--", sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    with developing(tmp_path, "--timeout", "500ms", "--dialect", "morphir", *silent) as terminal:
        terminal.wait_for("it was not ready within 0.5 s")
        terminal.wait_for("waiting for a change")
    for verb in ("dev", "check", "inspect"):
        done = subprocess.run(
            [sys.executable, "-m", "exthost", verb, "--timeout", "500ms", *silent],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONG_SECONDS,
            check=False,
        )
        assert done.returncode == 5, done.stderr
        assert "X0504" in done.stderr
