"""Functions that read processes, descriptors and threads from /proc, for tests.

`conftest.py` uses them to find what a test has left behind. A process that a test has started is
found by its parent or, if its parent has ended, by the environment variable MARK, which all
processes of the tests inherit.
"""

import os
import threading
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")

# The variable, and its value in this run of the tests.
MARK = "EXTHOST_TEST_RUN"
os.environ[MARK] = f"{os.getpid()}.{uuid.uuid4().hex}"


class ProcessInfo(NamedTuple):
    """One process: its parent, its state as the kernel's letter, its command line."""

    parent: int
    state: str
    command: str


def read_process(pid: int) -> ProcessInfo | None:
    """Return the process of this pid, which may be a zombie, or None."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        command = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return None
    name, _, rest = stat.rpartition(")")
    state, parent = rest.split()[:2]
    arguments = command.decode("utf-8", "replace").split("\0")
    return ProcessInfo(int(parent), state, " ".join(arguments).strip() or name.partition("(")[2])


def is_gone(pid: int) -> bool:
    """Return whether the process is gone; a zombie is not."""
    return read_process(pid) is None


def is_running(pid: int) -> bool:
    """Return whether the process runs. A zombie has ended, and only waits for its parent."""
    observed = read_process(pid)
    return observed is not None and observed.state not in "ZX"


def outside(inside: int, wrapper: int) -> int:
    """Return the pid that this process sees of a process in a pid namespace, as in a sandbox.

    `inside` is its pid in the namespace, and `wrapper` is the process that the host started for it.
    Without a namespace both pids are the same.
    """
    for pid in descendants_of(wrapper):
        try:
            status = (_PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        pids = status.partition("NSpid:")[2].partition("\n")[0].split()
        if len(pids) > 1 and pids[-1] == str(inside):
            return pid
    return inside


def descendants_of(pid: int) -> set[int]:
    """Return the pids of a process and of all its descendants."""
    parents = {
        item: observed.parent for item in all_pids() if (observed := read_process(item)) is not None
    }
    descendants, parents_of_next = {pid}, {pid}
    while parents_of_next:
        children = {child for child, parent in parents.items() if parent in parents_of_next}
        parents_of_next = children - descendants
        descendants |= parents_of_next
    return descendants


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208


def environment_of(pid: int) -> list[bytes]:
    """Return the variables of a process. A zombie or a process of another user has none."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def resident_bytes() -> int:
    """Return how much memory this process uses now."""
    pages = (_PROC / "self" / "statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def our_processes(but: Collection[int] = ()) -> dict[int, str]:
    """Return a description of each process that is a child of this one or has the variable MARK, by
    pid. Pids in `but` are not read: reading all processes of a machine takes 15 ms."""
    mark, me = f"{MARK}={os.environ[MARK]}".encode(), os.getpid()
    found: dict[int, str] = {}
    for pid in all_pids():
        if pid in but:
            continue
        observed = read_process(pid)
        if observed is None or pid == me:
            continue
        if observed.parent == me or mark in environment_of(pid):
            found[pid] = f"state {observed.state}: {observed.command}"
    return found


def our_descriptors() -> dict[int, str]:
    """Return every open descriptor of this process, with the file that it refers to."""
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - iterdir holds one more open
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
        except OSError:
            continue
    return found


def our_threads() -> dict[int, str]:
    return {thread.ident or 0: thread.name for thread in threading.enumerate()}
