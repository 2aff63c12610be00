"""A process on another node, with the methods of a local child.

Its stdin, stdout and stderr are connections. What it is told, and how it ended, travels on the life
connection. A node that is silent for `silence` seconds, or whose life connection ends, is lost: the
process counts as gone then, and the node ends it for its part.
"""

import asyncio
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exthost.cluster.messages import BEAT, BEAT_SECONDS, KILL, Lines, decode_exit, encode
from exthost.process.after_fork import disown_in_copies, replace_by_null
from exthost.process.exit_status import ExitStatus

__all__ = ["RemoteChild"]

_CLOSED = -1

# The exit is reported once all output has arrived, which follows within milliseconds. Where the
# host does not read the output, it cannot arrive; then the exit is reported without it.
_OUTPUT_SECONDS = 1.0


class RemoteChild:
    """One process on a node. `messages` came on the life connection already, and `lines` has the
    rest of it. `on_lost` is called when the node is lost, and `on_released` when the process is
    over and nothing of it is used."""

    def __init__(
        self,
        *,
        node: str,
        pid: int,
        argv: tuple[str, ...],
        cwd: str,
        life: socket.socket,
        streams: Sequence[socket.socket],
        lines: Lines,
        messages: Sequence[Mapping[str, Any]],
        silence: float,
        spawn_seconds: float,
        on_lost: Callable[[], None],
        on_released: Callable[[], None],
    ) -> None:
        self.node = node
        self.pid = pid
        self.argv = argv
        self.cwd = cwd
        self.spawn_seconds = spawn_seconds
        self.stdin, self.stdout, self.stderr = (stream.detach() for stream in streams)
        self.status: ExitStatus | None = None
        self._reported: ExitStatus | None = None  # by the node, before the output has arrived
        self._life: socket.socket | None = life
        self._lines = lines
        self._loop = asyncio.get_running_loop()
        self._silence = silence
        self._last_message = time.monotonic()
        self._kills = 0
        self._exit_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._output_end: select.epoll | None = None
        self._output_timer: asyncio.TimerHandle | None = None
        self._on_lost = on_lost
        self._on_released = on_released
        self._on_leave: Callable[[], None] | None = None
        self.is_leaving = False
        disown_in_copies(self)
        self._loop.add_reader(life, self._on_life)
        self._beat_timer = self._loop.call_later(BEAT_SECONDS, self._beat)
        self._handle(messages)

    has_cgroup = False

    @property
    def exit_fd(self) -> int:
        """Readable once the process has exited, or is lost."""
        return self._exit_fd

    def start_watchdog(self, call_in_loop: Callable[[Callable[[str], None], str], object]) -> None:
        """Do nothing: the node enforces the ceiling."""

    def on_closed_stdin(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the node could not pass on what was written."""
        self._loop.add_reader(self.stdin, self._on_stdin_end, callback)

    def _on_stdin_end(self, callback: Callable[[], None]) -> None:
        # The node sends nothing on this connection: it is readable because it was closed.
        self._loop.remove_reader(self.stdin)
        callback()

    def on_leave(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the node is being emptied; at once, if it is already."""
        self._on_leave = callback
        if self.is_leaving:
            callback()

    def leave(self) -> None:
        """Report that the node is being emptied."""
        if not self.is_leaving:
            self.is_leaving = True
            if self._on_leave is not None:
                self._on_leave()

    # -- the life connection -----------------------------------------------------------------

    def _on_life(self) -> None:
        assert self._life is not None
        try:
            data = self._life.recv(65536)
            messages = self._lines.feed(data)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, ValueError) as error:
            self._lose(f"the connection to node {self.node} failed: {error}")
            return
        if not data:
            self._lose(f"node {self.node} closed the connection")
            return
        self._last_message = time.monotonic()
        self._handle(messages)

    def _handle(self, messages: Sequence[Mapping[str, Any]]) -> None:
        for message in messages:
            if "exit" in message:
                try:
                    status = decode_exit(message)
                except (TypeError, ValueError) as error:
                    self._lose(f"node {self.node} sent nonsense: {error}")
                else:
                    self._on_exit(status)
                return

    def _beat(self) -> None:
        if time.monotonic() - self._last_message > self._silence:
            self._on_life()  # a host that was busy has not read yet what is there
            if self._life is None:
                return
        quiet = time.monotonic() - self._last_message
        if quiet > self._silence:
            self._lose(f"node {self.node} has not answered for {quiet:.1f} s")
            return
        self._send(BEAT)
        self._beat_timer = self._loop.call_later(BEAT_SECONDS, self._beat)

    def _send(self, line: bytes) -> None:
        if self._life is not None:
            try:
                self._life.send(line)
            except OSError:
                pass  # full or broken: the beats show it

    def _lose(self, reason: str) -> None:
        if self._reported is None:
            self._reported = ExitStatus(None, None, lost=reason)
            self._on_lost()
        self._report()

    def _on_exit(self, status: ExitStatus) -> None:
        """Report the exit once the ends of both outputs are here: they have their own way."""
        self._reported = status
        self._close_life()
        self._output_end = select.epoll()
        for fd in (self.stdout, self.stderr):
            if fd != _CLOSED:
                self._output_end.register(fd, select.EPOLLRDHUP | select.EPOLLONESHOT)
        self._loop.add_reader(self._output_end.fileno(), self._on_output_end)
        self._output_timer = self._loop.call_later(_OUTPUT_SECONDS, self._report)
        self._on_output_end()

    def _on_output_end(self) -> None:
        assert self._output_end is not None
        self._output_end.poll(0)
        poll = select.poll()
        fds = [fd for fd in (self.stdout, self.stderr) if fd != _CLOSED]
        for fd in fds:
            poll.register(fd, select.POLLRDHUP)
        if len(poll.poll(0)) == len(fds):
            self._report()

    def _report(self) -> None:
        if self.status is None:
            self.status = self._reported
            self._close_life()
            os.eventfd_write(self._exit_fd, 1)
        if self._output_timer is not None:
            self._output_timer.cancel()
            self._output_timer = None
        if self._output_end is not None:
            self._loop.remove_reader(self._output_end.fileno())
            self._output_end.close()
            self._output_end = None

    def _close_life(self) -> None:
        self._beat_timer.cancel()
        if self._life is not None:
            self._loop.remove_reader(self._life)
            self._life.close()
            self._life = None

    # -- the methods of a child --------------------------------------------------------------

    def see_exit(self) -> ExitStatus | None:
        """Return how the process ended, None if it runs."""
        return self.status

    def close_stdin(self) -> None:
        """Close the connection: the node closes the process's stdin."""
        fd, self.stdin = self.stdin, _CLOSED
        if fd != _CLOSED:
            self._loop.remove_reader(fd)
            os.close(fd)

    def close_outputs(self) -> None:
        """Close the connections of stdout and stderr."""
        (out, err), (self.stdout, self.stderr) = (self.stdout, self.stderr), (_CLOSED, _CLOSED)
        for fd in (out, err):
            if fd != _CLOSED:
                os.close(fd)

    def terminate(self) -> None:
        """Send SIGTERM to the process group."""
        self._send(encode({"signal": int(signal.SIGTERM)}))

    def kill(self) -> None:
        """Kill the process and its group. A second call gives up the node: its process ends when
        the life connection does."""
        self._kills += 1
        if self._kills == 1:
            self._send(KILL)
        else:
            self._lose(f"node {self.node} did not report the end of a killed process")

    def reap(self) -> None:
        """After the exit: release the node process."""
        if self._exit_fd != _CLOSED:
            self._close_life()
            self._report()
            os.close(self._exit_fd)
            self._exit_fd = _CLOSED
            self._on_released()

    def disown(self) -> None:
        """Release the process in a forked copy of the host: it belongs to the original."""
        life, self._life = self._life, None
        replace_by_null(
            (
                self.stdin,
                self.stdout,
                self.stderr,
                self._exit_fd,
                _CLOSED if life is None else life.detach(),
                _CLOSED if self._output_end is None else self._output_end.fileno(),
            )
        )
        self._exit_fd = _CLOSED
