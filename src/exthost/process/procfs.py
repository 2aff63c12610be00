"""Reads process trees, memory and processor time from /proc.

A process may end at any moment. For one that has ended, the functions return 0 or an empty list.
"""

import os
import signal
from functools import cache

__all__ = [
    "children_of",
    "count_sockets",
    "cpu_seconds",
    "descendants",
    "kill_children",
    "max_pid",
    "mounted_bytes",
    "resident_bytes",
    "send_buffer_bytes",
]

# The most processes that `descendants` visits, since a fork bomb grows while it is counted.
# Configured limits are lower than this.
_MAX_COUNTED = 10_000

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

# The default of the kernel, for a system on which it cannot be read.
_SEND_BUFFER_BYTES = 208 * 1024

# The kernel needs one page of page tables for 512 pages. Page tables of up to this many bytes are
# not counted: their size is in a file that takes ten times as long to read.
_PAGES_PER_TABLE = 512
_SMALL_TABLES_BYTES = 1 << 20

# What the kernel needs for a file of tmpfs besides its content.
_INODE_BYTES = 1024


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


def descendants(*pids: int) -> list[int]:
    """Return these processes and all their descendants."""
    pending, visited = [*pids], list[int]()
    while pending and len(visited) < _MAX_COUNTED:
        visited.append(pending.pop())
        pending += children_of(visited[-1])
    return visited


def kill_children(pid: int) -> None:
    """Send SIGKILL to the children of a process that is a child of ours and not reaped."""
    for child in children_of(pid):
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


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process, with its page tables; 0 if it has ended. If its
    first thread has ended and others run, the kernel reports 0 for the process, and the memory for
    its threads."""
    resident = _resident_bytes(f"/proc/{pid}")
    if resident:
        return resident
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - many times a second
    except OSError:
        return 0
    return max(
        (_resident_bytes(f"/proc/{pid}/task/{thread_id}") for thread_id in threads), default=0
    )


def _resident_bytes(folder: str) -> int:
    try:
        with open(f"{folder}/statm", "rb") as file:  # noqa: PTH123 - many times a second
            mapped, resident = map(int, file.read().split()[:2])
    except (OSError, ValueError):
        return 0
    if mapped // _PAGES_PER_TABLE * _PAGE_BYTES > _SMALL_TABLES_BYTES:
        return resident * _PAGE_BYTES + _table_bytes(folder)
    return resident * _PAGE_BYTES


def _table_bytes(folder: str) -> int:
    """Return the memory of a process's page tables in bytes. It can be large for memory that was
    only read, which is not resident."""
    try:
        with open(f"{folder}/status", "rb") as file:  # noqa: PTH123 - many times a second
            size = file.read().partition(b"\nVmPTE:")[2].split(maxsplit=1)[0]
    except (OSError, IndexError):
        return 0
    return int(size) * 1024


def mounted_bytes(pid: int, mounts: tuple[str, ...]) -> int:
    """Return the memory of these tmpfs mounts, as a process sees them; 0 if it has ended."""
    total = 0
    for mount in mounts:
        try:
            usage = os.statvfs(f"/proc/{pid}/root{mount}")
        except OSError:
            continue
        total += (usage.f_blocks - usage.f_bfree) * usage.f_frsize
        total += (usage.f_files - usage.f_ffree) * _INODE_BYTES
    return total


def count_sockets(pid: int) -> int:
    """Return the number of sockets in the network namespace of a process; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/net/sockstat", "rb") as file:  # noqa: PTH123 - many times a second
            return int(file.readline().split()[2])  # sockets: used 3
    except (OSError, IndexError, ValueError):
        return 0


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


def cpu_seconds(pid: int, *, only_reaped: bool = False) -> float:
    """Return the processor time of a process and of the children that it has reaped; with
    `only_reaped`, only of those. 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - many times a second
            # The second field is a name in brackets, which may contain spaces and brackets.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    ticks = fields[13:15] if only_reaped else fields[11:15]
    return sum(map(int, ticks)) / _TICKS_PER_SECOND
