"""A process on another node (machine), with the methods of a local child.

Its stdin, stdout and stderr are connections to the node. Signals for the process, and its exit
status, are messages on the control connection. If the node sends nothing for `silence` seconds, or
the control connection ends, the node is lost. The host then treats the process as ended, and the
node process, which detects the same silence, kills it. A node is draining when it is about to be
shut down and its processes are to move to other nodes.
"""

import asyncio
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exthost.cluster.delayed_acks import delay_acknowledgements
from exthost.cluster.messages import (
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    KILL,
    LineDecoder,
    decode_exit,
    encode,
)
from exthost.process.after_fork import disown_in_copies, replace_by_null
from exthost.process.child_process import PipeEnds
from exthost.process.exit_status import ExitStatus
from exthost.process.pipe_ends import FdReadEnd, FdWriteEnd

_CLOSED = -1

# The exit is reported once all output has arrived, usually within milliseconds. If the host does
# not read the output, it cannot arrive; the exit is then reported after this time.
_OUTPUT_SECONDS = 1.0


class RemoteChild:
    """One process on a node.

    `control` is the control connection and `lines` its decoder. `messages` have been received on it
    already. `silence` and `spawn_seconds` are in seconds. `on_lost` is called when the node is
    lost, and `on_released` when the process has ended and has been reaped, with the control
    connection if the node process can run another process, None if it cannot.
    """

    closed_paths: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        node: str,
        pid: int,
        argv: tuple[str, ...],
        cwd: str,
        control: socket.socket,
        streams: Sequence[socket.socket],
        lines: LineDecoder,
        messages: Sequence[Mapping[str, Any]],
        silence: float,
        spawn_seconds: float,
        on_lost: Callable[[], None],
        on_released: Callable[[socket.socket | None], None],
    ) -> None:
        self.node = node
        self.pid = pid
        self.argv = argv
        self.cwd = cwd
        self.spawn_seconds = spawn_seconds
        self.stdin, self.stdout, self.stderr = (stream.detach() for stream in streams)
        self.status: ExitStatus | None = None
        self._reported: ExitStatus | None = None  # by the node, before the output has arrived
        self._control: socket.socket | None = control
        self._idle_control: socket.socket | None = None  # the same connection, after the exit
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
        self._on_node_draining: Callable[[], None] | None = None
        self.is_node_draining = False
        disown_in_copies(self)
        delay_acknowledgements(self.stdout)
        self._loop.add_reader(control, self._on_control_data)
        self._heartbeat_timer = self._loop.call_later(HEARTBEAT_SECONDS, self._heartbeat)
        self._handle(messages)

    has_cgroup = False

    @property
    def exit_fd(self) -> int:
        """Readable once the process has exited, or is lost."""
        return self._exit_fd

    def pipe_ends(self, loop: asyncio.AbstractEventLoop) -> PipeEnds:
        """Return the host's ends of the connections, for use in this event loop."""
        return PipeEnds(
            FdWriteEnd(self.stdin, loop), FdReadEnd(self.stdout, loop), FdReadEnd(self.stderr, loop)
        )

    def watch_exit(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the process has exited, or is lost."""

        def on_readable() -> None:
            loop.remove_reader(self._exit_fd)
            callback()

        loop.add_reader(self._exit_fd, on_readable)

    def start_watchdog(self, call_in_loop: Callable[[Callable[[str], None], str], object]) -> None:
        """Do nothing: the node enforces the limits of the process."""

    def on_closed_stdin(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the process has closed its stdin, so that nothing can be written to
        it."""
        self._loop.add_reader(self.stdin, self._on_stdin_end, callback)

    def _on_stdin_end(self, callback: Callable[[], None]) -> None:
        # The node sends nothing on this connection: it is readable because it was closed.
        self._loop.remove_reader(self.stdin)
        callback()

    def on_node_draining(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the node is being drained; at once if it already is."""
        self._on_node_draining = callback
        if self.is_node_draining:
            callback()

    def report_node_draining(self) -> None:
        """Notify the supervisor of the extension that the node is being drained."""
        if not self.is_node_draining:
            self.is_node_draining = True
            if self._on_node_draining is not None:
                self._on_node_draining()

    # -- the control connection -----------------------------------------------------------------

    def _on_control_data(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(65536)
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
                    self._lose(f"node {self.node} sent an invalid message: {error}")
                else:
                    self._on_exit(status)
                return

    def _heartbeat(self) -> None:
        if time.monotonic() - self._last_message > self._silence:
            self._on_control_data()  # the host may have been too busy to read what has arrived
            if self._control is None:
                return
        quiet = time.monotonic() - self._last_message
        if quiet > self._silence:
            self._lose(f"node {self.node} has not answered for {quiet:.1f} s")
            return
        self._send(HEARTBEAT)
        if self.stdout != _CLOSED:
            delay_acknowledgements(self.stdout)
        self._heartbeat_timer = self._loop.call_later(HEARTBEAT_SECONDS, self._heartbeat)

    def _send(self, line: bytes) -> None:
        if self._control is not None:
            try:
                self._control.send(line)
            except OSError:
                pass  # full or broken: missing heartbeats will show it

    def _lose(self, reason: str) -> None:
        if self._reported is None:
            self._reported = ExitStatus(None, None, lost=reason)
            self._on_lost()
        self._report()

    def _on_exit(self, status: ExitStatus) -> None:
        """Report the exit when stdout and stderr have ended. They are separate connections, so
        their last bytes may arrive after the exit status."""
        self._reported = status
        self._idle_control = self._stop_control()
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
            self._close_control()
            os.eventfd_write(self._exit_fd, 1)
        if self._output_timer is not None:
            self._output_timer.cancel()
            self._output_timer = None
        if self._output_end is not None:
            self._loop.remove_reader(self._output_end.fileno())
            self._output_end.close()
            self._output_end = None

    def _stop_control(self) -> socket.socket | None:
        """Stop to use the control connection, and return it; None if that was done before."""
        self._heartbeat_timer.cancel()
        control, self._control = self._control, None
        if control is not None:
            self._loop.remove_reader(control)
        return control

    def _close_control(self) -> None:
        control = self._stop_control()
        if control is not None:
            control.close()

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
        """Kill the process and its group. A second call closes the control connection, whereupon
        the node process kills the process by itself."""
        self._kills += 1
        if self._kills == 1:
            self._send(KILL)
        else:
            self._lose(f"node {self.node} did not report the end of a killed process")

    def reap(self) -> None:
        """Release the node process. To be called after the exit."""
        if self._exit_fd != _CLOSED:
            self._close_control()
            self._report()
            os.close(self._exit_fd)
            self._exit_fd = _CLOSED
            control, self._idle_control = self._idle_control, None
            self._on_released(control)

    def disown(self) -> None:
        """Release the process in a forked copy of the host: it belongs to the original."""
        control = self._control or self._idle_control
        self._control = self._idle_control = None
        replace_by_null(
            (
                self.stdin,
                self.stdout,
                self.stderr,
                self._exit_fd,
                _CLOSED if control is None else control.detach(),
                _CLOSED if self._output_end is None else self._output_end.fileno(),
            )
        )
        self._exit_fd = _CLOSED
