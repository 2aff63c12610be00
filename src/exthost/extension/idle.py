"""The idle timer: decides when an unused extension ends its processes (`limits.idle`).

The supervisor polls it a few times per idle limit. Calls do not report here, so they cost nothing:
the timer compares the next request id of each session with the one it saw last. Uses without a
request id, such as notifications, are counted by `record_use`. Inside a `hold` block the processes
are not ended. Without a configured limit they never are.
"""

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from exthost.extension.call_queue import CallQueue
from exthost.extension.processes import Worker

# The timer is polled this often per idle limit, so the extension ends at most a quarter of the
# limit too late.
_CHECKS_PER_LIMIT = 4

# Requests and other uses are compared as one number, which takes less memory than two. A use counts
# this much, more than all requests together. The sum of the request ids becomes smaller when a
# process ends; so it cannot cancel out a use.
_USE_WEIGHT = 2**48


class IdleTimer:
    """The idle timer of one extension. Times are seconds of the loop's clock."""

    __slots__ = (
        "_checked_at",
        "_holders",
        "_idle_since",
        "_last_activity",
        "_limit",
        "_queue",
        "_uses",
    )

    def __init__(self, limit: float | None, queue: CallQueue) -> None:
        self._limit = limit
        self._queue = queue
        self._holders = 0  # the open `with ext.hold()` blocks
        self._checked_at = self._idle_since = 0.0
        self._last_activity = 0
        self._uses = 0

    def record_use(self) -> None:
        """Count a use that takes no request id, such as a notification."""
        self._uses += 1

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Prevent the end inside the `with` block. The idle time starts again after it."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            self._uses += 1

    def begin(self, now: float, newest: Worker, workers: Collection[Worker]) -> None:
        """Start the idle time, because a process has just become ready. `workers` are all ready
        processes."""
        self._checked_at = self._idle_since = now
        if len(workers) == 1:
            self._last_activity = self._measure_activity(workers)
        else:
            # Only the new process is measured. If each start measured all processes, starting a
            # large pool would take quadratic time.
            self._last_activity += newest.session.next_id

    def _measure_activity(self, workers: Collection[Worker]) -> int:
        """Return a number that differs from the last check's number if anything was sent since."""
        requests = sum(worker.session.next_id for worker in workers)
        return requests + self._uses * _USE_WEIGHT

    def next_check(self) -> float:
        """Return the loop time of the next check; infinity without a limit."""
        if self._limit is None:
            return math.inf
        return self._checked_at + self._limit / _CHECKS_PER_LIMIT

    def is_over(self, now: float, workers: Collection[Worker]) -> bool:
        """Return whether the extension was idle for its limit, and no `hold` is open."""
        if self._limit is None or now < self.next_check():
            return False
        self._checked_at = now
        activity = self._measure_activity(workers)
        is_busy = (
            self._holders
            or self._queue.waiting
            or not all(session.is_idle for session in self._queue.live_sessions)
        )
        if is_busy or activity != self._last_activity:
            self._last_activity, self._idle_since = activity, now
            return False
        return now - self._idle_since >= self._limit
