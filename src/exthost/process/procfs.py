"""Reads process trees, memory and processor time from /proc and from the clocks of processes.

A process may end at any moment. For one that has ended, the functions return 0, an empty value or
ENDED. If the kernel does not allow the host to look, those that measure memory raise
PermissionError, because a limit cannot be enforced then.
"""

import os
import signal
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from exthost.process.memory_file import memory_file

# The clock of a process that has ended and was reaped.
ENDED = -1

# The most processes that `descendants` visits, since a fork bomb grows while it is counted.
# Configured limits are lower than this.
_MAX_COUNTED = 10_000

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

# The kind of a clock that measures the processor time of all threads of a process. The rest of a
# clock's id is the pid, inverted (clock_getcpuclockid(3)).
_PROCESS_CLOCK = 2

# The default of the kernel, for a system on which it cannot be read.
_SEND_BUFFER_BYTES = 208 * 1024

# The size that the kernel needs for a file of tmpfs in addition to its content.
_INODE_BYTES = 1024

# The largest list of mappings that is read, about 20,000 mappings. A read of this size takes some
# ten milliseconds, and the lists themselves are memory that no limit counts.
_MAX_MAPPINGS_BYTES = 2 * 2**20


class MemoryUse(NamedTuple):
    """The memory of a process in bytes.

    total    memory in use, with swapped memory and page tables
    shared   the part of `total` that is resident memory of shared objects and of tmpfs files
    """

    total: int = 0
    shared: int = 0


class SharedMapping(NamedTuple):
    """What a process has mapped of one shared file.

    mapped_bytes  how many bytes of the file are mapped
    end           where in the file the last mapping ends
    """

    mapped_bytes: int
    end: int


class WrapperProcesses(NamedTuple):
    """The processes of the host around the program of an extension; empty without a namespace.

    inits  our init, the first process of the namespace, which is a program of the host; empty if it
           has ended
    every  all processes from the outermost wrapper to our init
    """

    inits: list[int]
    every: list[int]


def children_of(pid: int) -> list[int]:
    """Return the children of a process. The kernel lists them by the thread that started them."""
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - many times a second
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                children += map(int, file.read().split())
    except OSError:  # the process has ended, or the kernel lacks this file
        pass
    return children


def descendants(*pids: int) -> dict[int, int]:
    """Return these processes and all their descendants, each with its clock. The clock is read
    before the children, so a process that starts another one afterwards has a later clock."""
    pending, clocks = [*pids], dict[int, int]()
    while pending and len(clocks) < _MAX_COUNTED:
        pid = pending.pop()
        clocks[pid] = process_clock(pid)
        pending += children_of(pid)
    return clocks


def process_clock(pid: int) -> int:
    """Return the processor time of a process in nanoseconds, or ENDED. This takes a fraction of the
    time that reading a file of /proc takes. The time of a thread that runs at this moment may be
    some milliseconds old. Time of children is not included."""
    try:
        return time.clock_gettime_ns(~pid << 3 | _PROCESS_CLOCK)
    except OSError:
        pass
    # It has ended, or this kernel has no clocks of other processes.
    fields = _read_stat(f"/proc/{pid}")
    return sum(map(int, fields[11:13])) * 10**9 // _TICKS_PER_SECOND if fields else ENDED


def processor_wait(pid: int) -> float:
    """Return how many seconds the main threads of a process and of its descendants were ready to
    run and had no processor; 0 if that is not known. On a busy machine this is most of the time."""
    nanoseconds = 0
    for each in descendants(pid):
        try:
            nanoseconds += int(Path(f"/proc/{each}/schedstat").read_bytes().split()[1])
        except (OSError, IndexError, ValueError):
            continue
    return nanoseconds / 1e9


def wrapper_processes(pid: int, wrappers: int) -> WrapperProcesses:
    """Return the wrapper processes around our init. `pid` is the outermost of them, and `wrappers`
    is their number; 0 for no namespace."""
    if not wrappers:
        return WrapperProcesses([], [])
    level, every = [pid], [pid]
    for _ in range(wrappers):
        level = [child for process in level for child in children_of(process)]
        every += level
    return WrapperProcesses(inits=level, every=every)


