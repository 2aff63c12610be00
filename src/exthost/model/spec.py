"""The `Spec` of an extension: its configuration, with groups of settings such as `Limits`.

All values are frozen. `None` in a setting means that it is not set; the default of the dialect is
then used (`_Settings.over`). The defaults in this module are the same for every dialect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, NamedTuple, Self

from exthost.model.empty_mapping import empty_mapping
from exthost.model.offer import Offer, Tool

# The dialect of an extension for which no dialect is set.
DEFAULT_DIALECT = "morphir"

# The value of `max_retries` for no limit. None would mean that the setting is not set.
UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """A group of settings. None means that a setting is not set."""

    @cache  # noqa: B019 - few and small values, which many extensions share
    def over(self, defaults: Self) -> Self:
        """Return these settings, with the value of `defaults` for each setting that is not set."""
        set_here = {f.name: v for f in fields(self) if (v := getattr(self, f.name)) is not None}
        return replace(defaults, **set_here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(_Settings):
    """Limits of one extension.

    start, handshake, call, write and stop are timeouts in seconds. idle is the number of seconds
    without a call after which the process is ended. cpu is seconds of processor time. max_message,
    fsize and store (what the extension may keep in the host's store) are bytes. max_in_flight (open
    calls), nofile (open files) and nproc (processes) are counts.
    """

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

    `max_retries` is 0 for no retry and UNLIMITED for no limit. Delays are in seconds. With a
    `window`, only the retries of the last `window` seconds are counted; without one, all since the
    last reset. `forgiven_by` is what resets the count: "uptime" (the extension was ready for 60 s)
    or "call" (it answered a call).
    """

    strategy: str | None = None
    initial_delay: float | None = None
    max_delay: float | None = None
    max_retries: int | None = None
    window: float | None = None
    forgiven_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker(_Settings):
    """The circuit breaker, which stops calls to an extension that keeps failing.

    It opens for `open` seconds after `failures` failures in a row. Then it is half-open: one call
    at a time is sent as a probe. `successes` successful probes close it, and a failure opens it for
    twice as long, at most `max_open` seconds. `count_error_replies` is whether an error reply is a
    failure.
    """

    failures: int | None = None
    open: float | None = None
    max_open: float | None = None
    successes: int | None = None
    count_error_replies: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(_Settings):
    """How many processes one extension may have at a time, and where.

    `engine` places them on other nodes (machines); None starts them on this machine. A node has at
    most `per_node` of them, and must have the free `resources` and the `labels`. With `spread`, the
    node with the fewest processes is chosen first. `files` is "sent" if the folder of the extension
    is sent to the nodes.
    """

    min: int | None = None
    max: int | None = None
    engine: str | None = None
    per_node: int | None = None
    resources: tuple[tuple[str, float], ...] | None = None
    spread: bool | None = None
    labels: tuple[tuple[str, str], ...] | None = None
    files: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """The permissions of an extension. Access that is not granted here is denied.

    `max_memory` is in bytes, `max_execution_time` in seconds; None is no limit.
    """

    network: bool = False
    filesystem: tuple[str, ...] = ()
    max_memory: int | None = None
    max_execution_time: float | None = None


class HostEnvRef(str):
    """The name of a host environment variable, used in place of a variable's value.

    The host reads the value when it starts the process, so that no config contains a secret.
    """

    __slots__ = ()


class KnownOffer(NamedTuple):
    """What an extension offered last, under an earlier host. With `defers_start`, it is started at
    its first use, although the host starts others like it when it opens. `asks_client` is whether
    it has sent requests to its client, such as one to sample a model."""

    offer: Offer
    defers_start: bool = False
    asks_client: bool = False


class WriteGrant(NamedTuple):
    """A folder that the config lets an extension write. `extension` is the id of that extension,
    which may be disabled, refused or missing."""

    extension: str
    folder: str


class Refusal(NamedTuple):
    """Why the config does not let an extension start: the code of the error, and its texts."""

    code: str
    message: str
    help: str


