"""Tests of signals to `exthost run`, which runs a host with a table of its extensions.

The first Ctrl-C or SIGTERM stops the extensions in order: each can finish its work. The second one
kills them. Most tests run the host in a pseudoterminal; they press Ctrl-C there, and the kernel
sends the signal. Other modules use `terminal`, too.
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

from tests.extensions.harness import hostile_command as hostile_command
from tests.faces.cli.cli_process import (
    EXTHOST,
    PATIENT,
    STDERR_WRITER,
    extension,
    host_process,
    run_exthost,
    write_config,
)

CTRL_C = b"\x03"
WAIT_SECONDS = 150.0  # the limit of every wait; it only bounds a test that hangs
FLOOD_LINES = 20_000  # more than the host reads at once, and than it prints


class Terminal:
    """A verb that runs in a pseudoterminal: `wait_for` waits for output, `press` sends a key.

    Use it by the context manager `terminal`.
    """

    def __init__(
        self, folder: Path, program: Sequence[str], verb: str = "run", **variables: str
    ) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:  # pragma: no cover - another process
            os.chdir(folder)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # pytest could be run with SIGHUP ignored
            env = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "40", **variables}
            os.execve(program[0], [*program, verb], env)
        self.output = b""

    def wait_for(self, text: str) -> None:
        """Read until this text is shown after the output that was already read."""
        begin = len(self.output)
        deadline = time.monotonic() + WAIT_SECONDS
        while text.encode() not in self.output[begin:]:
            assert self._read(deadline - time.monotonic()), self.output[-2000:].decode()

    def press(self, key: bytes) -> None:
        os.write(self.fd, key)

    def end(self) -> int:
        """Read the output to its end; return the exit code."""
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
        self.output += data
        return bool(data)

    def hang_up(self) -> int:
        """Close the terminal while the verb runs; return the exit code."""
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
    """Yield a verb that runs in a pseudoterminal; kill it at the end if it still runs."""
    screen = Terminal(folder, program, verb, **variables)
    try:
        yield screen
    finally:
        screen.close()


def writer(drained: Path) -> str:
    """Return the entry of an extension that writes to this file when it ends in order."""
    return extension("one", EXTHOST[0], "-S", "-E", str(STDERR_WRITER), str(drained))


@pytest.mark.more
def test_the_table_shows_each_extension_and_is_removed_at_the_end(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"), extension("gone", "no-such-program"))
    with terminal(tmp_path) as screen:
        screen.wait_for("1 of 2 extensions ready")
        screen.wait_for("LAST ERROR")
        screen.wait_for("ready")
        run_exthost(tmp_path, "stop", "one")
        screen.wait_for("stopped")
        screen.press(CTRL_C)
        assert screen.end() == 130
    output = screen.output.decode()
    assert "hello from" in output and "there is no program 'no-such-program'" in output
    # The cursor is hidden, and shown again at the end.
    assert "\x1b[?25l" in output and output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")
    assert (tmp_path / "drained").read_text() == "drained"


def test_ctrl_c_lets_extensions_end_in_order(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with terminal(tmp_path) as screen:
        screen.wait_for("extensions ready")
        screen.press(CTRL_C)
        assert screen.end() == 130
    assert (tmp_path / "drained").read_text() == "drained"
    assert "goodbye" in screen.output.decode()


def test_ctrl_c_twice_kills_at_once(tmp_path: Path) -> None:
    write_config(tmp_path, extension("h", *hostile_command("stubborn")))
    with terminal(tmp_path, PATIENT) as screen:
        screen.wait_for("extensions ready")
        screen.press(CTRL_C)
        screen.wait_for("again kills")
        screen.press(CTRL_C)
        assert screen.end() == 130
    assert "killing" in screen.output.decode()


@pytest.mark.more
@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_a_terminal_that_cannot_or_does_not_want_colours_gets_plain_text(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with terminal(tmp_path, **variables) as screen:
        screen.wait_for("extensions ready")
        screen.press(CTRL_C)
        assert screen.end() == 130
    assert b"\x1b[32m" not in screen.output
    assert ("TERM" in variables) == (b"\x1b" not in screen.output)
    assert ("TERM" in variables) == (b"one: ready" in screen.output)


@pytest.mark.more
def test_a_host_that_is_refused_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with host_process(tmp_path), terminal(tmp_path) as screen:
        assert screen.end() == 2
    output = screen.output.decode()
    assert "X1375" in output and output.rfind("\x1b[?25h") >= output.rfind("\x1b[?25l")


def test_sigterm_stops_the_host_in_order(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with host_process(tmp_path) as host:
        host.send_signal(signal.SIGTERM)
        _, stderr = host.communicate(timeout=WAIT_SECONDS)
    assert host.returncode == 0
    assert "one: stopped" in stderr and (tmp_path / "drained").exists()


@pytest.mark.more
def test_closing_the_terminal_stops_the_host_in_order(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with terminal(tmp_path) as screen:
        screen.wait_for("extensions ready")
        assert screen.hang_up() == 0
    assert (tmp_path / "drained").read_text() == "drained"


@pytest.mark.more
def test_ctrl_c_ends_extensions_that_are_still_starting(tmp_path: Path) -> None:
    write_config(tmp_path, extension("h", *hostile_command("hang_at=initialize")))
    with subprocess.Popen(
        [*EXTHOST, "run"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as host:
        assert host.stderr is not None
        assert any("h: starting" in line for line in host.stderr)
        host.send_signal(signal.SIGINT)
        host.communicate(timeout=WAIT_SECONDS)
        assert host.returncode == 130


@pytest.mark.more
def test_a_flood_of_lines_does_not_delay_the_table_and_the_log_counts_dropped_lines(
    tmp_path: Path,
) -> None:
    script = (
        "import os, sys\n"
        f"for n in range({FLOOD_LINES}): os.write(2, b'line %d\\n' % n)\n"
        f"exec(open({str(STDERR_WRITER)!r}).read())\n"
    )
    (tmp_path / "flood.py").write_text(script)
    write_config(tmp_path, extension("f", EXTHOST[0], "-S", "-E", str(tmp_path / "flood.py")))
    with terminal(tmp_path) as screen:
        screen.wait_for("extensions ready")
        screen.press(CTRL_C)
        assert screen.end() == 130
    output = screen.output.decode()
    assert "more lines: exthost logs" in output and output.count("] line ") < 5000
    log_lines = run_exthost(tmp_path, "logs", "-n", "30000", "f").stdout.splitlines()
    line_count = sum(bool(re.search(" stderr (line|hello|goodbye)", line)) for line in log_lines)
    dropped = [
        int(n) for line in log_lines for n in re.findall(r"dropped: .* \((\d+) so far\)", line)
    ]
    assert line_count and line_count + dropped[-1] == FLOOD_LINES + 2, "with hello and goodbye"


@pytest.mark.more
def test_the_host_continues_when_its_stderr_is_closed(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with host_process(tmp_path) as host:
        assert host.stderr is not None and host.stdout is not None
        host.stderr.close()
        assert run_exthost(tmp_path, "restart", "one").returncode == 0
        host.send_signal(signal.SIGINT)
        assert host.wait(timeout=WAIT_SECONDS) == 130
        host.stdout.close()
    assert (tmp_path / "drained").exists()


@pytest.mark.more
@pytest.mark.sampled(1 / 2)
@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_reader_that_does_not_read_does_not_block_the_host(
    tmp_path: Path, arguments: list[str]
) -> None:
    script = (
        "import os, sys\n"
        f"for n in range({FLOOD_LINES}): os.write(2, b'line %d %s\\n' % (n, b'x' * 100))\n"
        f"exec(open({str(STDERR_WRITER)!r}).read())\n"
    )
    (tmp_path / "flood.py").write_text(script)
    write_config(tmp_path, extension("f", EXTHOST[0], "-S", "-E", str(tmp_path / "flood.py")))
    with subprocess.Popen(
        [*EXTHOST, "run", *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as host:
        # Nobody reads stdout and stderr of the host.
        deadline = time.monotonic() + WAIT_SECONDS
        while "ready" not in run_exthost(tmp_path, "status").stdout:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert run_exthost(tmp_path, "restart", "f").returncode == 0
        host.send_signal(signal.SIGTERM)
        assert host.wait(timeout=WAIT_SECONDS) == 0


@pytest.mark.more
def test_a_stopped_terminal_does_not_block_the_host(tmp_path: Path) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    with terminal(tmp_path) as screen:
        screen.wait_for("extensions ready")
        screen.press(b"\x13")  # Ctrl-S stops the output of the terminal
        for _ in range(2):
            assert run_exthost(tmp_path, "restart", "one").returncode == 0
        screen.press(b"\x11")  # Ctrl-Q resumes it
        screen.press(CTRL_C)
        assert screen.end() == 130


@pytest.mark.more
@pytest.mark.sampled(1 / 2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_many_signals_do_not_change_the_exit_code(tmp_path: Path, number: signal.Signals) -> None:
    write_config(tmp_path, writer(tmp_path / "drained"))
    for _ in range(5):
        host = subprocess.Popen(
            [*EXTHOST, "run"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert host.stderr is not None
        try:
            while b"extensions ready" not in (line := host.stderr.readline()):
                assert line, "the host has ended"
            deadline = time.monotonic() + WAIT_SECONDS
            while host.poll() is None:
                assert time.monotonic() < deadline
                host.send_signal(number)
            assert host.returncode == (130 if number is signal.SIGINT else 0)
        finally:
            host.kill()
            host.wait()
            host.stderr.close()
