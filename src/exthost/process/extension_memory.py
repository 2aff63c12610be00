"""Sums up the memory of an extension: of its processes, its private file systems, and the shared
memory that its processes have mapped.

Shared anonymous memory (mmap with MAP_SHARED and MAP_ANONYMOUS) is a file without a name. Its pages
stay allocated while any process has any part of it mapped, but only pages that were touched through
a mapping of today are resident. So such a file counts with its size. The host cannot see the size,
only mappings: it takes the largest extent in which it has seen the file mapped.

A file can be mapped, written and unmapped up to its last page between two samples. A program that
does so again and again is seen doing it, though not with each file. So a file of which a part was
unmapped counts with what a program can write between two samples, at least. Ordinary programs
unmap the whole of it.

Reading the mappings takes longer than everything else. So it is repeated only after a process has
used processor time, without which it cannot write memory.
"""

import time
from collections.abc import Mapping
from typing import NamedTuple

from exthost.process.procfs import ENDED, memory_use, mounted_bytes, shared_mappings

# About what a program can write between two samples.
_HIDDEN_BYTES = 128 * 2**20

# The mappings of a process are read again after it has used this much processor time, in which it
# can write about ten megabytes, and this many times as much as the last read took. Otherwise a
# program with many mappings could keep the host busy.
_READ_AGAIN_NANOSECONDS = 1_000_000
_READ_AGAIN_FACTOR = 2

# The most time that the mappings of one extension are read at a time, so that the samples of other
# extensions are not late. The rest is read at the next sample.
_MAX_READ_NANOSECONDS = 50_000_000


class _SharedMappings(NamedTuple):
    """The shared mappings of one process (`procfs.shared_mappings`), its clock when they were read,
    and how long that took."""

    mappings: Mapping[int, tuple[int, int]]
    clock: int
    read_nanoseconds: int


class ExtensionMemory:
    """The memory of all processes of one extension."""

    __slots__ = ("_by_process", "_largest", "_mounts")

    def __init__(self, mounts: tuple[str, ...]) -> None:
        """`mounts` are the private file systems in memory."""
        self._mounts = mounts
        self._by_process: dict[int, _SharedMappings] = {}
        # The largest extent of each shared file that is mapped, in bytes, by inode number.
        self._largest: dict[int, int] = {}

    def measure(self, clocks: Mapping[int, int], init: int | None) -> int:
        """Return the memory in bytes.

        clocks  the processes, each with its clock
        init    the first process of its namespace, which is ours: the private file systems are
                looked up through it, since a process of the extension may have ended in part

        Raises PermissionError if the kernel does not allow the host to measure, and OverflowError
        if a process has more mappings than can be read."""
        uses = {pid: memory_use(pid) for pid in clocks}
        total = sum(use.total for use in uses.values())
        if init is not None and clocks:
            total += mounted_bytes(init, self._mounts)
        self._read_mappings(clocks)
        shared = self._shared_bytes()
        if shared:
            # Its resident part has been counted.
            sharing = (pid for pid, process in self._by_process.items() if process.mappings)
            total += max(0, shared - sum(uses[pid].shared for pid in sharing))
        return total

    def _read_mappings(self, clocks: Mapping[int, int]) -> None:
        known = self._by_process
        for pid in [pid for pid in known if clocks.get(pid, ENDED) < known[pid].clock]:
            del known[pid]
        began = time.monotonic_ns()
        # Those that were never read come first.
        for pid in sorted(clocks, key=known.__contains__):
            last = known.get(pid)
            if last is not None:
                enough = max(_READ_AGAIN_NANOSECONDS, _READ_AGAIN_FACTOR * last.read_nanoseconds)
                if clocks[pid] - last.clock < enough:
                    continue
            before = time.monotonic_ns()
            if before - began > _MAX_READ_NANOSECONDS:
                break
            mappings = shared_mappings(pid)
            known[pid] = _SharedMappings(mappings, clocks[pid], time.monotonic_ns() - before)

    def _shared_bytes(self) -> int:
        mapped: dict[int, int] = {}
        for process in self._by_process.values():
            for inode, (size, end) in process.mappings.items():
                mapped[inode] = max(mapped.get(inode, 0), size)
                self._largest[inode] = max(self._largest.get(inode, 0), size, end)
        self._largest = {inode: self._largest[inode] for inode in mapped}
        return sum(
            largest if mapped[inode] >= largest else max(largest, _HIDDEN_BYTES)
            for inode, largest in self._largest.items()
        )
