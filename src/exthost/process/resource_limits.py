"""Turns configured limits into resource limits of the kernel, and into limits for all processes of
an extension together (the ceiling).

A resource limit of the kernel (setrlimit) applies to each process alone, or to a user. Therefore a
thread of the host, the watchdog, adds up the memory and counts the processes of an extension at
short intervals. Between two samples an extension could use much more. So each process also gets
resource limits. Those of memory and processes are wider than the configured limits. For memory this
is the limit on the data segment (RLIMIT_DATA), since Node.js does not run with a limited address
space. If a cgroup can be created, the kernel limits all processes together (`cgroups`).
"""

import math
from collections.abc import Callable, Iterable

from exthost.model.launch_plan import NO_CEILING, Ceiling, ResourceLimit
from exthost.model.spec import Limits, Permissions

# RLIMIT_ numbers of the kernel. They are the same on every architecture that our init (`init.c`,
# the first process of a namespace) supports.
CPU, FILE_SIZE, DATA, CORE, PROCESSES, FILES = 0, 1, 2, 4, 6, 7

# The options of prlimit(1).
_OPTIONS = {
    CPU: "cpu",
    FILE_SIZE: "fsize",
    DATA: "data",
    CORE: "core",
    PROCESSES: "nproc",
    FILES: "nofile",
}

# A process with this limit leaves no core file. With a limit of 0, the kernel would still pass its
# memory to a program that collects core files (such as apport), which decides what is kept.
NO_CORE_FILE = ResourceLimit(CORE, 1, 1)

# The time between the soft limit (SIGXCPU, which a program may handle) and the hard limit
# (SIGKILL).
_CPU_GRACE_SECONDS = 1

# How much wider the resource limits are than the configured limits. If both were equal, an
# allocation or a fork would fail before the watchdog could end the extension with an error that
# names the limit. Also, the kernel counts threads as processes, and counts our init.
_MEMORY_FACTOR = 4
_PROCESSES_FACTOR, _SPARE_PROCESSES = 2, 16

# Default limits of a sandboxed extension. 1024 file descriptors are the usual soft limit on Linux;
# most runtimes need some dozens. 512 processes are more than any known extension starts.
_MAX_FILES, _MIN_FILES = 1024, 64
_MAX_PROCESSES = 512

# The memory that an open file may use for buffers: 64 KiB for a pipe, up to twice 208 KiB for a
# network socket.
_FILE_BYTES = 512 * 1024

# The last message in the send buffer of a socket may exceed the buffer's size by this much.
_MAX_MESSAGE_BYTES = 64 * 1024

# With fewer sockets, common runtimes do not start, even if the buffers of so many may exceed a
# small `max_memory`.
_MIN_SOCKETS = 64


def resource_limits(limits: Limits, policy: Permissions | None) -> tuple[ResourceLimit, ...]:
    """Return the resource limits for each process. `policy` is the `permissions` table, or None;
    only that table limits memory."""
    rlimits = []
    if limits.cpu is not None:
        seconds = max(1, math.ceil(limits.cpu))
        rlimits.append(ResourceLimit(CPU, seconds, seconds + _CPU_GRACE_SECONDS))
    memory = policy.max_memory if policy is not None else None
    for resource, limit in (
        (FILE_SIZE, limits.fsize),
        (DATA, memory * _MEMORY_FACTOR if memory is not None else None),
        (PROCESSES, None if limits.nproc is None else max_threads(limits.nproc)),
        (FILES, limits.nofile),
    ):
        if limit is not None:
            rlimits.append(ResourceLimit(resource, limit, limit))
    return tuple(rlimits)


def lower_to(
    rlimits: Iterable[ResourceLimit], hard_limit: Callable[[int], int]
) -> tuple[ResourceLimit, ...]:
    """Return the resource limits, each lowered to the host's own hard limit, because only a
    privileged process may raise a hard limit. `hard_limit` returns the hard limit of a resource; a
    negative number means that there is no limit."""
    lowered = []
    for limit in rlimits:
        host_limit = hard_limit(limit.resource)
        if 0 <= host_limit < limit.hard:
            limit = ResourceLimit(limit.resource, min(limit.soft, host_limit), host_limit)
        lowered.append(limit)
    return tuple(lowered)


def with_defaults(limits: Limits, max_memory: int | None) -> Limits:
    """Return the limits of a sandboxed extension: `limits`, with defaults for the numbers of file
    descriptors and processes if they are not set. A small `max_memory` (bytes) lowers the default
    number of file descriptors, since the watchdog cannot see the buffers of pipes and sockets: the
    kernel accounts them to no process."""
    by_memory = _MAX_FILES if max_memory is None else max_memory // _FILE_BYTES
    files = max(_MIN_FILES, min(_MAX_FILES, by_memory))
    return limits.over(Limits(nofile=files, nproc=_MAX_PROCESSES))


def max_sockets(max_memory: int, buffer_bytes: int) -> int:
    """Return how many sockets an extension without network may have, so that their send buffers
    hold at most `max_memory` bytes. `buffer_bytes` is the default size of a send buffer; without
    network a program cannot change it (`seccomp`)."""
    return max(_MIN_SOCKETS, max_memory // (buffer_bytes + _MAX_MESSAGE_BYTES))


def max_threads(processes: int) -> int:
    """Return the limit to set in the kernel, which counts threads, for a configured number of
    processes."""
    return processes * _PROCESSES_FACTOR + _SPARE_PROCESSES


def ceiling(limits: Limits, policy: Permissions | None) -> Ceiling:
    """Return the limits for all processes of an extension together."""
    max_memory = policy.max_memory if policy is not None else None
    # Rounded as in `resource_limits`, so that both limits are the same number of seconds.
    cpu = None if limits.cpu is None else max(1, math.ceil(limits.cpu))
    if max_memory is None and limits.nproc is None and cpu is None:
        return NO_CEILING
    return Ceiling(max_memory, limits.nproc, cpu)


def prlimit_command(prlimit: str, limits: Iterable[ResourceLimit]) -> tuple[str, ...]:
    """Return the prlimit(1) command that sets these limits and then runs a program, for a program
    that our init does not start. It is empty if there are no limits."""
    options = [f"--{_OPTIONS[limit.resource]}={limit.soft}:{limit.hard}" for limit in limits]
    return (prlimit, *options, "--") if options else ()
