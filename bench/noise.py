"""The share of the machine that other programs use.

Read from /proc, on Linux; unknown on other systems.
"""

import os
import resource
import time
from pathlib import Path

PROC = Path("/proc")


def _busy_seconds() -> float | None:
    """Return the processor time that all cores have spent since the machine started."""
    try:
        words = (PROC / "stat").read_text().split("\n", 1)[0].split()[1:]
        ticks = [int(word) for word in words]
    except (OSError, ValueError):
        return None
    # user nice system idle iowait irq softirq steal; virtual machines are part of user.
    return (sum(ticks[:3]) + sum(ticks[5:8])) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    return total


class OtherWork:
    """Measures the share of the machine that other programs use, from its creation on."""

    def __init__(self) -> None:
        self._before = time.perf_counter(), _busy_seconds(), _own_seconds()

    def part(self) -> float | None:
        """Return the share of all cores, 0 to 1; None if the system does not report it."""
        start, busy_before, own_before = self._before
        busy, own = _busy_seconds(), _own_seconds()
        if busy is None or busy_before is None:
            return None
        cores = os.cpu_count() or 1
        # At least a second: the kernel counts in hundredths.
        passed = max(time.perf_counter() - start, 1.0) * cores
        return min(max(busy - busy_before - (own - own_before), 0.0) / passed, 1.0)
