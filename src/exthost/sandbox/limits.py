"""From configured limits to the kernel's resource limits and the ceiling over all processes. Pure.

A resource limit of the kernel applies to each process alone. So the watchdog sums memory and the
number of processes. Until it looks, wider resource limits slow an extension down; for memory that
is the data segment, since a limit of the address space would break node. Where a cgroup can be
made, it limits all processes together (`cgroup`).
"""

from collections.abc import Iterable

from exthost.model import Ceiling, Limits, Permissions, ResourceLimit

__all__ = ["CPU", "FILE_SIZE", "ceiling", "prlimit_words", "resource_limits", "tasks"]

# The kernel's numbers of resources, the same on every machine that our init runs on.
CPU, FILE_SIZE, DATA, PROCESSES, FILES = 0, 1, 2, 6, 7

_OPTIONS = {CPU: "cpu", FILE_SIZE: "fsize", DATA: "data", PROCESSES: "nproc", FILES: "nofile"}

# Between SIGXCPU, which a program may handle, and SIGKILL.
_CPU_GRACE_SECONDS = 1

# How much wider the kernel's limits are. With narrower ones an allocation or a fork would fail
# before the watchdog could name the limit. Threads count as processes, and our init is one.
_MEMORY_FACTOR = 4
_PROCESSES_FACTOR, _SPARE_PROCESSES = 2, 16


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
        (PROCESSES, None if limits.nproc is None else tasks(limits.nproc)),
        (FILES, limits.nofile),
    ):
        if most is not None:
            found.append(ResourceLimit(resource, most, most))
    return tuple(found)


def tasks(processes: int) -> int:
    """Return how many threads the kernel allows for a limit of this many processes."""
    return processes * _PROCESSES_FACTOR + _SPARE_PROCESSES


def ceiling(limits: Limits, policy: Permissions | None) -> Ceiling:
    """Return the limits over all processes together."""
    return Ceiling(policy.max_memory if policy is not None else None, limits.nproc)


def prlimit_words(prlimit: str, limits: Iterable[ResourceLimit]) -> tuple[str, ...]:
    """Return the limits as a command of util-linux, for a program without a wrapper."""
    options = [f"--{_OPTIONS[one.resource]}={one.soft}:{one.hard}" for one in limits]
    return (prlimit, *options, "--") if options else ()
