"""The nouns that pass between rooms: what is offered, what is wanted, what is to be run.

Values only: frozen, no I/O, no defaults that belong to one dialect. `None` in a setting means
"not said": the dialect's own default then holds (see `Limits.over`).
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
    """The empty mapping, as a default that a dataclass accepts."""
    return EMPTY_MAPPING


# What an extension speaks if nobody says which dialect.
DEFAULT_DIALECT = "morphir"

# In place of a number of retries; None would mean that nothing was said.
UNLIMITED = -1


class Role(Enum):
    """Which end of the pipe speaks: the same dialect file serves both."""

    HOST = "host"
    GUEST = "guest"


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that can be called by name. `extra` keeps what else the dialect said of it."""

    name: str
    description: str = ""
    input_schema: Any = None
    output_schema: Any = None
    extra: Mapping[str, Any] = field(default_factory=empty_mapping, compare=False)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a handshake, or a manifest in its place, says can be asked of an extension.

    `name` is what it calls itself; `capabilities` are words such as `provider:github` by which it
    can be chosen, where its dialect has them. `details` are values of its dialect, for its facets;
    `extra` is what a person who inspects it is shown.
    """

    tools: tuple[Tool, ...] = ()
    version: str = ""
    name: str = ""
    hooks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=empty_mapping, compare=False)
    capabilities: tuple[str, ...] = ()
    details: tuple[Any, ...] = field(default=(), compare=False)


# Of one that has said nothing yet.
NO_OFFER = Offer()


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of a file that an extension wants written, and how it goes with what is there."""

    path: str
    content: str
    strategy: Literal["replace", "merge", "append"] = "replace"
    order: int = 0
    format: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """A group of settings in which None means "not said"."""

    @cache  # noqa: B019 - values, few and small: hundreds of extensions share theirs
    def over(self, defaults: Self) -> Self:
        """These settings, with `defaults` wherever nothing was said."""
        said = {f.name: v for f in fields(self) if (v := getattr(self, f.name)) is not None}
        return replace(defaults, **said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(_Settings):
    """Seconds, bytes and counts. `cpu` is seconds of processor time."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(_Settings):
    """When a process that ended is started again, and how often.

    `max_retries` 0 means none, UNLIMITED no limit. `window` None counts retries since the last
    reset; a number counts those of the last `window` seconds. `forgiven_by` says what sets the
    count to zero: "uptime" (60 s ready) or "call" (a served call).
    """

    strategy: str | None = None
    initial_delay: float | None = None
    max_delay: float | None = None
    max_retries: int | None = None
    window: float | None = None
    forgiven_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker(_Settings):
    """When an extension that keeps failing is left alone, and for how long."""

    failures: int | None = None
    open: float | None = None
    max_open: float | None = None
    successes: int | None = None
    count_error_replies: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(_Settings):
    """How many sessions one extension may have at a time."""

    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """A written policy: what is not granted here is denied."""

    network: bool = False
    filesystem: tuple[str, ...] = ()
    max_memory: int | None = None
    max_execution_time: float | None = None


class HostEnvRef(str):
    """In place of a variable's value: the name of a variable of the host's that has it. So a
    secret stands in no config, and is read at the start of the process that gets it."""

    __slots__ = ()


class Pins(NamedTuple):
    """SHA-256 digests of what an extension must be; "" is not pinned."""

    program: str = ""
    manifest: str = ""
    tools: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requires:
    """What must be there before an extension may be started. `host` is the least version of the
    host that it can do with."""

    bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    host: str = ""


class Setting(NamedTuple):
    """A value that an extension wants to be told when it starts: from the first of `variables`
    that is set, else from what was stored under its key, else its default. `secret` is the one
    of the variables that the child itself may see, "" if there is none."""

    key: str
    variables: tuple[str, ...] = ()
    kind: Literal["string", "bool", "number"] = "string"
    required: bool = False
    default: Any = None
    secret: str = ""


class Claim(NamedTuple):
    """Something that only one extension of a host may have: `kind` in words, and its name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """What a discovered manifest says of how to run its extension. Nobody but the package's author
    has said it, so it cannot widen what a sandbox shows. `root` is the real path of what belongs to
    the package: its folder, or the program where that is all."""

    root: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One extension as it is wanted: where it comes from, what to run, and under which rules.

    `origin` is the file it was read from ("" for a dict or a bare command). `manifest` is the
    dialect's own reading of a manifest, opaque to everyone else; `manifest_path` names one that
    is still to be read (`discovery.configfile.completed`), `manifest_file` one that was. `own_cwd`
    tells that somebody set the cwd for it. `tools` is what the manifest declares, for listings
    that must not start anything. `wire_id` is how the extension calls itself, where
    that is not its id here. `claims` are checked against those of the extensions before it.
    `declared_hooks` are the hooks that the manifest names, which hold until a handshake tells;
    `advisory_hooks` are those that cannot stop anything, whatever they answer. `hooks` is what
    follows when a hook fails, by its kind ("*" for the others): see `host.hook_policy`.
    `unrunnable` says why one that is well described cannot be run by us at all. `priority` orders
    hooks, the lowest first. `settings` are what it wants in its config, `stored` what of that was
    kept for it here. `package` is what its own manifest said of how it is run, None where an
    operator wrote that.
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
    """What a handshake may tell the extension, or needs in order to judge its answer."""

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
    """Send this, and give the child so many seconds to answer or to exit."""

    message: Request | Notification
    wait: float


class Write(NamedTuple):
    """Write these bytes as they are."""

    data: bytes


class CloseStdin(NamedTuple):
    """Close our end of its stdin, and give it so many seconds to exit."""

    wait: float


class Terminate(NamedTuple):
    """SIGTERM to its process group, and so many seconds."""

    wait: float


ShutdownStep: TypeAlias = Say | Write | CloseStdin | Terminate


class Stream(Protocol):
    """Events of one call, in order; `result` is there when they have ended."""

    result: Any

    def __aiter__(self) -> AsyncIterator[Any]: ...

    async def __anext__(self) -> Any: ...


class Caller(Protocol):
    """The three things a facet may do, and whose they are. An extension is one; so is a scripted
    peer in a test."""

    @property
    def id(self) -> str:
        """The extension's id here."""

    @property
    def manifest(self) -> Any:
        """The dialect's own reading of its manifest; None where there is none."""

    @property
    def offer(self) -> Offer:
        """What its last handshake came to."""

    async def call(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Ask, and wait for the answer."""

    def stream(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """Ask for something that answers in events."""

    async def notify(self, method: str, params: Any = None) -> None:
        """Tell, without an answer."""
