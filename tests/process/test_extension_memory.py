"""How much memory all processes of an extension use together, for its limit `max_memory`.

The kernel reports shared memory only with the pages that are mapped at the moment ("resident"), so
a program could hide it by unmapping a part. Such memory is a file without a name; it is counted
with its size, and once for all processes that map it. Most tests set the numbers that the kernel
would report.
"""

import mmap
import os
from collections.abc import Mapping

import pytest

from exthost.process import extension_memory, procfs
from exthost.process.extension_memory import ExtensionMemory
from exthost.process.procfs import MemoryUse, SharedMapping

MIB = 2**20

# The inode number of the file in memory that processes share. Any number will do.
INODE = 7

# A clock is the processor time of a process in nanoseconds. The mappings of a process are read
# again when its clock has advanced enough; this is far more than enough for fake mappings.
LONG = 1_000_000_000


class FakeProcesses:
    """Processes with the memory and the shared mappings that a test sets, by pid."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.uses: dict[int, MemoryUse] = {}
        self.mappings: dict[int, Mapping[int, SharedMapping]] = {}
        self.reads = 0
        monkeypatch.setattr(extension_memory, "memory_use", lambda pid: self.uses[pid])
        monkeypatch.setattr(extension_memory, "shared_mappings", self.shared_mappings)

    def shared_mappings(self, pid: int) -> Mapping[int, SharedMapping]:
        self.reads += 1
        return self.mappings[pid]


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> FakeProcesses:
    return FakeProcesses(monkeypatch)


def shared_file(*, mapped: int, end: int) -> Mapping[int, SharedMapping]:
    """Return the mappings of a process that has one shared file: how many bytes of the file are
    mapped, and at which byte of the file the last mapping ends."""
    return {INODE: SharedMapping(mapped, end)}


def measure(memory: ExtensionMemory, clocks: Mapping[int, int]) -> int:
    """Measure the processes with these clocks, by pid, of an extension without a namespace."""
    return memory.measure(clocks, init=None)


def test_a_shared_file_counts_once_with_its_size(processes: FakeProcesses) -> None:
    processes.uses = {
        1: MemoryUse(total=10 * MIB, shared=2 * MIB),
        2: MemoryUse(total=5 * MIB, shared=1 * MIB),
    }
    both = shared_file(mapped=64 * MIB, end=64 * MIB)
    processes.mappings = {1: both, 2: both}
    # 3 MiB of the file are resident and already counted with the processes.
    assert measure(ExtensionMemory(()), {1: 0, 2: 0}) == (15 + 64 - 3) * MIB


def test_a_file_of_which_a_part_was_unmapped_counts_more(processes: FakeProcesses) -> None:
    """The pages of an unmapped part stay allocated, and the host cannot see how large that part has
    grown since the last sample. So the file counts with 128 MiB at least (`_HIDDEN_BYTES`): about
    what a program can write between two samples."""
    memory = ExtensionMemory(())
    processes.uses = {1: MemoryUse()}
    processes.mappings = {1: shared_file(mapped=64 * MIB, end=64 * MIB)}
    assert measure(memory, {1: 0}) == 64 * MIB
    processes.mappings = {1: shared_file(mapped=4096, end=4096)}
    assert measure(memory, {1: LONG}) == extension_memory._HIDDEN_BYTES == 128 * MIB
    processes.mappings = {1: {}}
    assert measure(memory, {1: 2 * LONG}) == 0, "the file is freed with its last mapping"


def test_mappings_are_read_again_only_after_processor_time(processes: FakeProcesses) -> None:
    memory = ExtensionMemory(())
    processes.uses = {1: MemoryUse(MIB)}
    processes.mappings = {1: {}}
    for _ in range(5):
        measure(memory, {1: 1000})
    assert processes.reads == 1
    measure(memory, {1: 1000 + LONG})
    assert processes.reads == 2
    measure(memory, {1: 500})
    assert processes.reads == 3, "a smaller processor time means another process with the same pid"


def test_the_shared_mappings_of_a_process_are_found() -> None:
    before = procfs.shared_mappings(os.getpid())
    with mmap.mmap(-1, 3 * MIB), mmap.mmap(-1, MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        after = procfs.shared_mappings(os.getpid())
    added = {inode: after[inode] for inode in after.keys() - before.keys()}
    assert [*added.values()] == [(3 * MIB, 3 * MIB)]


def test_a_process_that_has_ended_uses_no_memory_and_time() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert procfs.process_clock(pid) == procfs.ENDED
    assert procfs.memory_use(pid) == MemoryUse() and procfs.shared_mappings(pid) == {}
    assert procfs.reaped_seconds(pid) == 0 and procfs.mounted_bytes(pid, ("/tmp",)) == 0
    assert procfs.children_of(pid) == [] and procfs.count_sockets(pid) == 0


def test_too_many_mappings_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "_MAX_MAPPINGS_BYTES", 1000)
    with pytest.raises(OverflowError):
        procfs.shared_mappings(os.getpid())
