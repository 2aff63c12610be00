"""`ChildProcess`: the interface by which a session uses the process of an extension.

`Child` implements it for a process on this machine, `cluster.remote_child.RemoteChild` for a
process on another node of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import asyncio

    from exthost.process.exit_status import ExitStatus
    from exthost.process.network_proxy import NetworkProxy
    from exthost.process.pipe_ends import ReadEnd, WriteEnd


class PipeEnds(NamedTuple):
    """The host's ends of the three pipes to a process."""

    stdin: WriteEnd
    stdout: ReadEnd
    stderr: ReadEnd


class ChildProcess(Protocol):
    """A process, and the pipes to its stdin, stdout and stderr.

    argv             its command
    protected_paths  the paths in its writable folders that it cannot write
    cwd              its working folder
    network_proxy    the proxy by which it reaches the hosts of its permissions; None if it has none
    spawn_seconds    how long the spawn took
    """

    argv: tuple[str, ...]
    protected_paths: tuple[str, ...]
    cwd: str
    network_proxy: NetworkProxy | None
    pid: int
    spawn_seconds: float

    def pipe_ends(self) -> PipeEnds:
        """Return the host's ends of the pipes."""

    @property
    def node(self) -> str:
        """The name of the node that the process runs on; "" for this machine."""

    @property
    def is_node_draining(self) -> bool:
        """Whether the process is to be replaced on another node: its node is being drained, or has
        more processes of the pool than another node."""

    @property
    def is_node_silent(self) -> bool:
        """Whether nothing was heard of the node for a while, so that calls should avoid it."""

    @property
    def node_usage(self) -> tuple[float, int]:
        """The seconds of processor time and the bytes of memory that the process uses, as its node
        has reported them; zeros for this machine."""

    def on_node_draining(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the draining of the node begins; immediately, if it has begun."""

    @property
    def has_cgroup(self) -> bool:
        """Whether the process is in a cgroup made for it."""

    def watch_exit(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Call `callback` in this event loop when the process has exited, until `unwatch_exit`."""

    def unwatch_exit(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop calling the function of `watch_exit`."""

    def start_watchdog(self, call_in_loop: Callable[[Callable[[str], None], str], object]) -> None:
        """Enforce the limits in the `ceiling` of the launch plan, if there are any. `call_in_loop`
        calls a function in the thread of the event loop."""

    def on_closed_stdin(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the process has closed its stdin, if a write to `stdin` would not
        report that."""

    def poll_exit(self) -> ExitStatus | None:
        """Return how the process ended; None if it is running."""

    def close_stdin(self) -> None:
        """Close our end of stdin."""

    def close_outputs(self) -> None:
        """Close our ends of stdout and stderr."""

    def terminate(self) -> None:
        """Send SIGTERM to the process group."""

    def kill(self) -> None:
        """Kill the process and its group. If the process still runs some time later, a second call
        also kills the wrapper that it may have."""

    def reap(self) -> None:
        """Release the resources of the process, which must have exited."""
