"""When a pool gets one more process: on demand, and for each that was lost, not before a restart
delay is over."""

import math

from exthost.extension.policy import PoolSize


class PoolGrowth:
    """Whether one more process is wanted, and when it may start."""

    __slots__ = ("_lost", "_not_before", "_wanted", "size")

    def __init__(self, size: PoolSize) -> None:
        self.size = size
        self._wanted = False
        self._lost = 0  # processes that were lost at the same time, as those of one node are
        self._not_before = 0.0

    def request(self) -> None:
        """Request one more process, because all are busy."""
        self._wanted = True

    def request_at(self, when: float) -> None:
        """Request one more process at the time `when`, because one was lost."""
        self._lost += 1
        self._not_before = when

    def stop(self) -> None:
        """Start no more processes, until `reset`."""
        self._not_before = math.inf

    def reset(self) -> None:
        """Forget the delay, the limit and what was lost, because a restart was requested."""
        self._not_before = 0.0
        self._lost = 0

    def cancel(self) -> None:
        """Withdraw all requests."""
        self._wanted, self._lost = False, 0

    def next_due(self) -> float:
        """Return when to start one more process; infinity if none is wanted."""
        return self._not_before if self._wanted or self._lost else math.inf

    def take_due(self, now: float) -> bool:
        """Return whether to start one more process now, and withdraw one request if so."""
        if now < self.next_due():
            return False
        self._lost = max(0, self._lost - 1)
        self._wanted = False
        return True
