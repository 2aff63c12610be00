"""Which limits of the kernel's, and which ceiling over all processes, a configuration means. Pure.

A limit of the kernel's is on each process alone, so memory and the number of processes are summed
up by a watchdog, and the kernel's own limit is only the brake until the watchdog has looked: it is
wider, and of a kind that runtimes survive (the data segment; the address space would break node).
Where a cgroup can be had, that holds all of them together (`cgroup`).
"""

from collections.abc import Iterable

from exthost.model import Ceiling, Limits, Permissions, ResourceLimit

__all__ = ["CPU", "FILE_SIZE", "ceiling", "prlimit_words", "resource_limits", "tasks"]

# Numbers of the kernel's, the same wherever our init runs.
CPU, FILE_SIZE, DATA, PROCESSES, FILES = 0, 1, 2, 6, 7

_OPTIONS = {CPU: "cpu", FILE_SIZE: "fsize", DATA: "data", PROCESSES: "nproc", FILES: "nofile"}

# Between the signal that a program may handle and the one that it may not.
_CPU_GRACE_SECONDS = 1

# The brake. Narrower, and a hog would meet it first and live on without a word of ours; threads
# count as processes, and our init is one.
_MEMORY_BRAKE = 4
_PROCESSES_BRAKE, _SPARE_PROCESSES = 2, 16


def resource_limits(limits: Limits, policy: Permissions | None) -> tuple[ResourceLimit, ...]:
    """What the kernel is told to hold each process to."""
    found = []
    if limits.cpu is not None:
        seconds = max(1, round(limits.cpu))
        found.append(ResourceLimit(CPU, seconds, seconds + _CPU_GRACE_SECONDS))
    memory = policy.max_memory if policy is not None else None
    for resource, most in (
        (FILE_SIZE, limits.fsize),
        (DATA, memory * _MEMORY_BRAKE if memory is not None else None),
        (PROCESSES, None if limits.nproc is None else tasks(limits.nproc)),
        (FILES, limits.nofile),
    ):
        if most is not None:
            found.append(ResourceLimit(resource, most, most))
    return tuple(found)


def tasks(processes: int) -> int:
    """How many threads so many processes may have together, before the kernel allows no more."""
    return processes * _PROCESSES_BRAKE + _SPARE_PROCESSES


def ceiling(limits: Limits, policy: Permissions | None) -> Ceiling:
    """What is summed up over all its processes."""
    return Ceiling(policy.max_memory if policy is not None else None, limits.nproc)


def prlimit_words(prlimit: str, limits: Iterable[ResourceLimit]) -> tuple[str, ...]:
    """The same limits in the words of util-linux, for a program that nothing is wrapped around."""
    options = [f"--{_OPTIONS[one.resource]}={one.soft}:{one.hard}" for one in limits]
    return (prlimit, *options, "--") if options else ()
