"""The `Spec` of an extension: how it is configured, with its groups of settings.

All values are frozen. `None` in a setting means that it is not set; the dialect's own default then
applies (`_Settings.over`). No default in this module is meant for one dialect only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, NamedTuple, Self

from exthost.empty_mapping import empty_mapping
from exthost.offer import Tool

# The dialect of an extension for which no dialect is set.
DEFAULT_DIALECT = "morphir"

# The number of retries without a limit. None would mean that the setting is not set.
UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """A group of settings. None means that a setting is not set."""

    @cache  # noqa: B019 - values, few and small: hundreds of extensions share theirs
    def over(self, defaults: Self) -> Self:
        """Return these settings, with the value of `defaults` for each that is not set."""
        set_here = {f.name: v for f in fields(self) if (v := getattr(self, f.name)) is not None}
        return replace(defaults, **set_here)


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
    """How many processes one extension may have at a time, and where.

    `engine` is what places them on other nodes; None is this machine. There are at most `per_node`
    on a node, and each needs `resources` of it, and its `labels`. `spread`: on the node with the
    fewest first. `files` is "sent" if the extension's folder is sent to the nodes.
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
    interpreter: str = ""
    package: str = ""
    manifest: str = ""
    tools: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requires:
    """What an extension needs before it may be started: programs on PATH, environment variables,
    and in `host` the lowest version of the host."""

    bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    host: str = ""


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
    is_dialect_assumed  its entry names no dialect, so the default one was taken
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
    manifest_path  a manifest that `discovery.configfile.read_named_manifest` has yet to read
    manifest_file  the manifest that was read
    wire_id        the extension's id on the wire, if it is not `id`
    unique_names   names that it must not share with an extension before it
    settings       the values that it wants in its config
    stored         the stored values of those settings
    package        how its own manifest says it is run; None if an operator wrote that
    config_file    the config of the host that it belongs to; "" if there is none
    """

    id: str
    argv: tuple[str, ...]
    dialect: str = DEFAULT_DIALECT
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
    unique_names: tuple[UniqueName, ...] = ()
    settings: tuple[DeclaredSetting, ...] = ()
    stored: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    package: Package | None = None
    config_file: str = field(default="", compare=False)
