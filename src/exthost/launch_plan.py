"""The `LaunchPlan` of an extension: the command to execute, and its sandbox wrapper and limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exthost.empty_mapping import empty_mapping


class ResourceLimit(NamedTuple):
    """A resource limit of the kernel for each process. `resource` is its number, the same on every
    supported machine."""

    resource: int
    soft: int
    hard: int


class Ceiling(NamedTuple):
    """Limits over all processes of an extension together: bytes of memory, their number, seconds
    of processor time, and the number of sockets. None is no limit."""

    memory: int | None = None
    processes: int | None = None
    cpu: float | None = None
    sockets: int | None = None


class ExpectedPath(NamedTuple):
    """A path, and the device and inode numbers that the file or folder there must have."""

    path: str
    device: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """What is executed around a program to contain it.

    options  a program and its arguments, which make a namespace and start `init`; without them
             `init` makes the namespace itself
    init     the code of the first process in the namespace: it applies `limits` and starts the
             program
    filter   the seccomp filter, b"" for none
    private_mounts  file systems in memory that only the program sees
    paths    the files that are visible in the sandbox: `init` executes the program only if each
             path still leads to the expected file
    """

    options: tuple[str, ...]
    init: bytes = field(repr=False)
    limits: tuple[ResourceLimit, ...] = ()
    filter: bytes = field(default=b"", repr=False)
    private_mounts: tuple[str, ...] = ()
    paths: tuple[ExpectedPath, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroup:
    """A cgroup to be created below `base` for all processes of a program.

    settings     its files, and what is written to them
    controllers  what must be enabled for cgroups below `base`
    moves_host   whether the host must move into a leaf first
    init         the program that enters the cgroup, if there is no wrapper
    """

    base: str
    settings: tuple[tuple[str, str], ...]
    controllers: tuple[str, ...] = ()
    moves_host: bool = False
    init: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """Exactly what is executed: a program by its absolute path with its arguments, its working
    folder and its variables; a wrapper around it, or a command `before` it. The watchdog enforces
    `ceiling`, as far as the cgroup `group` does not."""

    argv: tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=empty_mapping)
    wrapper: Wrapper | None = None
    before: tuple[str, ...] = ()
    ceiling: Ceiling = Ceiling()
    group: Cgroup | None = None
