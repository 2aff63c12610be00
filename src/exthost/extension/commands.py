"""Commands to an extension's supervisor, and the futures of those who wait for them.

Any task of the loop may give a command, in any order; the later command wins. The supervisor
carries them out in its own step, one at a time, and then completes the futures.
"""

import asyncio
from typing import TypeVar

from exthost.errors import ExthostError

_T = TypeVar("_T")


class Commands:
    """The pending commands of one extension.

    start    start a process, because a caller wants to use the extension
    restart  start a fresh process, whatever the state is
    stop     end the extension; calls under way have `patience` seconds to end before
    """

    __slots__ = ("_loop", "_restarts", "_settled", "_stops", "patience", "restart", "start", "stop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.start = False
        self.restart = False
        self.stop = False
        self.patience = 0.0
        # Tuples, because they are empty nearly always, and an empty tuple takes no memory.
        self._settled: tuple[asyncio.Future[None], ...] = ()
        self._restarts: tuple[asyncio.Future[ExthostError | None], ...] = ()
        self._stops: tuple[asyncio.Future[None], ...] = ()

    def request_restart(self) -> "asyncio.Future[ExthostError | None]":
        """Return a future that is done when the fresh process serves. Its result is an error if
        the fresh process failed and another one goes on."""
        self.restart, self.start, self.stop = True, False, False
        self._complete_stops()
        future: asyncio.Future[ExthostError | None] = self._loop.create_future()
        self._restarts += (future,)
        return future

    def request_stop(self, patience: float) -> None:
        """A second request may shorten the patience of the first, never lengthen it."""
        self.patience = min(patience, self.patience) if self.stop else patience
        self.start, self.restart, self.stop = False, False, True

    def wait_stopped(self) -> asyncio.Future[None]:
        """Return a future that is done when nothing of the extension is left."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._stops += (future,)
        return future

    def wait_settled(self) -> asyncio.Future[None]:
        """Return a future that is done when the extension is ready, or will not change by
        itself."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._settled += (future,)
        return future

    def complete_settled(self) -> None:
        futures, self._settled = self._settled, ()
        _complete(futures, None)

    def complete_restarts(self, error: ExthostError | None) -> None:
        futures, self._restarts = self._restarts, ()
        _complete(futures, error)

    def _complete_stops(self) -> None:
        futures, self._stops = self._stops, ()
        _complete(futures, None)

    def complete_all(self) -> None:
        """Complete every future: what they wait for will not come any more."""
        self.complete_settled()
        self.complete_restarts(None)
        self._complete_stops()


def _complete(futures: "tuple[asyncio.Future[_T], ...]", result: _T) -> None:
    for future in futures:
        if not future.done():
            future.set_result(result)
