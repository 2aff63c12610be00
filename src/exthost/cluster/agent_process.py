"""One process of an extension on a node (another machine), and the relays between its pipes and the
streams of the connection to the host.

An agent, the program that runs there, uses it for each process. Each pipe of the process is a
stream (`multiplexer`). Data for stdin is kept while the pipe is full; the window of the stream
limits how much. The pipes of stdout and stderr are read only while the host gives credit and the
connection has room.
"""

import os
import time
from collections import deque
from collections.abc import Callable
from os import read, write

from exthost.cluster.link import MAX_UNSENT_BYTES, Link
from exthost.cluster.messages import encode_exit, stream_numbers
from exthost.cluster.multiplexer import CONSUME_BYTES
from exthost.cluster.poller import Poller
from exthost.process.child import CLOSED, Child
from exthost.process.large_reads import widen

# The size of a read, and of the reads after one that has filled the buffer.
_READ_BYTES = 64 * 1024
_LARGE_READ_BYTES = 256 * 1024

# How long the host may take to read the last output of a process.
_OUTPUT_SECONDS = 1.0


class PipeWriter:
    """Writes what arrives in a stream to a pipe. When nothing reads the pipe any more, the stream
    is reset."""

    __slots__ = (
        "_backlog",
        "_consumed",
        "_fd",
        "_is_ended",
        "_is_wide",
        "_link",
        "_poller",
        "_stream",
    )

    def __init__(self, link: Link, stream: int, poller: Poller, fd: int) -> None:
        os.set_blocking(fd, False)
        self._link = link
        self._stream = stream
        self._poller = poller
        self._fd = fd
        self._backlog: deque[bytes | memoryview] = deque()
        self._consumed = 0  # bytes that were written and are not reported yet
        self._is_ended = False
        self._is_wide = False
        link.perform(link.multiplexer.open_incoming, stream)

    def feed(self, data: bytes | memoryview) -> None:
        """Write the data. Keep what does not fit into the pipe, and write it later."""
        if not self._backlog:
            if self._fd == CLOSED:
                return
            count = self._write(data)
            if count == len(data) or self._fd == CLOSED:
                return
            data = memoryview(data)[count:]
            self._poller.on_writable(self._fd, self._on_writable)
        self._backlog.append(data)

    def _write(self, data: bytes | memoryview) -> int:
        """Write as much as the pipe accepts, and return the number of bytes. Report consumed bytes
        to the host in steps."""
        try:
            count = write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError:
            self._break()
            return 0
        self._consumed += count
        if self._consumed >= CONSUME_BYTES:
            consumed, self._consumed = self._consumed, 0
            self._link.perform(self._link.multiplexer.consume, self._stream, consumed)
        return count

    def _on_writable(self) -> None:
        """Continue to write what `feed` has kept."""
        # The pipe was full, and the process has read from it. Only now is more data accepted at
        # once: with a process that never reads, the host must notice soon that nothing is accepted.
        if not self._is_wide:
            self._is_wide = True
            widen(self._fd)
            self._link.perform(self._link.multiplexer.widen, self._stream)
        while self._backlog:
            data = self._backlog[0]
            count = self._write(data)
            if self._fd == CLOSED:
                return
            if count < len(data):
                self._backlog[0] = memoryview(data)[count:]
                return
            self._backlog.popleft()
        self._poller.forget(self._fd)
        if self._is_ended:
            self.close()

    def end(self) -> None:
        """Close the pipe when everything is written."""
        self._is_ended = True
        if not self._backlog:
            self.close()

    def _break(self) -> None:
        self.close()
        self._link.perform(self._link.multiplexer.reset, self._stream)

    def close(self) -> None:
        """Close the pipe. Closing twice is fine."""
        if self._fd != CLOSED:
            if self._backlog:
                self._poller.forget(self._fd)
                self._backlog.clear()
            fd, self._fd = self._fd, CLOSED
            os.close(fd)


