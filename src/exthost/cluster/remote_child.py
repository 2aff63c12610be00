"""A process on another node (machine), with the methods of a local child (`process.child.Child`).

Its stdin, stdout and stderr are streams of the connection to the agent of its node. Signals for the
process, and its exit status, are messages there. If that connection ends, the node is lost: the
host treats the process as ended, and the agent, which notices the same, kills it. A node is
draining when it is about to be shut down and its processes are to move to other nodes.
"""

import asyncio
import signal
from collections.abc import Callable, Mapping
from typing import Any

from exthost.cluster.link import Link
from exthost.cluster.messages import KILL, decode_exit, stream_numbers
from exthost.cluster.streams import IncomingStream, OutgoingStream
from exthost.process.child_process import PipeEnds
from exthost.process.exit_status import ExitStatus
from exthost.process.network_proxy import NetworkProxy

# How long an agent may take to report the end of a process that was killed. The host calls `kill`
# twice in a row when it gives a session up, and again after CLEAN_KILL_SECONDS, which is longer.
REPORT_SECONDS = 0.5


class RemoteChild:
    """One process on a node.

    `number` is its number on the connection `link`. `on_released` is called when the process has
    ended and has been reaped. The attributes `pid` and `spawn_seconds` are set when it has started.
    """

    protected_paths: tuple[str, ...] = ()
    has_cgroup = False
    network_proxy: NetworkProxy | None = None  # such an extension is refused (`network_grant`)

    def __init__(
        self,
        link: Link,
        number: int,
        *,
        node: str,
        argv: tuple[str, ...],
        cwd: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.node = node
        self.argv = argv
        self.cwd = cwd
        self.pid = 0
        self.spawn_seconds = 0.0
        self.status: ExitStatus | None = None
        self._link = link
        self.number = number
        stdin, stdout, stderr = stream_numbers(number)
        self.stdin = OutgoingStream(link, stdin, loop)
        self.stdout = IncomingStream(link, stdout, loop)
        self.stderr = IncomingStream(link, stderr, loop)
        self._loop = loop
        self._on_exit: Callable[[], None] | None = None
        self._killed_at: float | None = None  # when `kill` was called first
        self._is_reaped = False
        self._on_node_draining: Callable[[], None] | None = None
        self.on_released: Callable[[], None] | None = None
        self.is_node_draining = False
        self.is_node_silent = False
        self.node_usage = 0.0, 0  # seconds of processor time, and bytes of memory

    # -- used by the connection --------------------------------------------------------------

    def on_message(self, message: Mapping[str, Any]) -> None:
        """Handle a message of the agent about this process. Raises TypeError or ValueError if it is
        invalid."""
        if "exit" in message:
            self._end(decode_exit(message))

    def lose(self, reason: str) -> None:
        """Report the process as ended, because its node is lost."""
        self._end(ExitStatus(None, None, lost=reason))

    def _end(self, status: ExitStatus) -> None:
        """Record how the process ended, end its streams, and report the exit. Only the first call
        has an effect."""
        if self.status is not None:
            return
        self.status = status
        self.stdin.is_broken = True
        for stream in (self.stdout, self.stderr):
            stream.end()
        if self._on_exit is not None:
            self._loop.call_soon(self._on_exit)

    def report_node_draining(self) -> None:
        """Notify the supervisor of the extension that the node is being drained."""
        if not self.is_node_draining:
            self.is_node_draining = True
            if self._on_node_draining is not None:
                self._on_node_draining()

    # -- the interface of a child ------------------------------------------------------------

    def pipe_ends(self) -> PipeEnds:
        """Return the streams, for use in the event loop of the connection."""
        return PipeEnds(self.stdin, self.stdout, self.stderr)

    def watch_exit(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the process has exited, or is lost."""
        self._on_exit = callback
        if self.status is not None:
            loop.call_soon(callback)

    def unwatch_exit(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do nothing. `watch_exit` registers nothing with the event loop that would have to be
        removed."""

    def start_watchdog(self, call_in_loop: Callable[[Callable[[str], None], str], object]) -> None:
        """Do nothing: the node enforces the limits of the process."""

    def on_closed_stdin(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the process has closed its stdin, so that nothing can be written to
        it."""
        self.stdin.on_broken = callback

    def on_node_draining(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the node is being drained; at once if it already is."""
        self._on_node_draining = callback
        if self.is_node_draining:
            callback()

    def poll_exit(self) -> ExitStatus | None:
        """Return how the process ended, or None if it is running."""
        return self.status

    def close_stdin(self) -> None:
        """End the stream: the agent closes the process's stdin."""
        self.stdin.close()

    def close_outputs(self) -> None:
        """Receive no more of stdout and stderr."""
        self.stdout.close()
        self.stderr.close()

    def terminate(self) -> None:
        """Send SIGTERM to the process group."""
        self._link.send_message(self.number, {"signal": int(signal.SIGTERM)})

    def kill(self) -> None:
        """Kill the process and its group. Another call REPORT_SECONDS after the first one stops
        waiting for the agent's report."""
        now = self._loop.time()
        if self._killed_at is None:
            self._killed_at = now
        self._link.send_message(self.number, KILL)
        if now - self._killed_at > REPORT_SECONDS:
            self.lose(f"node {self.node} did not report the end of a killed process")

    def reap(self) -> None:
        """Release the process. Call this after its exit."""
        if not self._is_reaped:
            self._is_reaped = True
            self.close_stdin()
            self.close_outputs()
            if self.on_released is not None:
                self.on_released()
