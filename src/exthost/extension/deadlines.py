"""Ends the calls of one extension at their deadlines, with one timer and no priority queue.

The timer is set for the earliest deadline. When it fires, all open calls are searched for those
that are due. Most calls end long before their deadlines, so a search happens about once per time
limit and not once per call; submitting a call costs one comparison of its deadline with `next_at`.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Protocol

from exthost.extension.deadline_timer import DeadlineTimer, make_deadline_timer
from exthost.session.call import Call

# The shortest time between two searches, so that deadlines close together share one search.
_MIN_PAUSE_SECONDS = 0.005

# A timer may fire this much too early, because the clock of a loop is coarse.
_CLOCK_RESOLUTION_SECONDS = 0.001


class _Queue(Protocol):
    """The part of the call queue whose deadlines these are."""

    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]

    def open_calls(self) -> list[Call]: ...

    def expire(self, call: Call) -> None: ...


class Deadlines:
    """Ends calls whose deadline has passed, except those with `has_own_timer`. `next_at` is the
    loop time at which the timer fires; infinity if it is not set."""

    __slots__ = ("_queue", "_timer", "next_at")

    def __init__(self, queue: _Queue) -> None:
        self._queue = queue
        self._timer: DeadlineTimer | None = None
        self.next_at = math.inf

    def set(self, when: float) -> None:
        """Search the calls at this time, which must be earlier than `next_at`. Loop's thread
        only."""
        if self._timer is None:
            self._timer = make_deadline_timer(self._queue.loop, self._on_time)
        self.next_at = when
        self._timer.set(when)

    def _on_time(self) -> None:
        """End the calls that are due, and set the timer for the earliest deadline of the rest."""
        self.next_at = math.inf
        now = self._queue.now()
        calls = self._queue.open_calls()
        limit = now + _CLOCK_RESOLUTION_SECONDS
        due_calls = [call for call in calls if call.deadline <= limit and not call.has_own_timer]
        for call in sorted(due_calls, key=lambda call: call.deadline):
            self._queue.expire(call)
        # A call that has ended may still be in flight, because the consumer of its stream left
        # before the reply arrived. The deadline of such a call is watched as well, until it passes.
        later_deadlines = [
            call.deadline
            for call in calls
            if (not call.ended or call.deadline > limit) and not call.has_own_timer
        ]
        next_deadline = min(later_deadlines, default=math.inf)
        if next_deadline < self.next_at:
            self.set(max(next_deadline, now + _MIN_PAUSE_SECONDS))

    def stop(self) -> None:
        """Release the timer, at the end of the extension's life."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.next_at = math.inf
