"""Pins processes to cores. Without pinning, the same program varies between 4 and 12 µs a round
trip.

`same` puts host and child on one core, `split` on one each. Linux only; on other systems the rows
run unpinned and report that. Affinity belongs to threads, so both ends are pinned thread by thread
after everything has started; later threads inherit the affinity of their creator.

The host gets the core that serves the fewest device interrupts. On a machine with two cores the
child and the interrupts share the other one.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from pathlib import Path

from bench.row import NotHere

PROC = Path("/proc")
PID_NAMESPACE = PROC / "self" / "ns" / "pid"


# A core is avoided if it has served this many times the device interrupts of another. The factor
# is large, so that the choice is the same in each run.
BUSY_FACTOR = 4


class Pin(Enum):
    """The cores of host and child."""

    SAME = "same"
    SPLIT = "split"


def usable() -> list[int]:
    """Return the cores that this process may use; empty if the system has no affinity."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    return sorted(os.sched_getaffinity(0))


def pair(pin: Pin) -> tuple[int, int] | None:
    """Return the core of the host and the core of its child; None if pinning is impossible."""
    cores = usable()
    if not cores:
        return None
    quiet = by_interrupts(cores, interrupts(_interrupts_text()))
    if pin is Pin.SAME:
        return quiet[0], quiet[0]
    if len(cores) < 2:
        raise NotHere("only one core is usable here")
    return quiet[0], quiet[1]


def _interrupts_text() -> str:
    try:
        return (PROC / "interrupts").read_text()
    except OSError:
        return ""


def interrupts(text: str) -> dict[int, int]:
    """Return the number of device interrupts that each core has served, from /proc/interrupts."""
    lines = text.splitlines()
    cores = [int(word.removeprefix("CPU")) for word in lines[0].split()] if lines else []
    counts = dict.fromkeys(cores, 0)
    for line in lines[1:]:
        label, *words = line.split()
        # Devices have numbers; timers and wake-ups between cores, which the row causes, have names.
        if label.rstrip(":").isdigit():
            for core, word in zip(cores, words, strict=False):
                counts[core] += int(word)
    return counts


def by_interrupts(cores: Sequence[int], counts: Mapping[int, int]) -> list[int]:
    """Return the cores, those with few interrupts first; of equal cores, the last one first."""
    least = min((counts.get(core, 0) for core in cores), default=0)

    def is_busy(core: int) -> bool:
        return counts.get(core, 0) > BUSY_FACTOR * max(least, 1)

    return sorted(cores, key=lambda core: (is_busy(core), -core))


def apart() -> tuple[int, int] | None:
    """Return two different cores if there are two, for rows in which both ends are busy."""
    return pair(Pin.SPLIT if len(usable()) > 1 else Pin.SAME)


def _children() -> dict[int, list[int]]:
    """Return every process by its parent."""
    found: dict[int, list[int]] = {}
    for entry in PROC.iterdir() if PROC.is_dir() else ():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses can contain blanks and parentheses; the rest cannot.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found.setdefault(int(fields[1]), []).append(int(entry.name))
    return found


def children_of(parent: int) -> list[int]:
    """Return the direct children of a process."""
    return _children().get(parent, [])


def descendants(root: int) -> list[int]:
    """Return every process below `root`."""
    children = _children()
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def namespaced_below() -> int:
    """Return how many processes below this one are in another PID namespace."""
    found = 0
    for pid in descendants(os.getpid()):
        try:
            found += (PROC / str(pid) / "ns" / "pid").readlink() != PID_NAMESPACE.readlink()
        except OSError:
            continue
    return found


def _pin_process(pid: int, core: int) -> None:
    try:
        threads = [int(entry.name) for entry in (PROC / str(pid) / "task").iterdir()]
    except OSError:
        return
    for thread in threads:
        try:
            os.sched_setaffinity(thread, {core})
        except ProcessLookupError:
            pass


def _prefer_session(pid: int) -> None:
    """Give the session of a process the niceness of this one.

    Linux shares a core among sessions first and looks at the niceness of a process only inside
    its session (see sched(7), autogroup).
    """
    try:
        (PROC / str(pid) / "autogroup").write_text(str(os.getpriority(os.PRIO_PROCESS, 0)))
    except OSError:
        pass  # the process has ended, or this kernel has no autogroups


def pin(cores: tuple[int, int] | None, beside: Collection[int] = ()) -> str:
    """Pin this process and all below it; return a note if nothing could be pinned.

    `beside` are processes below that get the same core as this process: hosts in a process of
    their own, and processes that talk to one that has the other core. `cores` is the
    result of `pair` from before anything was pinned: afterwards `pair` would see one core.
    """
    if cores is None:
        return "not pinned: this system has no affinity"
    host, child = cores
    below = descendants(os.getpid())
    if os.getpriority(os.PRIO_PROCESS, 0) < 0:
        for pid in (os.getpid(), *below):
            _prefer_session(pid)
    _pin_process(os.getpid(), host)
    for pid in below:
        _pin_process(pid, host if pid in beside else child)
    return ""
