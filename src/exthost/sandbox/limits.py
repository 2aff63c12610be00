"""From configured limits to the kernel's resource limits and the ceiling over all processes. Pure.

A resource limit of the kernel applies to each process alone. So the watchdog sums memory and the
number of processes. Until it looks, wider resource limits slow an extension down; for memory that
is the data segment, since a limit of the address space would break node. Where a cgroup can be
made, it limits all processes together (`cgroup`).
"""

from collections.abc import Iterable

from exthost.launch_plan import Ceiling, ResourceLimit
from exthost.spec import Limits, Permissions

__all__ = [
    "CPU",
    "FILE_SIZE",
    "ceiling",
    "max_sockets",
    "prlimit_command",
    "resource_limits",
    "max_threads",
    "with_defaults",
]

# The kernel's numbers of resources, the same on every machine that our init runs on.
CPU, FILE_SIZE, DATA, PROCESSES, FILES = 0, 1, 2, 6, 7

_OPTIONS = {CPU: "cpu", FILE_SIZE: "fsize", DATA: "data", PROCESSES: "nproc", FILES: "nofile"}

# Between SIGXCPU, which a program may handle, and SIGKILL.
_CPU_GRACE_SECONDS = 1

# How much wider the kernel's limits are. With narrower ones an allocation or a fork would fail
# before the watchdog could name the limit. Threads count as processes, and our init is one.
_MEMORY_FACTOR = 4
_PROCESSES_FACTOR, _SPARE_PROCESSES = 2, 16


# Default limits of a sandboxed extension. So many descriptors are the usual soft limit on Linux;
# most runtimes need some dozens. So many processes are more than any tool starts; a runtime may
# have twice as many threads.
_MAX_FILES, _MIN_FILES = 1024, 64
_MAX_PROCESSES = 512

# A pipe has a buffer of 64 KiB, a socket with network one of up to twice 208 KiB.
_FILE_BYTES = 512 * 1024

# A program without network cannot change the size of send buffers, which may be exceeded by a
# message.
_LARGEST_MESSAGE = 64 * 1024
_MIN_SOCKETS = 64


def resource_limits(limits: Limits, policy: Permissions | None) -> tuple[ResourceLimit, ...]:
    """Return the resource limits of each process."""
    found = []
    if limits.cpu is not None:
        seconds = max(1, round(limits.cpu))
        found.append(ResourceLimit(CPU, seconds, seconds + _CPU_GRACE_SECONDS))
    memory = policy.max_memory if policy is not None else None
    for resource, most in (
        (FILE_SIZE, limits.fsize),
        (DATA, memory * _MEMORY_FACTOR if memory is not None else None),
        (PROCESSES, None if limits.nproc is None else max_threads(limits.nproc)),
        (FILES, limits.nofile),
    ):
        if most is not None:
            found.append(ResourceLimit(resource, most, most))
    return tuple(found)


def with_defaults(limits: Limits, max_memory: int | None) -> Limits:
    """Return the limits of a sandboxed extension: these, and those of descriptors and processes if
    they are not set. With a small `max_memory` there are fewer descriptors, since the buffers of
    pipes and sockets are memory that belongs to no process."""
    by_memory = _MAX_FILES if max_memory is None else max_memory // _FILE_BYTES
    files = max(_MIN_FILES, min(_MAX_FILES, by_memory))
    return limits.over(Limits(nofile=files, nproc=_MAX_PROCESSES))


def max_sockets(max_memory: int, buffer_bytes: int) -> int:
    """Return how many sockets without network may exist, so that their buffers hold no more than
    `max_memory`. `buffer_bytes` is the size that the system gives to a buffer."""
    return max(_MIN_SOCKETS, max_memory // (buffer_bytes + _LARGEST_MESSAGE))


def max_threads(processes: int) -> int:
    """Return how many threads the kernel allows for a limit of this many processes."""
    return processes * _PROCESSES_FACTOR + _SPARE_PROCESSES


def ceiling(limits: Limits, policy: Permissions | None) -> Ceiling:
    """Return the limits over all processes together."""
    max_memory = policy.max_memory if policy is not None else None
    cpu = None if limits.cpu is None else max(1, round(limits.cpu))
    return Ceiling(max_memory, limits.nproc, cpu)


def prlimit_command(prlimit: str, limits: Iterable[ResourceLimit]) -> tuple[str, ...]:
    """Return the limits as a command of util-linux, for a program without a wrapper."""
    options = [f"--{_OPTIONS[limit.resource]}={limit.soft}:{limit.hard}" for limit in limits]
    return (prlimit, *options, "--") if options else ()
