"""Lets readers that are inside a large frame take turns, if there is more than one.

A large frame that may be the reply to a call is read as fast as possible: the limit for output that
nothing waits for (`flood_budget`) does not apply to it. One reader alone reads a megabyte in an
iteration of the event loop. Forty would read forty, and hold up all other extensions. So only one
of them reads in each iteration, and only a quarter as much. If they use up their budget, there is
only one such read in a millisecond, because replies without end must not take all of the event
loop.
"""

import asyncio
import weakref
from collections import deque
from typing import Protocol

from exthost.process.flood_budget import BYTES_PER_UNIT, FloodBudget, Rate
from exthost.wire.framing import LARGE_READ_BYTES

# The size of a read if there are several readers. It takes about a tenth of a millisecond.
SHARED_READ_BYTES = LARGE_READ_BYTES // 4

# Several readers may together read 32 MiB, and 128 MiB a second, without pauses. A unit is 1 KiB. A
# pause is as long as the resolution of the timers of an event loop.
_RATE = Rate(units_per_second=128 * 1024, burst_units=32 * 1024)
_PAUSE_SECONDS = 0.001


class LargeFrameReader(Protocol):
    """A reader that is inside a large frame."""

    def read_large_frame(self) -> bool:
        """Read once. Return whether the reader wants another turn: False after the end of its
        frame, or if its pipe was empty."""


class LargeFrameQueue:
    """The readers of one event loop that are inside a large frame.

    readers  all readers that are inside a large frame, whether they wait here or for their pipe.
             They change this set themselves; `add` and `remove` only give and take turns
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak, because `_queues` has this queue: a strong reference would keep the loop alive.
        self._loop = weakref.ref(loop)
        self._waiting: deque[LargeFrameReader] = deque()
        self._is_scheduled = False
        self._budget = FloodBudget(_RATE)
        self.readers: set[LargeFrameReader] = set()

    def is_shared(self, reader: LargeFrameReader) -> bool:
        """Return whether there are readers besides this one."""
        return bool(self.readers - {reader})

    def add(self, reader: LargeFrameReader) -> None:
        """Let a reader wait for its turn, unless it waits already."""
        if reader not in self._waiting:
            self._waiting.append(reader)
            self._schedule()

    def remove(self, reader: LargeFrameReader) -> None:
        """Take away the turn of a reader that was closed or must not read now, if it has one."""
        if reader in self._waiting:
            self._waiting.remove(reader)

    def _schedule(self) -> None:
        """Let the loop serve the next reader, after a pause if the budget is used up."""
        loop = self._loop()
        if self._waiting and not self._is_scheduled and loop is not None:
            self._is_scheduled = True
            if self._budget.is_over(loop.time()):
                loop.call_later(_PAUSE_SECONDS, self._serve)
            else:
                loop.call_soon(self._serve)

    def _serve(self) -> None:
        """Let the reader that has waited longest read once."""
        self._is_scheduled = False
        try:
            if self._waiting and (loop := self._loop()) is not None:
                self._budget.charge(SHARED_READ_BYTES // BYTES_PER_UNIT, loop.time())
                reader = self._waiting.popleft()
                if reader.read_large_frame():
                    self._waiting.append(reader)
        finally:
            self._schedule()


_queues: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LargeFrameQueue]" = (
    weakref.WeakKeyDictionary()
)


def large_frame_queue(loop: asyncio.AbstractEventLoop) -> LargeFrameQueue:
    """Return the queue of this event loop."""
    queue = _queues.get(loop)
    if queue is None:
        queue = _queues[loop] = LargeFrameQueue(loop)
    return queue
