"""Commands to an extension's supervisor (start, restart, stop), and the futures of the tasks that
wait for them.

The supervisor (`supervisor.py`) is the task that starts and ends the processes of an extension. Any
task of the loop may give it a command, in any order; a later command replaces an earlier one. The
supervisor carries out one command at a time, and then completes the futures. The state is settled
when the extension is ready, or when its state will not change by itself.
"""

import asyncio
from typing import TypeVar

from exthost.errors import ExthostError

_T = TypeVar("_T")


class SupervisorCommands:
    """The pending commands of one extension.

    start     start a process, because a caller wants to use the extension
    restart   start a new process, whatever the state is
    stop      end the extension
    patience  the seconds that calls in flight get to end before a stop ends the processes
    """

    __slots__ = (
        "_loop",
        "_restart_futures",
        "_settle_futures",
        "_stop_futures",
        "patience",
        "restart",
        "start",
        "stop",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.start = False
        self.restart = False
        self.stop = False
        self.patience = 0.0
        # Tuples, because they are nearly always empty, and all empty tuples are one object.
        self._settle_futures: tuple[asyncio.Future[None], ...] = ()
        self._restart_futures: tuple[asyncio.Future[ExthostError | None], ...] = ()
        self._stop_futures: tuple[asyncio.Future[None], ...] = ()

    def request_restart(self) -> "asyncio.Future[ExthostError | None]":
        """Command a restart. Return a future that is done when the new process is ready. Its
        result is an error if the new process failed and the old one stays in use."""
        self.restart = True
        self.start = self.stop = False
        self._complete_stops()  # the restart replaces the stop
        future: asyncio.Future[ExthostError | None] = self._loop.create_future()
        self._restart_futures += (future,)
        return future

    def request_stop(self, patience: float) -> None:
        """Command a stop. A second stop may shorten the `patience` of the first, but not lengthen
        it."""
        self.patience = min(patience, self.patience) if self.stop else patience
        self.stop = True
        self.start = self.restart = False

    def wait_stopped(self) -> asyncio.Future[None]:
        """Return a future that is done when no process of the extension is left."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._stop_futures += (future,)
        return future

    def wait_settled(self) -> asyncio.Future[None]:
        """Return a future that is done when the state is settled."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._settle_futures += (future,)
        return future

    def complete_settled(self) -> None:
        """Complete the futures of `wait_settled`."""
        futures, self._settle_futures = self._settle_futures, ()
        _complete(futures, None)

    def complete_restarts(self, error: ExthostError | None) -> None:
        """Complete the futures of `request_restart`. `error`: the new process failed."""
        futures, self._restart_futures = self._restart_futures, ()
        _complete(futures, error)

    def _complete_stops(self) -> None:
        futures, self._stop_futures = self._stop_futures, ()
        _complete(futures, None)

    def complete_all(self) -> None:
        """Complete every future, because the supervisor's task ends."""
        self.complete_settled()
        self.complete_restarts(None)
        self._complete_stops()


def _complete(futures: "tuple[asyncio.Future[_T], ...]", result: _T) -> None:
    for future in futures:
        if not future.done():
            future.set_result(result)
