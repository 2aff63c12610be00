"""What others want of an extension's owner, and who waits for it to be done.

Anyone may wish, from any task of the loop and in any order; the later wish wins. The owner heeds
them in its own step, one at a time, and tells those who wait.
"""

import asyncio

from exthost.errors import ExthostError


class Wishes:
    """The open wishes of one extension.

    start    somebody wants to use it
    again    somebody wants a fresh process, whatever state it is in
    stop     it is to end; `patience` is how many seconds its calls under way have for it
    """

    __slots__ = ("_agains", "_loop", "_settled", "_stops", "again", "patience", "start", "stop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.start = False
        self.again = False
        self.stop = False
        self.patience = 0.0
        self._settled: list[asyncio.Future[None]] = []
        self._agains: list[asyncio.Future[ExthostError | None]] = []
        self._stops: list[asyncio.Future[None]] = []

    def ask_again(self) -> "asyncio.Future[ExthostError | None]":
        """Done when the fresh one serves; with an error if it did not, and another goes on."""
        self.again, self.start, self.stop = True, False, False
        _tell(self._stops, None)
        future: asyncio.Future[ExthostError | None] = self._loop.create_future()
        self._agains.append(future)
        return future

    def ask_to_stop(self, patience: float) -> None:
        """Who asks a second time may be less patient, never more."""
        self.patience = min(patience, self.patience) if self.stop else patience
        self.start, self.again, self.stop = False, False, True

    def stopped(self) -> asyncio.Future[None]:
        """Done when nothing is left of it."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._stops.append(future)
        return future

    def settled(self) -> asyncio.Future[None]:
        """Done when it is ready, or rests."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._settled.append(future)
        return future

    def tell_settled(self) -> None:
        _tell(self._settled, None)

    def tell_again(self, error: ExthostError | None) -> None:
        _tell(self._agains, error)

    def tell_stopped(self) -> None:
        _tell(self._stops, None)

    def tell_all(self) -> None:
        """Whatever happened, nobody waits for what will not come."""
        self.tell_settled()
        self.tell_again(None)
        self.tell_stopped()


def _tell(
    waiting: "list[asyncio.Future[None]] | list[asyncio.Future[ExthostError | None]]",
    what: ExthostError | None,
) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(what)  # type: ignore[arg-type]
    waiting.clear()
