"""Decides when a pool starts one more process.

One more process is requested when all processes are busy, and one for each process that ended by
itself. A process that replaces an ended one starts only after the delay of the restart policy.
"""

import math

from exthost.extension.policy import PoolSize


class PoolGrowth:
    """The requests for more processes of one pool. Times are seconds of the loop's clock."""

    __slots__ = ("_is_requested", "_lost_processes", "_not_before", "size")

    def __init__(self, size: PoolSize) -> None:
        self.size = size
        self._is_requested = False  # because all processes are busy
        self._lost_processes = 0  # to be replaced; several end at once if their node fails
        self._not_before = 0.0

    def request(self) -> None:
        """Request one more process, because all are busy."""
        self._is_requested = True

    def request_at(self, when: float) -> None:
        """Request one more process at the time `when`, because a process ended by itself."""
        self._lost_processes += 1
        self._not_before = when

    def stop(self) -> None:
        """Start no more processes, until `reset`."""
        self._not_before = math.inf

    def reset(self) -> None:
        """Forget the delay, a `stop` and the lost processes, because a restart was requested."""
        self._not_before = 0.0
        self._lost_processes = 0

    def cancel(self) -> None:
        """Withdraw all requests."""
        self._is_requested, self._lost_processes = False, 0

    def next_due(self) -> float:
        """Return the time at which to start one more process; infinity if none is requested."""
        return self._not_before if self._is_requested or self._lost_processes else math.inf

    def take_due(self, now: float) -> bool:
        """Return whether to start one more process now. If so, withdraw the request of a busy pool
        and one of the lost processes, because one new process serves both."""
        if now < self.next_due():
            return False
        self._lost_processes = max(0, self._lost_processes - 1)
        self._is_requested = False
        return True
