"""Measures the duration of calls, and the memory and processor time of processes, on request.

`exthost top` requests the measurements repeatedly over the control socket. The durations come
from the event bus. A subscriber makes each call a little slower, so the subscription ends some
seconds after the last request for measurements.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from exthost.events import Bus, CallEnded
from exthost.process.procfs import ENDED, descendants, memory_use, reaped_seconds

# The percentiles are those of the last calls of an extension, at most this many.
_MAX_CALLS = 512

# How long to measure after the last request for measurements.
_KEEP_SECONDS = 10.0


class Measurements:
    """The measurements of one host."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._seconds: dict[str, deque[float]] = {}  # durations of the last calls, by extension
        self._unsubscribe: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def keep_measuring(self) -> None:
        """Start measuring, or continue, until some seconds after the last call of this method."""
        if self._unsubscribe is None:
            self._unsubscribe = self._bus.subscribe(CallEnded, self._on_call)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_KEEP_SECONDS, self.close)

    def close(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._seconds.clear()

    def _on_call(self, ended: CallEnded) -> None:
        seconds = self._seconds.get(ended.extension)
        if seconds is None:
            seconds = self._seconds[ended.extension] = deque(maxlen=_MAX_CALLS)
        seconds.append(ended.seconds)

    def measure(
        self, extension: str, pids: Sequence[int], node_usage: tuple[float, int] = (0.0, 0)
    ) -> dict[str, Any]:
        """Return the measurements of an extension. `pids` are its processes on this machine;
        processes that they started are included. `node_usage` is the processor time in seconds and
        the memory in bytes of its processes on other nodes. The percentiles are None if no call was
        measured yet."""
        durations = sorted(self._seconds.get(extension, ()))
        cpu_seconds, memory_bytes = measure_processes(pids)
        node_cpu_seconds, node_memory_bytes = node_usage
        return {
            "p50_ms": percentile(durations, 0.5),
            "p99_ms": percentile(durations, 0.99),
            "cpu_seconds": round(cpu_seconds + node_cpu_seconds, 3),
            "memory_bytes": memory_bytes + node_memory_bytes,
        }


def measure_processes(pids: Sequence[int]) -> tuple[float, int]:
    """Return the processor time in seconds and the memory in bytes of these processes, and of those
    that they started."""
    cpu_nanoseconds = descendants(*pids)  # by the pid, of these processes and those they started
    seconds = sum(value for value in cpu_nanoseconds.values() if value != ENDED) / 1e9
    # `reaped_seconds` is the time of children that have ended, which their parent keeps.
    cpu_seconds = round(seconds + sum(map(reaped_seconds, cpu_nanoseconds)), 3)
    return cpu_seconds, sum(memory_use(pid).total for pid in cpu_nanoseconds)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return a percentile of durations in milliseconds, or None without durations. `ordered` are
    the sorted durations in seconds. `share` is between 0 and 1, such as 0.99."""
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 3)
