"""The interface of a process for a session. `Child` implements it for a process on this machine,
`cluster.remote_child.RemoteChild` for one on another machine."""

from collections.abc import Callable
from typing import Protocol

from exthost.process.exit_status import ExitStatus

__all__ = ["ChildProcess"]


class ChildProcess(Protocol):
    """A process, with the host's ends of the pipes to its stdin, stdout and stderr. `spawn_seconds`
    is how long the spawn took."""

    argv: tuple[str, ...]
    cwd: str
    pid: int
    spawn_seconds: float
    stdin: int
    stdout: int
    stderr: int

    @property
    def node(self) -> str:
        """The name of the node that it runs on, "" for this machine."""

    @property
    def is_leaving(self) -> bool:
        """Whether it is to be replaced, because its node is being emptied."""

    def on_leave(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when its node is being emptied; at once, if it is already."""

    @property
    def has_cgroup(self) -> bool:
        """Whether the process is in a cgroup made for it."""

    @property
    def exit_fd(self) -> int:
        """Readable once the process has exited."""

    def start_watchdog(self, call_in_loop: Callable[[Callable[[str], None], str], object]) -> None:
        """Enforce the ceiling of its plan, if there is one."""

    def on_closed_stdin(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the process has closed its stdin, where a write to the
        descriptor does not report that."""

    def see_exit(self) -> ExitStatus | None:
        """Return how the process ended, None if it runs."""

    def close_stdin(self) -> None:
        """Close our end of stdin."""

    def close_outputs(self) -> None:
        """Close our ends of stdout and stderr."""

    def terminate(self) -> None:
        """Send SIGTERM to the process group."""

    def kill(self) -> None:
        """Kill the process and its group. A second call some time later uses every means."""

    def reap(self) -> None:
        """After the exit: release what the process had."""
