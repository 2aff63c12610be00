"""The processor time and memory of each extension over the last two minutes, while a web page of
the host is open.

Each extension is measured once in each interval, with all processes of its tree. An extension
without a process on this machine is not measured.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from exthost.faces.web.history import POINT_COUNT, POINT_SECONDS
from exthost.host.control.measurements import measure_processes

# Memory is rounded to this, so that a row does not change with every page of memory.
_MEMORY_STEP = 64 * 1024


class _Sample(NamedTuple):
    """The processor time that an extension had used by a time (of a monotonic clock)."""

    time: float
    cpu_seconds: float


class ResourceUsage:
    """The measurements of all extensions of one host."""

    def __init__(self) -> None:
        self._samples: dict[str, _Sample] = {}
        # By extension: (percent of one processor, bytes), the newest last.
        self._points: dict[str, deque[tuple[float, int]]] = {}

    def measure(
        self, extension: str, pids: Sequence[int], node_usage: tuple[float, int], now: float
    ) -> dict[str, Any]:
        """Return the measurements of an extension, in the form of a row. `pids` are its processes
        on this machine, and `node_usage` are the seconds and bytes that its processes on other
        nodes use. `now` is a monotonic time in seconds."""
        if not pids and node_usage == (0.0, 0):
            self._samples.pop(extension, None)
            self._points.pop(extension, None)
            return {"cpu_percent": None, "memory_bytes": None, "usage": []}
        points = self._points.setdefault(extension, deque(maxlen=POINT_COUNT))
        sample = self._samples.get(extension)
        if sample is None or now - sample.time >= POINT_SECONDS:
            cpu_seconds, memory = measure_processes(pids)
            cpu_seconds, memory = cpu_seconds + node_usage[0], memory + node_usage[1]
            percent = 0.0
            if sample is not None:
                # The sum is less than before if a process has ended.
                used = max(0.0, cpu_seconds - sample.cpu_seconds)
                percent = round(100 * used / (now - sample.time), 1)
            self._samples[extension] = _Sample(now, cpu_seconds)
            points.append((percent, memory - memory % _MEMORY_STEP))
        percent, memory = points[-1]
        return {"cpu_percent": percent, "memory_bytes": memory, "usage": list(points)}

    def clear(self) -> None:
        """Forget everything, because no page is open: a later page must not show a gap as a
        line."""
        self._samples.clear()
        self._points.clear()
