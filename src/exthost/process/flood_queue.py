"""Lets the pipes of one event loop whose output is a flood take turns.

A pipe joins the queue while its output exceeds its budget (`flood_budget.py`). The queue gives all
its pipes together a small part of the time of the event loop: once in a millisecond they are served
for a fraction of it. So the other extensions wait about as long for forty floods as for one. What
is not read stays in its pipe, and its process blocks.

The pipe with the lowest level is served first: an extension that has just logged a few lines too
many does not wait for others that never stop.

The decoding of a large frame cannot be divided. If it took long, its time is charged, too, and then
all large frames in the queue wait many times as long. So few calls of the other extensions are
delayed by such frames.
"""

import asyncio
import weakref
from enum import Enum
from time import perf_counter, thread_time
from typing import Protocol

from exthost.process.flood_budget import LOOP_RATE, FloodBudget

# How often pipes are served (the resolution of the timers of an event loop), and for how long. If
# the machine is so busy that the last turn was longer ago, a turn is longer in proportion.
_TURN_SECONDS = 0.001
_WORK_SECONDS = 0.00005
_MAX_WORK_SECONDS = 0.0005

# After a step that took longer than _LONG_SECONDS, large frames wait _REST_FACTOR times as long as
# the step took. Then less than one call in a hundred is delayed by such a step. A wait is at most
# _MAX_REST_SECONDS, since such steps are then rare enough for the calls. But it is at least
# _MIN_REST_FACTOR times as long as the step, so that such steps take only a small part of the time
# of the event loop.
_LONG_SECONDS = 4 * _WORK_SECONDS
_REST_FACTOR = 200
_MAX_REST_SECONDS = 1.0
_MIN_REST_FACTOR = 20

# The time of a long step is charged at one unit for this: about what a small message takes.
_UNIT_SECONDS = 0.000005


class TurnEnd(Enum):
    """How a turn of a pipe ended."""

    EMPTY = "nothing is left in the pipe, or it is paused"
    MORE = "there may be more"
    LARGE = "a large frame is next, and large frames must wait"


class FloodedPipe(Protocol):
    """A pipe in the queue."""

    budget: FloodBudget

    def take_turn(self, end: float, *, may_be_long: bool) -> TurnEnd:
        """Handle output, until this time of `perf_counter` if there is so much. Without
        `may_be_long`, do not handle a large frame."""


class FloodQueue:
    """The flooded pipes of one event loop.

    others  the budget that all pipes of the loop share while they are not in the queue
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak, because the queues are the values of a dict whose weak keys are their loops.
        self._loop = weakref.ref(loop)
        self._pipes: list[FloodedPipe] = []
        self._resting: list[FloodedPipe] = []  # those whose next frame is large
        self._rest_until = 0.0
        self._served_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.others = FloodBudget(LOOP_RATE)

    def add(self, pipe: FloodedPipe) -> None:
        """Let a pipe wait for its turn, unless it waits already."""
        if pipe not in self._pipes and pipe not in self._resting:
            if self._timer is None and (loop := self._loop()) is not None:
                self._served_at = loop.time()
            self._pipes.append(pipe)
            self._schedule(_TURN_SECONDS)

    def remove(self, pipe: FloodedPipe) -> None:
        """Remove a pipe that is paused or closed, if it is here."""
        for pipes in (self._pipes, self._resting):
            if pipe in pipes:
                pipes.remove(pipe)
        if not self._pipes and not self._resting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def rest_after(
        self, pipe: FloodedPipe, seconds: float, now: float, *, is_charged: bool = True
    ) -> None:
        """Let large frames wait after a step that began now and took this processor time, if it was
        long. Charge its time, unless it served calls only."""
        if seconds > _LONG_SECONDS:
            if is_charged:
                pipe.budget.charge(seconds / _UNIT_SECONDS, now)
            rest = min(seconds * _REST_FACTOR, _MAX_REST_SECONDS)
            rest = max(rest, seconds * _MIN_REST_FACTOR)
            self._rest_until = max(self._rest_until, now + seconds + rest)

    def _schedule(self, seconds: float) -> None:
        loop = self._loop()
        if loop is not None and (self._timer is None or self._timer.when() > loop.time() + seconds):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_later(seconds, self._serve)

    def _serve(self) -> None:
        """Serve the pipes for a fraction of a millisecond, and schedule the next turn."""
        self._timer = None
        loop = self._loop()
        assert loop is not None, "the loop itself calls this"
        now = loop.time()
        turns_since = (now - self._served_at) / _TURN_SECONDS  # more than one if the loop is busy
        work_seconds = min(max(1.0, turns_since) * _WORK_SECONDS, _MAX_WORK_SECONDS)
        end = perf_counter() + work_seconds
        self._served_at = now
        if now >= self._rest_until:
            self._pipes += self._resting
            self._resting.clear()
        try:
            while self._pipes and perf_counter() < end:
                self._serve_pipe(self._lowest(now), now, end)
        finally:
            if self._pipes:
                self._schedule(_TURN_SECONDS)
            elif self._resting:
                self._schedule(max(_TURN_SECONDS, self._rest_until - loop.time()))

    def _lowest(self, now: float) -> FloodedPipe:
        """Return the pipe with the lowest level; of equal pipes, the one that waited longest."""
        return min(self._pipes, key=lambda pipe: pipe.budget.level(now))

    def _serve_pipe(self, pipe: FloodedPipe, now: float, end: float) -> None:
        """Let a pipe take its turn, and put it back into the queue if there may be more."""
        self._pipes.remove(pipe)
        turn = TurnEnd.MORE
        level = pipe.budget.level(now)
        began = thread_time()  # without the time in which other programs had the processor
        try:
            turn = pipe.take_turn(end, may_be_long=now >= self._rest_until)
        finally:  # KeyboardInterrupt may come out of it
            # On a slow machine each reply takes long. If replies were charged, a busy extension
            # that has once flooded would do so forever.
            has_flooded = pipe.budget.level(now) != level
            self.rest_after(pipe, thread_time() - began, now, is_charged=has_flooded)
            if turn is TurnEnd.LARGE:
                self._resting.append(pipe)
            elif turn is TurnEnd.MORE and pipe not in self._pipes:
                self._pipes.append(pipe)


_queues: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, FloodQueue]" = (
    weakref.WeakKeyDictionary()
)


def flood_queue(loop: asyncio.AbstractEventLoop) -> FloodQueue:
    """Return the queue of this event loop."""
    queue = _queues.get(loop)
    if queue is None:
        queue = _queues[loop] = FloodQueue(loop)
    return queue
