"""The `Spec` of an extension: its configuration.

A spec is made from an entry of a config, from a manifest that was discovered, or from a command
line. The entry

    [[extensions]]
    name = "weather"
    dialect = "mcp"
    source = { type = "process", command = "weather-server", args = ["--metric"] }

becomes `Spec(id="weather", argv=("weather-server", "--metric"), dialect="mcp", …)`. All values are
frozen. The settings that a config may have, with their groups such as `Limits`, are declared in
`documents.setting_keys`; they can be imported from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from exthost.model.documents.readers import HostEnvRef as HostEnvRef
from exthost.model.documents.readers import SecretSource as SecretSource
from exthost.model.documents.readers import SecretValue as SecretValue
from exthost.model.documents.readers import ValueReference as ValueReference
from exthost.model.documents.setting_keys import (
    UNLIMITED as UNLIMITED,
)
from exthost.model.documents.setting_keys import (
    Breaker as Breaker,
)
from exthost.model.documents.setting_keys import (
    Limits as Limits,
)
from exthost.model.documents.setting_keys import (
    Permissions as Permissions,
)
from exthost.model.documents.setting_keys import (
    Pins as Pins,
)
from exthost.model.documents.setting_keys import (
    Pool as Pool,
)
from exthost.model.documents.setting_keys import (
    Restart as Restart,
)
from exthost.model.documents.setting_keys import (
    SharedSettings,
)
from exthost.model.empty_mapping import empty_mapping
from exthost.model.lock_record import SpecLock
from exthost.model.offer import Offer, Tool

# The dialect of an extension for which no dialect is set.
DEFAULT_DIALECT = "morphir"


class KnownOffer(NamedTuple):
    """The last offer of an extension, in an earlier host. With `defers_start`, it is started at
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
    """Why the config does not let an extension start: the code of the error, its texts, and the
    setting that refuses it: "lock" for `exthost.lock`, "new" for `[trust] new`, about extensions
    that nobody has approved yet, "trust" for the other rules about discovered packages."""

    code: str
    message: str
    help: str
    rule: Literal["trust", "lock", "new"] = "trust"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requires:
    """The requirements of an extension before a start: programs on PATH, environment variables,
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

    The author of the package wrote this, not the operator (the person who wrote the config).
    Therefore it must not make further files visible in the sandbox. `root` is the real path of the
    package: a folder, or a single program. `owner` is the id of the package's main extension if
    this is a further one of the same package, such as an MCP server that its manifest declares;
    otherwise "".
    """

    root: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    cwd: str | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(SharedSettings):
    """The configuration of one extension: its origin, its command and its settings.

    argv           the command; if `source` is "wasm", the path of the module and its arguments; if
                   it is "http", the arguments of `exthost bridge`
    source         what is run: a program, a WebAssembly module (see `launch.wasm`), or a bridge to
                   a remote server (see `launch.bridge`)
    origin         the file that it was read from; "" for a dict or a bare command
    is_dialect_assumed  whether its entry names no dialect, so that the default is used
    own_cwd        whether the cwd was set for this extension
    version        the version in its manifest
    declared_tools the tools that its manifest declares, for listing them without a start
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
    audit_file     the path of the host's audit; "" if there is none
    refusal        why the config does not let it start; None if it does
    lock           what the lock of the config says about it; None if it is not locked
    write_grants   for a discovered extension, the folders that the config lets extensions write:
                   its own code must not come from there
    neighbours     the extensions of its config, itself included, if one of them may write files;
                   they have no neighbours themselves
    """

    id: str
    argv: tuple[str, ...]
    dialect: str = DEFAULT_DIALECT
    source: Literal["process", "wasm", "http"] = "process"
    is_dialect_assumed: bool = field(default=False, compare=False)
    enabled: bool = True
    origin: str = ""
    own_cwd: bool = False
    requires: Requires = Requires()
    config: Any = field(default_factory=dict)
    version: str = ""
    declared_tools: tuple[Tool, ...] = ()
    declared_hooks: tuple[str, ...] = ()
    advisory_hooks: tuple[str, ...] = ()
    observer_hooks: tuple[str, ...] = ()
    known_hooks: tuple[str, ...] = field(default=(), compare=False)
    known_offer: KnownOffer | None = field(default=None, compare=False, repr=False)
    has_unknown_hooks: bool = False
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
    audit_file: str = field(default="", compare=False)
    refusal: Refusal | None = None
    lock: SpecLock | None = None
    write_grants: tuple[WriteGrant, ...] = field(default=(), compare=False)
    neighbours: tuple["Spec", ...] = field(default=(), compare=False, repr=False)
