"""The idle timer: when an unused extension ends its processes, and how a user prevents that.

The supervisor checks from time to time; calls do not report here, so they pay nothing. The request
ids of the sessions show activity, and `uses` counts what has no id. `hold` prevents the end;
without a limit it never comes.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from exthost.extension.call_queue import CallQueue
from exthost.extension.processes import Worker

# Checks per idle limit: the extension ends at most a quarter late.
_CHECKS = 4


class IdleTimer:
    """The idle time of one extension."""

    __slots__ = ("_checked", "_holders", "_limit", "_queue", "_seen", "_since", "uses")

    def __init__(self, limit: float | None, queue: CallQueue) -> None:
        self._limit = limit
        self._queue = queue
        self._holders = 0
        self._checked = self._since = 0.0
        self._seen = (0, 0)
        self.uses = 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Prevent the end inside the `with` block. The idle time starts again after it."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            self.uses += 1

    def begin(self, now: float, serving: Sequence[Worker]) -> None:
        """Start the idle time: a process has just got ready."""
        self._checked = self._since = now
        self._seen = self._activity(serving)

    def _activity(self, serving: Sequence[Worker]) -> tuple[int, int]:
        return sum(worker.session.next_id for worker in serving), self.uses

    def next_check(self) -> float:
        """Return when to check again."""
        return math.inf if self._limit is None else self._checked + self._limit / _CHECKS

    def is_over(self, now: float, serving: Sequence[Worker]) -> bool:
        """Return whether the extension was idle for its limit, and nobody holds it."""
        if self._limit is None or now < self.next_check():
            return False
        self._checked = now
        activity = self._activity(serving)
        busy = (
            self._holders
            or self._queue.waiting
            or not all(s.is_idle for s in self._queue.live_sessions)
        )
        if busy or activity != self._seen:
            self._seen, self._since = activity, now
            return False
        return now - self._since >= self._limit
