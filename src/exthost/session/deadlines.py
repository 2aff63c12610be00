"""One queue of deadlines for all calls of an extension. Pure: the clock is handed in.

A timer per call would cost more than the call's own bookkeeping. Most calls of an extension have
the same time limit, so their deadlines come in order and a plain lane holds them; the others go
into a heap. Entries of calls that ended are passed over when they come up, and swept out together
once they are too many, so memory follows the calls that are open and not those of the last minute.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Protocol


class Mortal(Protocol):
    """What a deadline belongs to. Extending one is setting `deadline` to a later time."""

    deadline: float
    ended: bool


# Below this many entries sweeping is not worth it.
_SWEEP_FROM = 64


class Deadlines:
    """The earliest first."""

    __slots__ = ("_heap", "_lane", "_latest", "_sweep_at", "_tie")

    def __init__(self) -> None:
        self._lane: deque[tuple[float, Mortal]] = deque()  # in order, as they came
        self._latest = 0.0  # the last deadline in the lane
        self._heap: list[tuple[float, int, Mortal]] = []  # those that came out of order
        self._tie = count()  # equal deadlines compare by age, never by the entry itself
        self._sweep_at = _SWEEP_FROM

    def __len__(self) -> int:
        return len(self._lane) + len(self._heap)

    def add(self, entry: Mortal) -> None:
        due = entry.deadline
        lane = self._lane
        if due >= self._latest:
            self._latest = due
            while lane and lane[0][1].ended:  # mostly the one before: the lane stays short
                lane.popleft()
            lane.append((due, entry))
        else:
            heappush(self._heap, (due, next(self._tie), entry))
        if len(lane) + len(self._heap) > self._sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        self._lane = deque(row for row in self._lane if not row[1].ended)
        self._heap = [row for row in self._heap if not row[2].ended]
        heapify(self._heap)
        self._sweep_at = max(_SWEEP_FROM, 2 * len(self))

    def next(self) -> float | None:
        """When the earliest is due, or None if nothing is."""
        lane, heap = self._lane, self._heap
        while lane:
            due, entry = lane[0]
            if not entry.ended and entry.deadline == due:
                break
            lane.popleft()
            if not entry.ended:  # it was extended meanwhile
                heappush(heap, (entry.deadline, next(self._tie), entry))
        while heap:
            due, _, entry = heap[0]
            if not entry.ended and entry.deadline == due:
                break
            heappop(heap)
            if not entry.ended:
                heappush(heap, (entry.deadline, next(self._tie), entry))
        if not lane:
            self._latest = 0.0
        heads = [row[0][0] for row in (lane, heap) if row]
        return min(heads, default=None)

    def due(self, now: float) -> list[Mortal]:
        """Those whose time has come, taken out."""
        late: list[Mortal] = []
        while (due := self.next()) is not None and due <= now:
            if self._lane and self._lane[0][0] == due:
                late.append(self._lane.popleft()[1])
            else:
                late.append(heappop(self._heap)[2])
        return late
