"""When an extension has had nothing to do for long enough to be let go, and who objects.

Looked at from time to time, never told: a call must not pay for it. Whether anything happened
shows in the numbers that sessions give out anyway, and in `uses`, for what has no number. Whoever
wants it to stay holds it (`hold`); a setting of None never lets go.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from exthost.extension.processes import Member
from exthost.extension.call_queue import CallQueue


# Looks per idle time: it is let go at most a quarter late.
_LOOKS = 4


class Idling:
    """The idleness of one extension."""

    __slots__ = ("_queue", "_holders", "_limit", "_looked", "_seen", "_since", "uses")

    def __init__(self, limit: float | None, queue: CallQueue) -> None:
        self._limit = limit
        self._queue = queue
        self._holders = 0
        self._looked = self._since = 0.0
        self._seen = (0, 0)
        self.uses = 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Not while somebody is in here; from the end on the time counts anew."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            self.uses += 1

    def begin(self, now: float, serving: Sequence[Member]) -> None:
        """A process has just got ready: it has not been idle yet."""
        self._looked = self._since = now
        self._seen = self._numbers(serving)

    def _numbers(self, serving: Sequence[Member]) -> tuple[int, int]:
        return sum(one.session.next_id for one in serving), self.uses

    def next_look(self) -> float:
        """When to look again."""
        return math.inf if self._limit is None else self._looked + self._limit / _LOOKS

    def is_over(self, now: float, serving: Sequence[Member]) -> bool:
        """Look: whether it has been idle for too long, and nobody holds it."""
        if self._limit is None or now < self.next_look():
            return False
        self._looked = now
        seen = self._numbers(serving)
        busy = self._holders or self._queue.waiting or not all(s.is_idle for s in self._queue.live_sessions)
        if busy or seen != self._seen:
            self._seen, self._since = seen, now
            return False
        return now - self._since >= self._limit
