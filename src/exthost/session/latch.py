"""A latch: something that happens once, such as the exit of a process, and that tasks may wait for.

A future of asyncio would do the same, but needs three times the memory, and a host may have
hundreds of processes that no task waits for. So the future is made when a task waits.
"""

import asyncio


class Latch:
    """A latch is not set at first; once it is set, it stays set. `is_set` is its state. Only the
    loop's thread uses it."""

    __slots__ = ("_future", "_loop", "is_set")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] | None = None
        self.is_set = False

    def set(self) -> None:
        """Set the latch, and wake the tasks that wait. Does nothing if it is set already."""
        self.is_set = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def future(self) -> "asyncio.Future[None]":
        """Return a future that is done when the latch is set. All callers get the same future."""
        if self._future is None:
            self._future = self._loop.create_future()
            if self.is_set:
                self._future.set_result(None)
        return self._future
