"""A process under `exthost check` with raw pipes: bytes to stdin and from stdout, stderr, signals
and exit. `CheckedProcess` adds the messages."""

import asyncio
import fcntl
import os
import sys
import termios
from collections.abc import Callable
from itertools import count

from exthost.model.launch_plan import LaunchPlan
from exthost.process.child import CLOSED, Child
from exthost.process.exit_status import ExitStatus
from exthost.process.stderr_tail import StderrTail
from exthost.wire.framing import READ_BYTES

# No event reports that the process has read the bytes in its stdin pipe, so the pipe is polled.
# Once the process has begun to read, the pipe is polled at most this many times for each piece.
_UNREAD_POLLS = 40
_POLL_SECONDS = 0.0005
_START_POLL_SECONDS = 0.01

# How long to wait for the end of the output after the exit. A grandchild may hold the pipe open.
_DRAIN_SECONDS = 2.0


class Pipes:
    """A started process. `on_output` gets the bytes of each read, b"" at the end of the output;
    `on_exit` is called when the process has exited."""

    def __init__(
        self,
        plan: LaunchPlan,
        extension: str,
        on_output: Callable[[bytes], None],
        on_exit: Callable[[], None],
    ) -> None:
        """Start the process. Raises SpawnFailed."""
        self._on_output = on_output
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._tail = StderrTail()
        self._exited = asyncio.Event()
        self._writable = asyncio.Event()  # whether stdin has room, or is closed
        self.ended = asyncio.Event()  # set at the end of the output
        self._child = child = Child(plan, extension)
        for fd in (child.stdin, child.stdout, child.stderr):
            os.set_blocking(fd, False)
        self._loop.add_reader(child.stdout, self._read_stdout)
        self._loop.add_reader(child.stderr, self._read_stderr)
        self._loop.add_reader(child.exit_fd, self._poll_exit)

    @property
    def status(self) -> ExitStatus | None:
        """How the process ended; None while it runs."""
        return self._child.poll_exit()

    @property
    def pid(self) -> int:
        """The pid of the process, or of the wrapper that runs it in a namespace."""
        return self._child.pid

    @property
    def has_exited(self) -> bool:
        """Whether the event loop has seen the exit."""
        return self._exited.is_set()

    @property
    def stderr(self) -> tuple[str, ...]:
        """The last lines of stderr. The first lines of a long burst are among them: a stack comes
        after its message."""
        return self._tail.lines()

    # -- reading -----------------------------------------------------------------------------

    def _read_stdout(self) -> None:
        data = _read_available(self._child.stdout)
        if data is None:
            return
        if not data:
            self._loop.remove_reader(self._child.stdout)
            self.ended.set()
        self._on_output(data)

    def _read_stderr(self) -> None:
        data = _read_available(self._child.stderr)
        if data:
            self._tail.feed(data)
        elif data is not None:
            self._loop.remove_reader(self._child.stderr)

    def _poll_exit(self) -> None:
        self._loop.remove_reader(self._child.exit_fd)
        self._exited.set()
        self._on_exit()

    # -- writing -----------------------------------------------------------------------------

    async def write(self, data: bytes) -> None:
        """Write all bytes. Raises OSError if the process has closed its stdin."""
        view = memoryview(data)
        while view:
            fd = self._child.stdin
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                self._writable.clear()
                self._loop.add_writer(fd, self._writable.set)
                try:
                    await self._writable.wait()
                finally:
                    if fd == self._child.stdin:  # it is still open
                        self._loop.remove_writer(fd)

    async def wait_read(self, *, has_begun: bool = True) -> None:
        """Wait until the process has read everything in the pipe.

        If it `has_begun` to read, the wait is limited to a few hundredths of a second; otherwise
        the process may still be starting, and the wait has no limit.
        """
        for _ in range(_UNREAD_POLLS) if has_begun else count():
            if not self.count_unread() or self._exited.is_set():
                return
            await asyncio.sleep(_POLL_SECONDS if has_begun else _START_POLL_SECONDS)

    def count_unread(self) -> int:
        """Return the number of bytes in the pipe that the process has not read yet."""
        try:
            unread = fcntl.ioctl(self._child.stdin, termios.FIONREAD, bytes(4))
        except OSError:
            return 0
        return int.from_bytes(unread, sys.byteorder)

    # -- the end -----------------------------------------------------------------------------

    def close_stdin(self) -> None:
        """Close stdin, so that the process reads the end of its input."""
        if self._child.stdin != CLOSED:
            self._loop.remove_writer(self._child.stdin)
        self._child.close_stdin()
        self._writable.set()  # a `write` that waits fails

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._child.terminate()

    async def exits_within(self, seconds: float) -> ExitStatus | None:
        """Return how the process ended; None if it still runs after this time."""
        try:
            async with asyncio.timeout(seconds):
                await self._exited.wait()
        except TimeoutError:
            return None
        return self._child.poll_exit()

    async def output_ends(self) -> bool:
        """Return whether the output ends soon after the exit. It does not end if another process
        holds the pipe open."""
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self.ended.wait()
        except TimeoutError:
            return False
        return True

    async def kill(self) -> None:
        """Kill the process if it runs, read the rest of stderr, and release everything."""
        child = self._child
        # In a PID namespace the first call of `Child.kill` only asks exthost's init process there
        # to end it; later calls send SIGKILL.
        for _ in range(3):
            if child.poll_exit() is not None:
                break
            child.kill()
            await self.exits_within(2.0)
        self._loop.remove_reader(child.exit_fd)
        for fd in (child.stdout, child.stderr):
            if fd != CLOSED:
                self._loop.remove_reader(fd)
        try:
            while data := os.read(child.stderr, READ_BYTES):
                self._tail.feed(data)
        except OSError:
            pass
        child.reap()
        child.close_stdin()
        child.close_outputs()


def _read_available(fd: int) -> bytes | None:
    """Return the bytes that can be read now; None if there are none, b"" at the end."""
    try:
        return os.read(fd, READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""
