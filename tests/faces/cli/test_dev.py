"""Tests of `exthost dev`, with which an author works on an extension in a terminal.

It starts the extension, watches its source, and after each save starts it again and repeats the
last call. Keys do the rest: `c` asks for a call, `r` restarts, `t` lists the tools, Enter repeats
the call, `q` quits. With `--build COMMAND` each start is preceded by a build.
"""

import asyncio
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from exthost.faces.cli.dev import DevArgs, _find_build, _Keys
from exthost.faces.cli.source_watch import changed_files, read_stamps, watched_paths
from exthost.model.spec import Spec

# The limit of a wait for an event that always comes. It only bounds a test that hangs.
LONG_SECONDS = 100.0

# An extension in the dialect morphir (JSON lines). Its tool `greet` returns the word that replaces
# {word}.
SOURCE = """\
import json, sys

for line in sys.stdin:
    request = json.loads(line)
    tool = {{"name": "greet", "description": "Greet"}}
    result = {{"initialize": {{}}, "capabilities": [tool]}}.get(request["method"], "{word}")
    print(json.dumps({{"id": request["id"], "result": result}}), flush=True)
"""


class Terminal:
    """The terminal in which a program runs: the test presses keys and waits for its output."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.output = ""
        self._searched = 0  # the end of the text that `wait_for` found last

    def wait_for(self, text: str) -> None:
        """Read until this text is shown, after the text that the last call waited for."""
        deadline = time.monotonic() + LONG_SECONDS
        while (position := self.output.find(text, self._searched)) < 0:
            remaining = deadline - time.monotonic()
            assert remaining > 0, f"{text!r} was not shown: {self.output}"
            if select.select([self._master], [], [], remaining)[0]:
                try:
                    data = os.read(self._master, 4096)
                except OSError:  # the program has ended
                    data = b""
                assert data, f"{text!r} was not shown: {self.output}"
                self.output += data.decode("utf-8", "replace")
        self._searched = position + len(text)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())


@contextmanager
def running_dev(folder: Path, *arguments: str) -> Iterator[Terminal]:
    """Run `exthost dev` in a terminal; end it with the key q."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "exthost", "dev", *arguments]
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
    with running_dev(tmp_path, *command) as terminal:
        terminal.wait_for("is ready")
        terminal.press("c")
        terminal.wait_for("call: ")
        terminal.press("greet name=x\n")
        terminal.wait_for('greet {"name": "x"} -> hello')
        program.write_text(SOURCE.format(word="goodbye"))
        terminal.wait_for("saved: ext.py")
        terminal.wait_for('greet {"name": "x"} -> goodbye')
        # If the new program cannot be started, the host waits for the next save.
        program.write_text("raise SystemExit('not yet')\n")
        terminal.wait_for("not yet")
        terminal.wait_for("waiting for a change")
        program.write_text(SOURCE.format(word="welcome back"))
        terminal.wait_for('greet {"name": "x"} -> welcome back')
        terminal.press("t")
        terminal.wait_for("greet  Greet")
        terminal.press("\n")
        terminal.wait_for("-> welcome back")


def test_dev_shows_the_messages_of_the_extension(tmp_path: Path) -> None:
    (tmp_path / "ext.py").write_text(SOURCE.format(word="hello"))
    command = ["--dialect", "morphir", "--", sys.executable, "-S", "ext.py"]
    with running_dev(tmp_path, "--call", "greet {}", *command) as terminal:
        terminal.wait_for("capabilities")
        terminal.wait_for("greet {} -> hello")


@pytest.mark.parametrize("change", ["write", "add", "remove"])
def test_a_change_of_the_sources_is_detected(change: str, tmp_path: Path) -> None:
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


def test_files_that_tools_generate_are_not_watched(tmp_path: Path) -> None:
    before = read_stamps([tmp_path])
    for name in ("__pycache__/a.pyc", "node_modules/x.js", ".git/index", "a.pyc", "a.log"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    assert read_stamps([tmp_path]) == before == {}


def test_the_script_of_a_command_or_the_folder_of_the_extension_is_watched(tmp_path: Path) -> None:
    script = tmp_path / "ext.py"
    script.write_text("")
    assert watched_paths(None, [sys.executable, str(script), "--dialect", "mcp"]) == [script]
    assert watched_paths(str(tmp_path), ["true"]) == [tmp_path]
    assert watched_paths(None, ["python3", "-c", "x=1;" * 2000]) == []  # too long for a path


def test_only_a_compiled_program_is_built(tmp_path: Path) -> None:
    """A build of any other word would replace the file of that name by a program."""
    (tmp_path / "go.mod").touch()
    args = DevArgs(build=None)
    for argv in (("python3", "ext.py"), ("go", "run", "."), ("./ext.py",), ("sh", "run")):
        assert _find_build(args, Spec(id="a", argv=argv, cwd=str(tmp_path)), None) is None
    build = _find_build(args, Spec(id="a", argv=("./server", "mcp"), cwd=str(tmp_path)), None)
    assert build is not None and build.argv[:4] == ("go", "build", "-o", "server")


@pytest.mark.more  # it waits for the time limits of four processes
def test_the_time_limit_of_dev_and_check_bounds_start_and_detection(tmp_path: Path) -> None:
    silent = ["--", sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    with running_dev(tmp_path, "--timeout", "500ms", "--dialect", "morphir", *silent) as terminal:
        terminal.wait_for("it was not ready within 0.5 s")
        terminal.wait_for("waiting for a change")
    for verb in ("dev", "check", "inspect"):
        result = subprocess.run(
            [sys.executable, "-m", "exthost", verb, "--timeout", "500ms", *silent],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONG_SECONDS,
            check=False,
        )
        assert result.returncode == 5, result.stderr
        assert "X0504" in result.stderr


@pytest.mark.more  # waits for three starts
def test_dev_builds_before_each_start_and_never_calls_an_old_program(tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text(SOURCE.format(word="hello"))
    build = "grep -q import source.txt || { echo no import; exit 1; }; cp source.txt program.py"
    arguments = ["--build", build, "--watch", "source.txt", "--call", "greet"]
    arguments += ["--dialect", "morphir", "--", sys.executable, "program.py"]
    with running_dev(tmp_path, *arguments) as terminal:
        terminal.wait_for("greet {} -> hello")
        source.write_text("broken")
        terminal.wait_for("no import")
        terminal.wait_for("the build failed")
        terminal.press("\r")
        terminal.wait_for("the program is not the one of these sources")
        source.write_text(SOURCE.format(word="goodbye"))
        terminal.wait_for("greet {} -> goodbye")
    assert terminal.output.count("-> hello") == 1  # only before the build failed


@pytest.mark.more  # waits for a start
def test_dev_builds_again_if_a_source_was_saved_during_the_build(tmp_path: Path) -> None:
    source, generated = tmp_path / "source.txt", tmp_path / "generated.txt"
    source.write_text(SOURCE.format(word="hello"))
    generated.write_text("1")
    # Each build changes generated.txt, which is watched, too. It lasts until the file `release`
    # exists, so that the test can save a source in the meantime.
    build = (
        "cp source.txt program.py; echo 1 >> generated.txt; touch copied; "
        "until [ -e release ]; do sleep 0.05; done"
    )
    arguments = ["--build", build, "--watch", "source.txt", "--watch", "generated.txt"]
    arguments += ["--call", "greet", "--dialect", "morphir", "--", sys.executable, "program.py"]
    with running_dev(tmp_path, *arguments) as terminal:
        terminal.wait_for("building")
        deadline = time.monotonic() + LONG_SECONDS
        while not (tmp_path / "copied").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        source.write_text(SOURCE.format(word="goodbye"))
        (tmp_path / "release").touch()
        terminal.wait_for("saved during the build: generated.txt, source.txt")
        terminal.wait_for("greet {} -> goodbye")
        terminal.press("r")
        terminal.wait_for("greet {} -> goodbye")
    # The builds: at the start, because of the save, and because of the key r. The changes of
    # generated.txt caused none.
    assert "-> hello" not in terminal.output and terminal.output.count("building") == 3


@pytest.mark.more  # waits for a build
def test_a_key_after_a_first_build_that_failed_is_answered(tmp_path: Path) -> None:
    arguments = ["--build", "echo no; exit 1", "--call", "greet", "--dialect", "morphir"]
    with running_dev(tmp_path, *arguments, "--", sys.executable, "program.py") as terminal:
        terminal.wait_for("the build failed")
        for key in "\rt":
            terminal.press(key)
            terminal.wait_for("the program is not the one of these sources")


def test_backspace_removes_all_columns_of_a_character(capsys: pytest.CaptureFixture[str]) -> None:
    async def read() -> str:
        with closing(_Keys()) as keys:
            for key in ("a", "設", "backspace", "b", "backspace", "backspace", "backspace", "c"):
                keys._queue.put_nowait(key)
            keys._queue.put_nowait("enter")
            return await keys.read_line("call: ")

    assert asyncio.run(read()) == "c"
    erase = "\b \b"
    assert capsys.readouterr().err == f"call: a設{erase * 2}b{erase * 2}c\n"
