"""`FakeChild` takes the place of the process of an extension in tests of a session.

A session is the host's side of the messages with one process. The test reads what the session
writes to stdin, writes to stdout, and says when the process "ends". No process is started.
"""

import json
import os
from collections.abc import Callable
from typing import Any

from exthost.dialects.base import Dialect
from exthost.dialects.morphir.dialect import DIALECT
from exthost.extension.call_queue import CallQueue
from exthost.launch.limits import resolve_limits
from exthost.model.offer import Offer
from exthost.model.spec import Spec
from exthost.process.child import Child
from exthost.process.exit_status import ExitStatus
from exthost.session.session import Session


def session_with(fake_child: "FakeChild", queue: CallQueue, dialect: Dialect = DIALECT) -> Session:
    """Return an open session with this child, not yet attached to the queue."""
    limits = resolve_limits(Spec(id="x", argv=("x",)), DIALECT)
    session = Session(fake_child, dialect, queue, limits)  # type: ignore[arg-type]
    session.open(Offer())
    return session


class FakeChild:
    """A child without a process: three pipes, and an exit that the test controls.

    `received` returns the requests of the host, `send_to_host` sends a message, and `exit` ends it.
    The session has the ends `stdin`, `stdout` and `stderr`; the test has `reads`, `writes` and
    `complains`.
    """

    argv: tuple[str, ...] = ("fake-child",)
    protected_paths: tuple[str, ...] = ()
    cwd = ""
    pid = 0
    spawn_seconds = 0.0
    is_node_draining = False
    is_node_silent = False
    node_usage = 0.0, 0
    network_proxy = None

    def __init__(self) -> None:
        self.reads, self.stdin = os.pipe()
        self.stdout, self.writes = os.pipe()
        self.stderr, self.complains = os.pipe()
        self.exit_fd, self._exits = os.pipe()
        self.status: ExitStatus | None = None
        self._received = b""
        os.set_blocking(self.reads, False)

    def on_node_draining(self, callback: Callable[[], None]) -> None:
        """Do nothing: there is no node."""

    def received(self) -> list[dict[str, Any]]:
        """Return all requests that have arrived so far."""
        try:
            while data := os.read(self.reads, 1 << 16):
                self._received += data
        except BlockingIOError:
            pass
        return [json.loads(line) for line in self._received.splitlines()]

    def send_to_host(self, **message: Any) -> None:
        os.write(self.writes, json.dumps(message).encode() + b"\n")

    def exit(self) -> None:
        if self.status is None:
            self.status = ExitStatus(9, None)
            for fd in (self.reads, self.writes, self.complains, self._exits):
                os.close(fd)

    # The interface of `Child` that a session uses.

    node = ""
    pipe_ends = Child.pipe_ends
    watch_exit = Child.watch_exit
    unwatch_exit = Child.unwatch_exit

    def start_watchdog(self, _: Any) -> None:
        pass

    def on_closed_stdin(self, _: Any) -> None:
        pass

    def poll_exit(self) -> ExitStatus | None:
        return self.status

    def kill(self) -> None:
        self.exit()

    terminate = kill

    def close_stdin(self) -> None:
        fd, self.stdin = self.stdin, -1
        if fd >= 0:
            os.close(fd)

    def close_outputs(self) -> None:
        for fd in (self.stdout, self.stderr):
            if fd >= 0:
                os.close(fd)
        self.stdout = self.stderr = -1

    def reap(self) -> None:
        if self.exit_fd >= 0:
            os.close(self.exit_fd)
        self.exit_fd = -1
