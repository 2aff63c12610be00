"""Sums up the memory of an extension: of its processes, its private file systems, and the shared
memory that its processes have mapped. The watchdog (`process.watchdog`) takes such a sum as a
sample at short, random intervals.

The size of shared anonymous memory (mmap with MAP_SHARED and MAP_ANONYMOUS) is an estimate. The
kernel keeps such memory in a file without a name. All pages of the file stay allocated while any
process has any part of it mapped. But the kernel reports only those pages that are mapped at the
moment, so a program could hide memory by unmapping it in part. Therefore the file is counted with
its full size. The host cannot read that size, so it takes the largest one that any sample has
shown.

A program can also write a file and unmap most of it between two samples, and then no sample shows
how large the file was. If a program does that repeatedly, samples show some of its files before and
after a part was unmapped, but not all of them. To make up for the others, each such file is counted
with at least the amount that a program can write between two samples. Ordinary programs unmap a
whole file at once, which frees its memory.

Reading the mappings takes longer than everything else. So it is repeated only after a process has
used processor time, without which it cannot write memory.
"""

import time
from collections.abc import Mapping
from typing import NamedTuple

from exthost.process.procfs import (
    ENDED,
    SharedMapping,
    memory_use,
    mounted_bytes,
    shared_mappings,
)

# About what a program can write between two samples.
_HIDDEN_BYTES = 128 * 2**20

# The mappings of a process are read again after it has used this much processor time. In that time
# it can write about ten megabytes.
_READ_AGAIN_NANOSECONDS = 1_000_000

# If the last read took long, the process must first use this many times as much processor time as
# the read took. Otherwise a program with many mappings could keep the host busy.
_READ_AGAIN_FACTOR = 2

# The most time that the mappings of one extension are read at a time, so that the samples of other
# extensions are not late. The rest is read at the next sample.
_MAX_READ_NANOSECONDS = 50_000_000


class _SharedMappings(NamedTuple):
    """The shared mappings of one process at the last read.

    mappings          what is mapped of each shared file, by inode number
    clock             the clock of the process at that read
    read_nanoseconds  how long the read took
    """

    mappings: Mapping[int, SharedMapping]
    clock: int
    read_nanoseconds: int


class ExtensionMemory:
    """The memory of all processes of one extension."""

    __slots__ = ("_by_process", "_largest", "_mounts")

    def __init__(self, mounts: tuple[str, ...]) -> None:
        """`mounts` are the private file systems in memory."""
        self._mounts = mounts
        self._by_process: dict[int, _SharedMappings] = {}
        # The largest size that any sample has shown of each shared file, by inode number. Only
        # files of which a part is mapped.
        self._largest: dict[int, int] = {}

    def measure(self, clocks: Mapping[int, int], init: int | None) -> int:
        """Return the memory in bytes.

        clocks  the processes, each with its clock: the processor time that it has used, in
                nanoseconds
        init    the first process of the extension's PID namespace, a program of the host; None
                without a namespace. The private file systems are looked up through it, because
                that fails for a process whose first thread has ended.

        Raises PermissionError if the kernel does not allow the host to measure, and OverflowError
        if a process has more mappings than can be read."""
        uses = {pid: memory_use(pid) for pid in clocks}
        total = sum(use.total for use in uses.values())
        if init is not None and clocks:
            total += mounted_bytes(init, self._mounts)
        self._read_mappings(clocks)
        shared = self._shared_bytes()
        if shared:
            # The resident part of the shared memory is in the totals of the processes already.
            sharing = (pid for pid, process in self._by_process.items() if process.mappings)
            total += max(0, shared - sum(uses[pid].shared for pid in sharing))
        return total

    def _read_mappings(self, clocks: Mapping[int, int]) -> None:
        """Update `_by_process` with the mappings of the processes that have run long enough since
        the last read."""
        known = self._by_process
        # A missing process counts as ENDED, which is less than every clock. A smaller clock than
        # before is that of a new process with the same pid.
        for pid in [pid for pid in known if clocks.get(pid, ENDED) < known[pid].clock]:
            del known[pid]
        began = time.monotonic_ns()
        # Processes that were never read come first (False sorts before True).
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
        """Return the estimated size of all shared files together, and update `_largest`."""
        # The most bytes of each file that any one process has mapped now.
        mapped: dict[int, int] = {}
        for process in self._by_process.values():
            for inode, (mapped_bytes, end) in process.mappings.items():
                mapped[inode] = max(mapped.get(inode, 0), mapped_bytes)
                self._largest[inode] = max(self._largest.get(inode, 0), mapped_bytes, end)
        self._largest = {inode: self._largest[inode] for inode in mapped}
        total = 0
        for inode, largest in self._largest.items():
            is_unmapped_in_part = mapped[inode] < largest
            total += max(largest, _HIDDEN_BYTES) if is_unmapped_in_part else largest
        return total