def kill_children(pid: int, levels: int = 1) -> None:
    """Send SIGKILL to the children of a process that is a child of ours and not reaped; with more
    levels, to their children as well."""
    for child in wrapper_processes(pid, levels).every[1:]:
        try:
            fd = os.pidfd_open(child)
        except AttributeError:  # not in this Python; the pid was read an instant ago
            _kill(child)
            continue
        except OSError:
            continue
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        except OSError:
            pass  # it has exited meanwhile
        finally:
            os.close(fd)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass  # it has exited meanwhile


def memory_use(pid: int) -> MemoryUse:
    """Return the memory of a process. If its first thread has ended and others run, the kernel
    reports no memory for the process, and the memory for its threads."""
    for folder in _folders(pid):
        try:
            with open(f"{folder}/status", "rb") as file:  # noqa: PTH123 - many times a second
                status = file.read()
        except OSError:
            continue
        if resident := _number(status, b"\nVmRSS:"):
            more = _number(status, b"\nVmPTE:") + _number(status, b"\nVmSwap:")
            shared = _number(status, b"\nRssShmem:")
            return MemoryUse((resident + more) * 1024, shared * 1024)
    return MemoryUse()


def shared_bytes(pid: int) -> int:
    """Return how much memory of a process is shared with other processes; 0 if that is not
    known."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123
            text = file.read()
    except OSError:
        return 0
    return (_number(text, b"\nShared_Clean:") + _number(text, b"\nShared_Dirty:")) * 1024


def _folders(pid: int) -> Iterator[str]:
    """Yield the folder of a process in /proc, and then those of its threads."""
    yield f"/proc/{pid}"
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - many times a second
    except OSError:
        return
    for thread in threads:
        yield f"/proc/{pid}/task/{thread}"


def _number(status: bytes, name: bytes) -> int:
    """Return the number after a name in a status file; 0 if it is not there."""
    start = status.find(name)
    return int(status[start + len(name) :].split(None, 1)[0]) if start >= 0 else 0


def shared_mappings(pid: int) -> dict[int, SharedMapping]:
    """Return the shared anonymous memory that a process has mapped. Such memory is a file without a
    name, whose inode number is the key. Raises OverflowError if the list is too long."""
    for folder in _folders(pid):
        try:
            with open(f"{folder}/maps", "rb") as file:  # noqa: PTH123 - many times a second
                mappings = file.read(_MAX_MAPPINGS_BYTES)
        except PermissionError:
            raise
        except OSError:
            continue
        if len(mappings) == _MAX_MAPPINGS_BYTES:
            raise OverflowError
        if mappings:
            return _find_shared(mappings)
    return {}


def _find_shared(mappings: bytes) -> dict[int, SharedMapping]:
    """Return the shared anonymous memory in the content of /proc/PID/maps, by inode number."""
    # A line of it:
    # 7f20b91a4000-7f20b92a4000 rw-s 00000000 00:01 1989    /dev/zero (deleted)
    files: dict[int, SharedMapping] = {}
    device = _shared_memory_device()
    found = mappings.find(device)
    while found >= 0:
        start = mappings.rfind(b"\n", 0, found) + 1
        line = mappings[start : mappings.find(b"\n", found)]
        addresses, rights, offset, _, inode, *name = line.split(None, 5)
        if rights.endswith(b"s") and name and name[0].startswith(b"/dev/zero"):
            first, _, last = addresses.partition(b"-")
            size = int(last, 16) - int(first, 16)
            known = files.get(int(inode), SharedMapping(0, 0))
            end = max(known.end, int(offset, 16) + size)
            files[int(inode)] = SharedMapping(known.mapped_bytes + size, end)
        found = mappings.find(device, found + 1)
    return files


@cache
def _shared_memory_device() -> bytes:
    """Return the device of shared anonymous memory, in the form that lists of mappings have."""
    fd = memory_file("exthost-device", b"")
    try:
        device = os.fstat(fd).st_dev
    finally:
        os.close(fd)
    return f" {os.major(device):02x}:{os.minor(device):02x} ".encode()


def mounted_bytes(pid: int, mounts: tuple[str, ...]) -> int:
    """Return the memory of these tmpfs mounts, as a process sees them."""
    total = 0
    for mount in mounts:
        try:
            usage = os.statvfs(f"/proc/{pid}/root{mount}")
        except PermissionError:
            raise
        except OSError:
            continue
        total += (usage.f_blocks - usage.f_bfree) * usage.f_frsize
        total += (usage.f_files - usage.f_ffree) * _INODE_BYTES
    return total


def count_sockets(pid: int) -> int:
    """Return the number of sockets in the network namespace of a process."""
    try:
        with open(f"/proc/{pid}/net/sockstat", "rb") as file:  # noqa: PTH123 - many times a second
            return int(file.readline().split()[2])  # sockets: used 3
    except PermissionError:
        raise
    except (OSError, IndexError, ValueError):
        return 0


def inherited_state() -> tuple[bytes, ...]:
    """Return what the processes that this one starts get from it: the mode of new files, the
    signals that are ignored, and the limits of resources."""
    try:
        with (
            open("/proc/self/status", "rb") as status,  # noqa: PTH123 - before each start
            open("/proc/self/limits", "rb") as limits,  # noqa: PTH123
        ):
            lines = status.read().splitlines()
            state = [line for line in lines if line.startswith((b"Umask:", b"SigIgn:"))]
            return (*state, limits.read())
    except OSError:
        return ()


@cache  # read at every start
def max_pid() -> int:
    """Return the number that all pids are smaller than; 0 if it cannot be read."""
    try:
        with open("/proc/sys/kernel/pid_max", "rb") as file:  # noqa: PTH123
            return int(file.read())
    except (OSError, ValueError):
        return 0


def send_buffer_bytes() -> int:
    """Return the default size of the send buffer of a socket."""
    try:
        with open("/proc/sys/net/core/wmem_default", "rb") as file:  # noqa: PTH123
            return int(file.read())
    except (OSError, ValueError):
        return _SEND_BUFFER_BYTES


def reaped_seconds(pid: int) -> float:
    """Return the processor time of the children of a process that it has waited for."""
    fields = _read_stat(f"/proc/{pid}")
    return sum(map(int, fields[13:15])) / _TICKS_PER_SECOND


def running_threads(pid: int) -> float:
    """Return how many processors the threads of a process use at this moment. A thread that is
    ready to run, and whose processor this thread may have taken, counts with that probability. A
    process that has ended and was reaped counts as 1: it was just seen, so its life ended in that
    instant."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - many times a second
    except OSError:
        return 1.0
    return sum(_running_share(f"/proc/{pid}/task/{thread}") for thread in threads)


