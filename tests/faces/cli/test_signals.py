"""Ctrl-C once drains, twice kills; SIGTERM is one Ctrl-C; on a terminal, with a live table.

The terminal is a real one (a pty), and Ctrl-C is its own key: the kernel sends the signal.
"""

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.extensions.harness import command as hostile_command
from tests.faces.cli.cli_process import (
    EXTHOST,
    PATIENT,
    STDERR_WRITER,
    extension,
    exthost,
    running,
    write_config,
)

CTRL_C = b"\x03"
WAIT_SECONDS = 150.0


class Terminal:
    """A verb that runs in a terminal of its own."""

    def __init__(
        self, folder: Path, program: Sequence[str], verb: str = "run", **variables: str
    ) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:  # pragma: no cover - another process
            os.chdir(folder)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it
            env = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "40", **variables}
            os.execve(program[0], [*program, verb], env)
        self.shown = b""

    def until(self, text: str) -> None:
        """Read until this was shown since the last time."""
        begin = len(self.shown)
        deadline = time.monotonic() + WAIT_SECONDS
        while text.encode() not in self.shown[begin:]:
            assert self._read(deadline - time.monotonic()), self.shown[-2000:].decode()

    def press(self, key: bytes) -> None:
        os.write(self.fd, key)

    def end(self) -> int:
        """Read to the end; its exit code."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self._read(deadline - time.monotonic()):
            pass
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.fd], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other end is closed
            return False
        self.shown += data
        return bool(data)

    def hang_up(self) -> int:
        """Close the terminal under it; its exit code."""
        os.close(self.fd)
        self.fd = -1
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.fd >= 0:
            os.close(self.fd)


@contextmanager
def terminal(
    folder: Path, program: Sequence[str] = EXTHOST, verb: str = "run", **variables: str
) -> Iterator[Terminal]:
    opened = Terminal(folder, program, verb, **variables)
    try:
        yield opened
    finally:
        opened.close()


def writer(drained: Path) -> str:
    return extension("one", EXTHOST[0], "-S", "-E", str(STDERR_WRITER), str(drained))


def test_the_table_shows_each_extension_and_goes_when_the_host_does(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"), extension("gone", "no-such-program"))
    with terminal(tmp_path) as screen:
        screen.until("1 of 2 extensions ready")
        screen.until("LAST ERROR")
        screen.until("ready")
        exthost(tmp_path, "stop", "one")
        screen.until("stopped")
        screen.press(CTRL_C)
        assert screen.end() == 130
    shown = screen.shown.decode()
    assert "hello from" in shown and "there is no program 'no-such-program'" in shown
    assert "\x1b[?25l" in shown and shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert (tmp_path / "drained").read_text() == "drained"


def test_ctrl_c_lets_extensions_end_in_order(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with terminal(tmp_path) as screen:
        screen.until("extensions ready")
        screen.press(CTRL_C)
        assert screen.end() == 130
    assert (tmp_path / "drained").read_text() == "drained"
    assert "goodbye" in screen.shown.decode()


def test_ctrl_c_twice_kills_at_once(tmp_path: Path) -> None:
    write_config(tmp_path, extension("h", *hostile_command("stubborn")))
    with terminal(tmp_path, PATIENT) as screen:
        screen.until("extensions ready")
        screen.press(CTRL_C)
        screen.until("again kills")
        screen.press(CTRL_C)
        assert screen.end() == 130
    assert "killing" in screen.shown.decode()


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_a_terminal_that_cannot_or_does_not_want_colours_gets_plain_text(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with terminal(tmp_path, **variables) as screen:
        screen.until("extensions ready")
        screen.press(CTRL_C)
        assert screen.end() == 130
    assert b"\x1b[32m" not in screen.shown
    assert ("TERM" in variables) == (b"\x1b" not in screen.shown)
    assert ("TERM" in variables) == (b"one: ready" in screen.shown)


def test_a_host_that_is_refused_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with running(tmp_path), terminal(tmp_path) as screen:
        assert screen.end() == 2
    shown = screen.shown.decode()
    assert "X1375" in shown and shown.rfind("\x1b[?25h") >= shown.rfind("\x1b[?25l")


def test_sigterm_is_one_ctrl_c(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with running(tmp_path) as host:
        host.send_signal(signal.SIGTERM)
        _, talk = host.communicate(timeout=WAIT_SECONDS)
    assert host.returncode == 0
    assert "one: stopped" in talk and (tmp_path / "drained").exists()


def test_the_end_of_the_terminal_is_one_ctrl_c(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with terminal(tmp_path) as screen:
        screen.until("extensions ready")
        assert screen.hang_up() == 0
    assert (tmp_path / "drained").read_text() == "drained"


def test_ctrl_c_while_extensions_still_start_ends_them_too(tmp_path: Path) -> None:
    write_config(tmp_path, extension("h", *hostile_command("hang_at=initialize")))
    with subprocess.Popen(
        [*EXTHOST, "run"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as host:
        assert host.stderr is not None
        assert any("h: starting" in line for line in host.stderr)
        host.send_signal(signal.SIGINT)
        host.communicate(timeout=WAIT_SECONDS)
        assert host.returncode == 130


def test_a_flood_of_lines_does_not_delay_the_table_and_the_log_counts_dropped_lines(
    tmp_path: Path,
) -> None:
    script = (
        "import os, sys\n"
        "for n in range(20000): os.write(2, b'line %d\\n' % n)\n"
        f"exec(open({str(STDERR_WRITER)!r}).read())\n"
    )
    (tmp_path / "flood.py").write_text(script)
    write_config(tmp_path, extension("f", EXTHOST[0], "-S", "-E", str(tmp_path / "flood.py")))
    with terminal(tmp_path) as screen:
        screen.until("extensions ready")
        screen.press(CTRL_C)
        assert screen.end() == 130
    shown = screen.shown.decode()
    assert "more lines: exthost logs" in shown and shown.count("] line ") < 5000
    logged = exthost(tmp_path, "logs", "-n", "30000", "f").stdout.splitlines()
    kept = sum(bool(re.search(" stderr (line|hello|goodbye)", line)) for line in logged)
    dropped = [int(n) for line in logged for n in re.findall(r"dropped: .* \((\d+) so far\)", line)]
    assert kept and kept + dropped[-1] == 20002, "each line is in the log, or counted"


def test_the_host_goes_on_when_its_output_is_not_read(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with running(tmp_path) as host:
        assert host.stderr is not None and host.stdout is not None
        host.stderr.close()
        assert exthost(tmp_path, "restart", "one").returncode == 0
        host.send_signal(signal.SIGINT)
        assert host.wait(timeout=WAIT_SECONDS) == 130
        host.stdout.close()
    assert (tmp_path / "drained").exists()


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_reader_that_does_not_read_does_not_block_the_host(
    tmp_path: Path, words: list[str]
) -> None:
    script = (
        "import os, sys\n"
        "for n in range(20000): os.write(2, b'line %d %s\\n' % (n, b'x' * 100))\n"
        f"exec(open({str(STDERR_WRITER)!r}).read())\n"
    )
    (tmp_path / "flood.py").write_text(script)
    write_config(tmp_path, extension("f", EXTHOST[0], "-S", "-E", str(tmp_path / "flood.py")))
    with subprocess.Popen(
        [*EXTHOST, "run", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as host:
        deadline = time.monotonic() + WAIT_SECONDS
        while "ready" not in exthost(tmp_path, "status").stdout:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert exthost(tmp_path, "restart", "f").returncode == 0
        host.send_signal(signal.SIGTERM)
        assert host.wait(timeout=WAIT_SECONDS) == 0


def test_a_stopped_terminal_does_not_block_the_host(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with terminal(tmp_path) as screen:
        screen.until("extensions ready")
        screen.press(b"\x13")  # Ctrl-S: the terminal takes no more
        for _ in range(2):
            assert exthost(tmp_path, "restart", "one").returncode == 0
        screen.press(b"\x11")
        screen.press(CTRL_C)
        assert screen.end() == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_storm_of_signals_changes_nothing_about_the_exit_code(
    tmp_path: Path, number: signal.Signals
) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    for _ in range(5):
        host = subprocess.Popen(
            [*EXTHOST, "run"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert host.stderr is not None
        try:
            while b"extensions ready" not in (line := host.stderr.readline()):
                assert line, "it has ended"
            deadline = time.monotonic() + WAIT_SECONDS
            while host.poll() is None:
                assert time.monotonic() < deadline
                host.send_signal(number)
            assert host.returncode == (130 if number is signal.SIGINT else 0)
        finally:
            host.kill()
            host.wait()
            host.stderr.close()