class PipeReader:
    """Sends what a process writes to a pipe."""

    __slots__ = ("_credits", "_fd", "_is_watched", "_link", "_poller", "_read_bytes", "_stream")

    def __init__(self, link: Link, stream: int, poller: Poller, fd: int) -> None:
        os.set_blocking(fd, False)
        self._link = link
        self._stream = stream
        self._poller = poller
        self._fd = fd
        self._credits = link.multiplexer.credits
        self._read_bytes = _READ_BYTES
        self._is_watched = False
        link.perform(link.multiplexer.open_outgoing, stream)
        self.resume()

    @property
    def has_ended(self) -> bool:
        """Whether the pipe is closed."""
        return self._fd == CLOSED

    @property
    def is_paused(self) -> bool:
        """Whether it waits for credit, or for room in the connection."""
        return self._fd != CLOSED and not self._is_watched

    def resume(self) -> None:
        """Read again, because there is credit and room."""
        if self._fd != CLOSED and not self._is_watched:
            self._is_watched = True
            self._poller.on_readable(self._fd, self.read)

    def _pause(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._poller.forget(self._fd)

    def read(self) -> bool:
        """Read once, and send the data. Return whether there may be more to read now."""
        if self._fd == CLOSED:
            return False
        credit = self._credits.get(self._stream, 0)
        if not credit or self._link.unsent_bytes >= MAX_UNSENT_BYTES:
            self._pause()
            return False
        size = self._read_bytes
        try:
            data = read(self._fd, size if size < credit else credit)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        if len(data) == _READ_BYTES == self._read_bytes:
            self._read_bytes = _LARGE_READ_BYTES
            widen(self._fd)
        self._link.send(self._stream, data)
        return True

    def close(self) -> None:
        """Close the pipe, and end the stream. Closing twice is fine."""
        if self._fd != CLOSED:
            self._pause()
            fd, self._fd = self._fd, CLOSED
            os.close(fd)
            self._link.perform(self._link.multiplexer.end, self._stream)


class AgentProcess:
    """A process that runs on this node. `on_ended` is called after its end was reported to the
    host."""

    def __init__(
        self,
        link: Link,
        number: int,
        poller: Poller,
        child: Child,
        on_ended: Callable[["AgentProcess"], None],
    ) -> None:
        self.number = number
        self.child = child
        self._link = link
        self._poller = poller
        self._on_ended = on_ended
        self._output_deadline = 0.0  # set when the process has exited
        stdin, stdout, stderr = stream_numbers(number)
        pipes = child.stdin, child.stdout, child.stderr
        child.stdin = child.stdout = child.stderr = CLOSED  # the relays own them from now on
        self.stdin = PipeWriter(link, stdin, poller, pipes[0])
        self.outputs = {
            stdout: PipeReader(link, stdout, poller, pipes[1]),
            stderr: PipeReader(link, stderr, poller, pipes[2]),
        }
        poller.on_readable(child.exit_fd, self._on_exit)

    def _on_exit(self) -> None:
        if self.child.poll_exit() is None:
            return
        self._poller.forget(self.child.exit_fd)
        self._output_deadline = time.monotonic() + _OUTPUT_SECONDS
        self.finish()

    def finish(self, *, force: bool = False) -> None:
        """Send what the process wrote before it exited, and report its exit. If the host is slow to
        read, wait for credit, and at last give up. Does nothing while the process runs."""
        if not self._output_deadline:
            return
        is_late = force or time.monotonic() >= self._output_deadline
        for output in self.outputs.values():
            if not output.has_ended:
                while output.read():
                    pass
                if output.is_paused and not is_late:
                    return
                output.close()
        self._output_deadline = 0.0
        self.stdin.close()
        status = self.child.poll_exit()
        self.child.reap()
        assert status is not None
        self._link.send_message(self.number, encode_exit(status))
        self._on_ended(self)

    def abandon(self) -> None:
        """Kill the process and close its pipes, because the host is lost."""
        self.child.kill()
        self.stdin.close()
        for output in self.outputs.values():
            output.close()
