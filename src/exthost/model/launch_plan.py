"""The `LaunchPlan` of an extension: the command to execute, and its sandbox wrapper and limits.

The package `launch` makes the plan from the spec (the configuration) of the extension, and the
package `process` executes it. Without a sandbox, it is only a command and its environment:

    LaunchPlan(argv=("/usr/bin/python3", "weather.py"), env={"PATH": "/usr/bin"})
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exthost.model.empty_mapping import empty_mapping
from exthost.model.network_rules import UpstreamProxy


class ResourceLimit(NamedTuple):
    """A limit of the kernel for each process (`setrlimit`). `resource` is the number of the limit,
    which is the same on every supported machine."""

    resource: int
    soft: int
    hard: int


class Ceiling(NamedTuple):
    """Limits for all processes of an extension together. None means no limit.

    memory     bytes of memory
    processes  number of processes
    cpu        seconds of processor time
    sockets    number of sockets
    """

    memory: int | None = None
    processes: int | None = None
    cpu: float | None = None
    sockets: int | None = None


NO_CEILING = Ceiling()
"""No limit. One object for all extensions without limits."""


class ExpectedPath(NamedTuple):
    """A path, and the device and inode numbers that the file or folder there must have: another
    process could have replaced it after it was checked."""

    path: str
    device: int
    inode: int


class InaccessibleFolder(NamedTuple):
    """A folder that the user of an extension cannot enter, and the paths in it that its sandbox
    shows, all of them read-only."""

    path: str
    visible_paths: tuple[str, ...]


class InjectedHeader(NamedTuple):
    """A header that the proxy adds to plain HTTP requests to this host and port."""

    host: str
    port: int
    name: str
    value: str

    def __repr__(self) -> str:
        return f"InjectedHeader({self.name} for {self.host}:{self.port})"  # its value is a secret


class ProxyPolicy(NamedTuple):
    """What the proxy of a sandboxed process connects to.

    entries      the list `permissions.network` (see `network_rules`)
    https_proxy  the proxy through which it connects; None to connect directly
    http_proxy   the same for plain HTTP
    no_proxy     the hosts that it connects to directly, as NO_PROXY lists them
    headers      the headers that it adds to plain HTTP requests
    """

    entries: tuple[str, ...]
    https_proxy: UpstreamProxy | None = None
    http_proxy: UpstreamProxy | None = None
    no_proxy: str = ""
    headers: tuple[InjectedHeader, ...] = ()

    def __repr__(self) -> str:
        return f"ProxyPolicy({', '.join(self.entries)})"  # a proxy may have a password


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """The sandbox wrapper that starts a program in a namespace.

    options         the command that creates the namespace and starts `init` in it; () if `init`
                    creates the namespace itself
    init            the code of the first process in the namespace, which applies `limits` and
                    starts the program
    filter          the seccomp filter, b"" for none
    private_mounts  paths of in-memory file systems that only the program sees
    paths           the files that are visible in the sandbox; `init` executes the program only if
                    each path still leads to the expected file
    protected       the paths in writable folders that the program cannot write
    inaccessible_folders  the folders that the user which `options` change to cannot enter, and
                    from which the sandbox shows paths
    uid             the user that `options` change to; None for the user of the host
    """

    options: tuple[str, ...]
    init: bytes = field(repr=False)
    limits: tuple[ResourceLimit, ...] = ()
    filter: bytes = field(default=b"", repr=False)
    private_mounts: tuple[str, ...] = ()
    paths: tuple[ExpectedPath, ...] = ()
    protected: tuple[str, ...] = ()
    inaccessible_folders: tuple[InaccessibleFolder, ...] = ()
    uid: int | None = None

    @property
    def is_strict(self) -> bool:
        """Whether this is the strict sandbox, not a PID namespace alone."""
        return bool(self.filter)  # only the strict sandbox has one


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroup:
    """A cgroup to be created below `base` for all processes of a program.

    settings     (file name, value) pairs to be written in the cgroup
    controllers  the controllers that must be enabled for cgroups below `base`
    moves_host   whether the host must first move from `base` to a leaf cgroup, because the kernel
                 enables no controllers below a cgroup that has processes
    init         the code that enters the cgroup and starts the program, if there is no wrapper
    """

    base: str
    settings: tuple[tuple[str, str], ...]
    controllers: tuple[str, ...] = ()
    moves_host: bool = False
    init: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """Exactly what is executed for an extension.

    argv     the absolute path of the program, and its arguments
    cwd      the working folder; None for that of the host
    env      the environment variables
    wrapper  the sandbox wrapper, None without a sandbox
    before   a command that is put before `argv`
    ceiling  limits that the watchdog enforces, as far as `group` does not
    group    the cgroup to be created, None for none
    network  the hosts that the process reaches through a proxy; None for no proxy
    """

    argv: tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=empty_mapping)
    wrapper: Wrapper | None = None
    before: tuple[str, ...] = ()
    ceiling: Ceiling = NO_CEILING
    group: Cgroup | None = None
    network: ProxyPolicy | None = None