def _running_share(folder: str) -> float:
    """Return the probability that a thread uses a processor; see `running_threads`."""
    try:
        with open(f"{folder}/schedstat", "rb") as file:  # noqa: PTH123 - many times a second
            entered = int(file.read().split()[2])
        with open(f"{folder}/status", "rb") as file:  # noqa: PTH123 - many times a second
            status = file.read()
    except (OSError, IndexError):  # it has ended, or the kernel lacks the first file
        return 1.0
    if not entered or b"\nState:\tR" not in status:
        return 0.0
    left = _number(status, b"\nvoluntary_ctxt_switches:")
    left += _number(status, b"\nnonvoluntary_ctxt_switches:")
    # A thread has entered a processor as often as it has left one, unless it runs.
    if entered > left:
        return 1.0
    # If all processors are busy, this thread took the place of one of those that wait.
    waiting = _count_runnable() - (os.cpu_count() or 1)
    return 1 / waiting if waiting > 0 else 0.0


def _count_runnable() -> int:
    """Return the number of threads of this machine that run or are ready to run."""
    try:
        with open("/proc/loadavg", "rb") as file:  # noqa: PTH123 - many times a second
            return int(file.read().split()[3].partition(b"/")[0])
    except (OSError, IndexError, ValueError):
        return 0


def _read_stat(folder: str) -> list[bytes]:
    """Return the fields of a stat file from the third one on; [] if the process has ended."""
    try:
        with open(f"{folder}/stat", "rb") as file:  # noqa: PTH123 - many times a second
            # The second field is a name in brackets, which may contain spaces and brackets.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []
