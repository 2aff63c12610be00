"""The values that packages exchange: what an extension offers, how it is configured, what to run.

All values are frozen. No I/O, and no default that belongs to one dialect. `None` in a setting means
that it is not set: the dialect's own default then applies (see `Limits.over`).
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias

from exthost.messages import Notification, Request

EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})


def empty_mapping() -> Mapping[str, Any]:
    """Return the empty mapping: a default that a dataclass accepts."""
    return EMPTY_MAPPING


# The dialect of an extension for which no dialect is set.
DEFAULT_DIALECT = "morphir"

# The number of retries without a limit. None would mean that the setting is not set.
UNLIMITED = -1


class Role(Enum):
    """The side of the pipe that a codec works for. The same dialect serves both."""

    HOST = "host"
    GUEST = "guest"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that can be called by name. `extra` has the other members that its dialect gave it."""

    name: str
    description: str = ""
    input_schema: Any = None
    output_schema: Any = None
    extra: Mapping[str, Any] = field(default_factory=empty_mapping, compare=False)


@dataclass(frozen=True, slots=True)
class Offer:
    """What an extension offers, as its handshake says, or its manifest where there is no handshake.

    `name` is the extension's own name for itself. `capabilities` are labels such as
    `provider:github` by which it can be chosen, in dialects that have them. `details` are values of
    the dialect for its facets. `extra` is shown to a person who inspects the extension.
    """

    tools: tuple[Tool, ...] = ()
    version: str = ""
    name: str = ""
    hooks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=empty_mapping, compare=False)
    capabilities: tuple[str, ...] = ()
    details: tuple[Any, ...] = field(default=(), compare=False)


# The offer of an extension whose handshake has not happened yet.
NO_OFFER = Offer()


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of a file that an extension wants to be written.

    `strategy` says how it is combined with what the file already contains.
    """

    path: str
    content: str
    strategy: Literal["replace", "merge", "append"] = "replace"
    order: int = 0
    format: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """A group of settings. None means that a setting is not set."""

    @cache  # noqa: B019 - values, few and small: hundreds of extensions share theirs
    def over(self, defaults: Self) -> Self:
        """Return these settings, with the value of `defaults` for each that is not set."""
        own = {f.name: v for f in fields(self) if (v := getattr(self, f.name)) is not None}
        return replace(defaults, **own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(_Settings):
    """Seconds, bytes and counts. `cpu` is seconds of processor time. `store` is what the extension
    may keep in the host's store."""

    start: float | None = None
    handshake: float | None = None
    call: float | None = None
    idle: float | None = None
    write: float | None = None
    stop: float | None = None
    max_message: int | None = None
    max_in_flight: int | None = None
    cpu: float | None = None
    nofile: int | None = None
    fsize: int | None = None
    nproc: int | None = None
    store: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(_Settings):
    """When a process that ended is started again, and how often.

    `max_retries` is 0 for no retry and UNLIMITED for no limit. With a `window`, only the retries of
    the last `window` seconds count; without one, all since the last reset. `forgiven_by` says what
    resets the count: "uptime" (60 s ready) or "call" (a served call).
    """

    strategy: str | None = None
    initial_delay: float | None = None
    max_delay: float | None = None
    max_retries: int | None = None
    window: float | None = None
    forgiven_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker(_Settings):
    """After how many failures an extension gets no more calls, and for how long."""

    failures: int | None = None
    open: float | None = None
    max_open: float | None = None
    successes: int | None = None
    count_error_replies: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(_Settings):
    """How many processes one extension may have at a time."""

    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """The permissions of an extension. Whatever is not granted here is denied."""

    network: bool = False
    filesystem: tuple[str, ...] = ()
    max_memory: int | None = None
    max_execution_time: float | None = None


class HostEnvRef(str):
    """The name of a host environment variable, used in place of a variable's value.

    The value is read when the process that gets it is started, so no secret is written in a config.
    """

    __slots__ = ()


class Pins(NamedTuple):
    """The SHA-256 digests that an extension must have. An empty one is not checked."""

    program: str = ""
    manifest: str = ""
    tools: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requires:
    """What an extension needs before it may be started: programs on PATH, environment variables,
    and in `host` the lowest version of the host."""

    bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    host: str = ""


class Setting(NamedTuple):
    """A value that an extension gets when it starts.

    It comes from the first of `variables` that is set, else from the value stored under `key`, else
    it is `default`. `secret` is the variable that the child process itself may read, or "".
    """

    key: str
    variables: tuple[str, ...] = ()
    kind: Literal["string", "bool", "number"] = "string"
    required: bool = False
    default: Any = None
    secret: str = ""


