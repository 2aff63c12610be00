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
        self._settled: list[asyncio.Future[None]] = []
        self._restarts: list[asyncio.Future[ExthostError | None]] = []
        self._stops: list[asyncio.Future[None]] = []

    def request_restart(self) -> "asyncio.Future[ExthostError | None]":
        """Return a future that is done when the fresh process serves. Its result is an error if
        the fresh process failed and another one goes on."""
        self.restart, self.start, self.stop = True, False, False
        _complete(self._stops, None)
        future: asyncio.Future[ExthostError | None] = self._loop.create_future()
        self._restarts.append(future)
        return future

    def request_stop(self, patience: float) -> None:
        """A second request may shorten the patience of the first, never lengthen it."""
        self.patience = min(patience, self.patience) if self.stop else patience
        self.start, self.restart, self.stop = False, False, True

    def wait_stopped(self) -> asyncio.Future[None]:
        """Return a future that is done when nothing of the extension is left."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._stops.append(future)
        return future

    def wait_settled(self) -> asyncio.Future[None]:
        """Return a future that is done when the extension is ready, or will not change by
        itself."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._settled.append(future)
        return future

    def complete_settled(self) -> None:
        _complete(self._settled, None)

    def complete_restarts(self, error: ExthostError | None) -> None:
        _complete(self._restarts, error)

    def complete_all(self) -> None:
        """Complete every future: what they wait for will not come any more."""
        _complete(self._settled, None)
        _complete(self._restarts, None)
        _complete(self._stops, None)


def _complete(futures: "list[asyncio.Future[_T]]", result: _T) -> None:
    for future in futures:
        if not future.done():
            future.set_result(result)
    futures.clear()
