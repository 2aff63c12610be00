"""Reads the stderr of a process, and passes the bytes to the callback `on_data`.

No caller waits for stderr, so its output must not delay calls. Output that exceeds the budget
(`flood_budget.py`) is a flood: the reader then waits in the queue of the event loop
(`flood_queue.py`), and reads in its turns.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter

from exthost.process.flood_budget import PIPE_RATE, FloodBudget
from exthost.process.flood_queue import TurnEnd, flood_queue
from exthost.process.pipe_ends import ReadEnd

# The size of a read, and of a read during a flood. Handling the latter takes a few hundredths of a
# millisecond.
_READ_BYTES = 16 * 1024
_FLOOD_READ_BYTES = 8 * 1024

# The bytes that cost one unit of the budget: the length of an ordinary line.
_BYTES_PER_UNIT = 128


class StderrReader:
    """Reads one pipe, from its creation until `close`."""

    __slots__ = ("_is_flooded", "_loop", "_on_data", "_pipe", "_queue", "budget")

    def __init__(
        self, pipe: ReadEnd, loop: asyncio.AbstractEventLoop, on_data: Callable[[bytes], None]
    ) -> None:
        self._pipe: ReadEnd | None = pipe  # None after `close`
        self._loop = loop
        self._on_data = on_data
        self._queue = flood_queue(loop)
        self._is_flooded = False
        self.budget = FloodBudget(PIPE_RATE)
        pipe.watch(loop, self._on_readable)

    def _on_readable(self) -> None:
        """Read once. During a flood, wait for a turn instead."""
        if self._is_flooded and self._pipe is not None:
            self._pipe.unwatch(self._loop)
            self._queue.add(self)
        elif (size := self._read(_READ_BYTES)) is not None:
            now, units = self._loop.time(), 1 + size // _BYTES_PER_UNIT
            # Both are charged: the budget of this pipe, and that of all pipes of the loop that are
            # not floods.
            is_over = self.budget.charge(units, now)
            self._is_flooded = self._queue.others.charge(units, now) or is_over

    def take_turn(self, end: float, *, may_be_long: bool) -> TurnEnd:
        """Read during a flood until this time of `perf_counter`. Implements
        `flood_queue.FloodedPipe`; `may_be_long` has no effect, since no step is long."""
        while (size := self._read(_FLOOD_READ_BYTES)) is not None:
            self.budget.charge(1 + size // _BYTES_PER_UNIT, self._loop.time())
            if perf_counter() >= end:
                return TurnEnd.MORE
        if self._pipe is not None:
            now = self._loop.time()
            others = self._queue.others
            self._is_flooded = not (self.budget.has_recovered(now) and others.has_recovered(now))
            self._pipe.watch(self._loop, self._on_readable)
        return TurnEnd.EMPTY

    def _read(self, size: int) -> int | None:
        """Read once. Return the number of bytes; None if there are none now, or at the end."""
        if self._pipe is None:
            return None
        try:
            data = self._pipe.read(size)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self.close()
            return None
        self._on_data(data)
        return len(data)

    def drain(self, max_bytes: int) -> None:
        """Read what is in the pipe now, without waiting for a turn."""
        while max_bytes > 0 and (size := self._read(_READ_BYTES)) is not None:
            max_bytes -= size

    def close(self) -> None:
        """Stop reading for good. The pipe stays open."""
        if self._pipe is not None:
            self._pipe.unwatch(self._loop)
            self._queue.remove(self)
            self._pipe = None