class Claim(NamedTuple):
    """A name that only one extension of a host may have. `kind` says in words what it names."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """How a discovered manifest says that its extension is run.

    Only the package's author wrote this, so it cannot extend what the sandbox shows to it. `root`
    is the real path of what belongs to the package: its folder, or a single program.
    """

    root: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One extension as it is configured: where it comes from, what to run, and under which rules.

    origin         the file that it was read from; "" for a dict or a bare command
    own_cwd        whether the cwd was set for this extension
    version        its version, as its manifest gives it
    tools          the tools that its manifest declares, for lists that must not start anything
    priority       the order of its hooks: the lowest runs first
    declared_hooks the hooks that its manifest declares; used until its handshake names them
    advisory_hooks hooks whose replies cannot stop a call
    hooks          what happens when a hook fails, by its kind; "*" is for all others
                   (see `host.hook_policy`)
    unrunnable     why a valid extension cannot be run here; "" if it can
    manifest       the manifest as the dialect has read it; opaque to all other code
    manifest_path  a manifest that `discovery.configfile.completed` has yet to read
    manifest_file  the manifest that was read
    wire_id        the extension's id on the wire, if it is not `id`
    claims         names that it must not share with an extension before it
    settings       the values that it wants in its config
    stored         the stored values of those settings
    package        how its own manifest says it is run; None if an operator wrote that
    """

    id: str
    argv: tuple[str, ...]
    dialect: str = DEFAULT_DIALECT
    enabled: bool = True
    origin: str = ""
    cwd: str | None = None
    own_cwd: bool = False
    env: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    env_policy: str | None = None
    requires: Requires = Requires()
    config: Any = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=empty_mapping)
    limits: Limits = Limits()
    restart: Restart = Restart()
    breaker: Breaker = Breaker()
    pool: Pool = Pool()
    permissions: Permissions | None = None
    sandbox: str | None = None
    sha256: str | Pins | None = None
    retry: str | None = None
    start: str | None = None
    lifetime: str | None = None
    on_weaker: str | None = None
    version: str = ""
    tools: tuple[Tool, ...] = ()
    declared_hooks: tuple[str, ...] = ()
    advisory_hooks: tuple[str, ...] = ()
    hooks: Mapping[str, str] = field(default_factory=empty_mapping)
    priority: int = 0
    unrunnable: str = ""
    manifest: Any = None
    manifest_path: str | None = None
    manifest_file: str = ""
    wire_id: str = ""
    claims: tuple[Claim, ...] = ()
    settings: tuple[Setting, ...] = ()
    stored: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    package: Package | None = None


class ResourceLimit(NamedTuple):
    """A resource limit of the kernel for each process. `resource` is its number, the same on every
    supported machine."""

    resource: int
    soft: int
    hard: int


class Ceiling(NamedTuple):
    """Limits over all processes of an extension together: bytes of memory, their number, and
    seconds of processor time. None is no limit."""

    memory: int | None = None
    processes: int | None = None
    cpu: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """What is executed around a program to contain it.

    options  a program and its arguments, which make a namespace and start `init`; without them
             `init` makes the namespace itself
    init     the code of the first process in the namespace: it applies `limits` and starts the
             program
    filter   the seccomp filter, b"" for none
    private_mounts  file systems in memory that only the program sees
    """

    options: tuple[str, ...]
    init: bytes = field(repr=False)
    limits: tuple[ResourceLimit, ...] = ()
    filter: bytes = field(default=b"", repr=False)
    private_mounts: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeContext:
    """What a handshake may send to the extension, or needs in order to check its reply."""

    extension: str
    config: Any = None
    options: Mapping[str, Any] = field(default_factory=empty_mapping)
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=empty_mapping)
    host_version: str = ""
    state_folder: str = ""
    manifest: Any = None
    wire_id: str = ""
    handles: frozenset[str] = frozenset()


class Say(NamedTuple):
    """Send this message, and give the child `wait` seconds to reply or to exit."""

    message: Request | Notification
    wait: float


class Write(NamedTuple):
    """Write these bytes as they are."""

    data: bytes


class CloseStdin(NamedTuple):
    """Close the child's stdin, and give it `wait` seconds to exit."""

    wait: float


class Terminate(NamedTuple):
    """Send SIGTERM to the child's process group, and give it `wait` seconds to exit."""

    wait: float


ShutdownStep: TypeAlias = Say | Write | CloseStdin | Terminate


class Stream(Protocol):
    """The events of one call, in order. `result` is set after the last event."""

    result: Any

    def __aiter__(self) -> AsyncIterator[Any]: ...

    async def __anext__(self) -> Any: ...


class Caller(Protocol):
    """What a facet may use of an extension: three operations, its id, manifest and offer.

    An extension implements this; so does a scripted peer in a test.
    """

    @property
    def id(self) -> str:
        """The extension's id in this host."""

    @property
    def manifest(self) -> Any:
        """The manifest as the dialect has read it; None for an extension without a manifest."""

    @property
    def offer(self) -> Offer:
        """What the extension offered in its last handshake."""

    async def call(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Send a request and return the result of its reply."""

    def stream(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """Send a request whose reply is a stream of events."""

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification, which has no reply."""
