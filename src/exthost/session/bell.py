"""A bell that wakes one sleeper: an asyncio.Event for a single waiter, at a tenth of its memory.

Each idle extension has an owner that sleeps; a host may have hundreds of them.
"""

import asyncio


class Bell:
    """Ring it from the loop's thread; one task at a time sleeps on it."""

    __slots__ = ("_loop", "_rung", "_sleeper")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the sleeper, now or when one comes."""
        self._rung = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def clear(self) -> None:
        """Forget what was rung."""
        self._rung = False

    async def wait(self) -> None:
        """Sleep until it rings."""
        if not self._rung:
            self._sleeper = self._loop.create_future()
            try:
                await self._sleeper
            finally:
                self._sleeper = None