class Pins(NamedTuple):
    """The SHA-256 digests that the files and tools of an extension must have. "" is not checked."""

    program: str = ""
    interpreter: str = ""
    package: str = ""
    manifest: str = ""
    tools: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requires:
    """What an extension needs before it may be started: programs on PATH, environment variables,
    and in `host` the lowest version of the host, or in `host_range` a requirement such as
    `>=0.1.0`. If `is_advisory` is true, a missing program or variable is only a warning."""

    bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    host: str = ""
    host_range: str = ""
    is_advisory: bool = False


class DeclaredSetting(NamedTuple):
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


class UniqueName(NamedTuple):
    """A name that only one extension of a host may have. `kind` is a noun for messages."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """How a manifest that was discovered in a package says that its extension is run.

    The author of the package wrote this, and no operator. Therefore it must not make further files
    visible in the sandbox. `root` is the real path of the package: a folder, or a single program.
    `owner` is the id of the package's main extension if this is a further one of the same package,
    such as an MCP server that its manifest declares; otherwise "".
    """

    root: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    cwd: str | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The configuration of one extension: its origin, its command and its settings.

    argv           the command or, if `source` is "wasm", the path of the module; its arguments
    source         what is run: a program, or a WebAssembly module (see `launch.wasm`)
    origin         the file that it was read from; "" for a dict or a bare command
    is_dialect_assumed  whether its entry names no dialect, so that the default is used
    own_cwd        whether the cwd was set for this extension
    version        the version in its manifest
    tools          the tools that its manifest declares, for listing them without a start
    priority       the order in which the hooks of extensions run: the lowest first
    declared_hooks the hooks that its manifest declares; used until its handshake names them
    advisory_hooks hooks whose replies cannot stop a call
    observer_hooks hooks whose replies change nothing, so that they may also run later
    known_hooks    the hooks that its last handshake announced, under an earlier host; used until
                   the next one
    known_offer    what it offered last, if what would run is the same; listed until its handshake
    has_unknown_hooks  whether it may have any hook that can stop a call, because the manifest that
                   declares its hooks cannot be read
    hooks          what happens when a hook fails, by its kind; "*" is for all others
                   (see `host.hook_policy`)
    unrunnable     the reason why a valid extension cannot be run here; "" if it can
    manifest       the parsed manifest, which only its dialect uses
    manifest_path  the path of a manifest that was not read yet
                   (see `discovery.configfile.read_named_manifest`)
    manifest_file  the path of the manifest that was read
    wire_id        the id of the extension in messages; "" if it is `id`
    unique_names   names that no earlier extension of the host may have
    settings       the values that its manifest declares for its `config`
    stored         the stored values of those settings
    package        how its own manifest says it is run; None if an operator configured it
    config_file    the path of the host's config; "" if there is none
    refusal        why it must not be started, for a discovered extension; None if it may
    share          whether the clients of a gateway share its processes; None if that is not set
    write_grants   for a discovered extension, the folders that the config lets extensions write:
                   its own code must not come from there
    neighbours     the extensions of its config, itself included, if one of them may write files;
                   they have no neighbours themselves
    """

    id: str
    argv: tuple[str, ...]
    dialect: str = DEFAULT_DIALECT
    source: Literal["process", "wasm"] = "process"
    is_dialect_assumed: bool = field(default=False, compare=False)
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
    share: bool | None = None
    version: str = ""
    tools: tuple[Tool, ...] = ()
    declared_hooks: tuple[str, ...] = ()
    advisory_hooks: tuple[str, ...] = ()
    observer_hooks: tuple[str, ...] = ()
    known_hooks: tuple[str, ...] = field(default=(), compare=False)
    known_offer: KnownOffer | None = field(default=None, compare=False, repr=False)
    has_unknown_hooks: bool = False
    hooks: Mapping[str, str] = field(default_factory=empty_mapping)
    priority: int = 0
    unrunnable: str = ""
    manifest: Any = None
    manifest_path: str | None = None
    manifest_file: str = ""
    wire_id: str = ""
    unique_names: tuple[UniqueName, ...] = ()
    settings: tuple[DeclaredSetting, ...] = ()
    stored: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    package: Package | None = None
    config_file: str = field(default="", compare=False)
    refusal: Refusal | None = None
    write_grants: tuple[WriteGrant, ...] = field(default=(), compare=False)
    neighbours: tuple["Spec", ...] = field(default=(), compare=False, repr=False)
