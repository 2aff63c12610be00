"""Process trees and memory, as /proc has them.

A process that has ended counts as nothing: it may do so at any moment.
"""

import os
import signal

__all__ = ["children_of", "descendants", "kill_children", "resident_bytes"]

# A fork bomb grows while it is counted. No configured limit is higher.
_MAX_COUNTED = 10_000

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def children_of(pid: int) -> list[int]:
    """Return the children of a process, those of all its threads."""
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
            pass
        finally:
            os.close(fd)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - twenty times a second
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0
