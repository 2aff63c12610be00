"""The deadlines of the calls of one extension: one timer, and no queue.

When the earliest deadline comes, the open calls are searched. That happens once per time limit and
not once per call, so a deadline costs a call one comparison with `next_at`.
"""

import asyncio
import math
from collections.abc import Callable

from exthost.extension.deadline_timer import DeadlineTimer, deadline_timer
from exthost.session.call import Call

# Deadlines that lie closer together than this are handled together.
_TICK_SECONDS = 0.005

# A loop's clock may be this coarse, and its timers this early.
_CLOCK_SECONDS = 0.001


class Deadlines:
    """Ends calls whose time is over. `next_at` is when the timer fires, or infinity."""

    __slots__ = ("_expire", "_loop", "_now", "_open_calls", "_timer", "next_at")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        now: Callable[[], float],
        open_calls: Callable[[], list[Call]],
        expire: Callable[[Call], None],
    ) -> None:
        self._loop = loop
        self._now = now
        self._open_calls = open_calls
        self._expire = expire
        self._timer: DeadlineTimer | None = None
        self.next_at = math.inf

    def set(self, when: float) -> None:
        """Check the calls at this time, which is earlier than `next_at`. Loop's thread only."""
        if self._timer is None:
            self._timer = deadline_timer(self._loop, self._on_time)
        self.next_at = when
        self._timer.set(when)

    def _on_time(self) -> None:
        self.next_at = math.inf
        now = self._now()
        calls = self._open_calls()
        limit = now + _CLOCK_SECONDS
        due = [call for call in calls if call.deadline <= limit]
        for call in sorted(due, key=lambda call: call.deadline):
            self._expire(call)
        # An ended call may still be in its place: its consumer left before the reply came.
        later = [call.deadline for call in calls if not call.ended or call.deadline > limit]
        upcoming = min(later, default=math.inf)
        if upcoming < self.next_at:
            self.set(max(upcoming, now + _TICK_SECONDS))

    def stop(self) -> None:
        """Release the timer, at the end of the extension's life."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.next_at = math.inf
