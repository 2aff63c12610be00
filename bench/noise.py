"""Other programs on the same cores: how much they take, and which blocks of calls they disturb.

Reads /proc, on Linux. Elsewhere nothing is known, and every block counts.
"""

import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path

from bench.cores import descendants

PROC = Path("/proc")
# Below this number of blocks each of them counts: a median needs a few.
MANY_ROUNDS = 40


class Delays:
    """The time for which the threads of this process, and its children, waited for a core.

    A thread waits when another program runs on its core. In rows that share one core, host and
    child also wait for each other, about as long in every round.
    """

    def __init__(self) -> None:
        self._files: list[int] = []
        ours = os.getpid()
        for pid in (ours, *descendants(ours)):
            try:
                tasks = list((PROC / str(pid) / "task").iterdir())
            except OSError:
                continue
            for task in tasks:
                try:
                    self._files.append(os.open(task / "schedstat", os.O_RDONLY | os.O_CLOEXEC))
                except OSError:
                    continue

    def seconds(self) -> float:
        """Return the sum of these times since the threads started."""
        waited = 0
        for file in self._files:
            try:
                waited += int(os.pread(file, 128, 0).split()[1])
            except (OSError, IndexError):
                continue  # the thread ended, or this kernel does not count
        return waited / 1e9

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            os.close(file)
        self._files.clear()


def calmest(waited: Sequence[float]) -> list[int]:
    """Return the blocks that count, in order: the quarter in which threads waited least.

    `waited` is, for each block of one kind, the part of its time for which threads waited for a
    core. A block is shorter than the slices that a busy core deals out, so on a busy machine, too,
    some blocks are not disturbed at all.
    """
    if len(waited) < MANY_ROUNDS:
        return list(range(len(waited)))
    order = sorted(range(len(waited)), key=lambda turn: waited[turn])
    return sorted(order[: (len(waited) + 3) // 4])


def _busy_seconds() -> float | None:
    """Return the time that all cores spent on anything, since the machine started."""
    try:
        words = (PROC / "stat").read_text().split("\n", 1)[0].split()[1:]
        ticks = [int(word) for word in words]
    except (OSError, ValueError):
        return None
    # user nice system idle iowait irq softirq steal; guests are part of user.
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
