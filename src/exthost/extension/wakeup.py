"""Wakes one waiting task, on request or at a given time.

An `asyncio.Event` with a timer would do the same, but needs ten times the memory, and a host may
have hundreds of extensions whose supervisors sleep.
"""

import asyncio
import math


class Wakeup:
    """An event with an optional time. Only one task may wait, and only the loop's thread sets
    it."""

    __slots__ = ("_is_set", "_loop", "_sleeper")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_set = False
        self._sleeper: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the task, now or when it next waits."""
        self._is_set = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def clear(self) -> None:
        """Forget that it was set."""
        self._is_set = False

    def wait_until(self, when: float) -> "asyncio.Future[None]":
        """Return a future that is done when this is set, or at the loop time `when`."""
        self._sleeper = sleeper = self._loop.create_future()
        if self._is_set:
            sleeper.set_result(None)
        elif when < math.inf:
            timer = self._loop.call_at(when, self.set)
            sleeper.add_done_callback(lambda _: timer.cancel())
        return sleeper
