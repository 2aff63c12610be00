"""Other programs on the same cores: how much of them they take.

It is read from /proc, on Linux; elsewhere it is not known.
"""

import os
import resource
import time
from pathlib import Path

PROC = Path("/proc")


def _busy_seconds() -> float | None:
    """Return the time that all cores spent on anything, since the machine started."""
    try:
        words = (PROC / "stat").read_text().split("\n", 1)[0].split()[1:]
        ticks = [int(word) for word in words]
    except (OSError, ValueError):
        return None
    # user nice system idle iowait irq softirq steal; virtual machines are part of user.
    return (sum(ticks[:3]) + sum(ticks[5:8])) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Return the time that this process and its children that have ended spent on a core."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    return total


class OtherWork:
    """Measures the part of the machine that other programs take, from its creation on."""

    def __init__(self) -> None:
        self._before = time.perf_counter(), _busy_seconds(), _own_seconds()

    def part(self) -> float | None:
        """Return it as a part of all cores, 0 to 1; None where the system does not tell."""
        start, busy_before, own_before = self._before
        busy, own = _busy_seconds(), _own_seconds()
        if busy is None or busy_before is None:
            return None
        cores = os.cpu_count() or 1
        # At least a second: the kernel counts in hundredths.
        passed = max(time.perf_counter() - start, 1.0) * cores
        return min(max(busy - busy_before - (own - own_before), 0.0) / passed, 1.0)
