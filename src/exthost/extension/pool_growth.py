"""When a pool gets one more process: on demand, and not before a restart delay is over."""

import math

from exthost.extension.policy import PoolSize


class PoolGrowth:
    """Whether one more process is wanted, and when it may start."""

    __slots__ = ("_not_before", "_wanted", "size")

    def __init__(self, size: PoolSize) -> None:
        self.size = size
        self._wanted = False
        self._not_before = 0.0

    def request(self) -> None:
        """Request one more process, because all are busy."""
        self._wanted = True

    def request_at(self, when: float) -> None:
        """Request one more process at the time `when`, because one was lost."""
        self._wanted, self._not_before = True, when

    def stop(self) -> None:
        """Start no more processes, until `reset`."""
        self._not_before = math.inf

    def reset(self) -> None:
        """Forget the delay and the limit, because a restart was requested."""
        self._not_before = 0.0

    def cancel(self) -> None:
        """Withdraw the request for one more process."""
        self._wanted = False

    def next_due(self) -> float:
        """Return when to start one more process; infinity if none is wanted."""
        return self._not_before if self._wanted else math.inf

    def take_due(self, now: float) -> bool:
        """Return whether to start one more process now, and withdraw the request if so."""
        is_due = self._wanted and now >= self._not_before
        if is_due:
            self._wanted = False
        return is_due
