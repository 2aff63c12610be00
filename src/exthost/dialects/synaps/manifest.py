"""Parses and checks synaps' manifest, `<plugin>/.synaps-plugin/plugin.json`.

The extension is described by the key `extension`; a plugin.json without this key is a plugin of
another type and is ignored. Outside it only `version` and `description` are read. Unknown keys are
ignored as well, because other versions of the format have more. The id of the extension is the name
of the plugin's folder. This module also has the tables of hooks and permissions.

    {"version": "1.0", "extension": {"runtime": "process", "command": "./guard",
     "permissions": ["tools.intercept"], "hooks": [{"hook": "before_tool_call"}]}}

The format has grown: the keys that plugins of November 2026 use beyond its first description are
accepted, too. This host does not offer context providers and session drivers; a warning says so.
The manifest may list tools and providers in `deferred`, for hosts that start the plugin only at its
first use. This host starts it like any other plugin, and compares the list with the handshake
(`offer`).
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from exthost.dialects.manifest_format import (
    Accepted,
    ManifestFile,
    ManifestFormat,
    Remark,
    Verdict,
)
from exthost.dialects.manifest_table import ManifestTable
from exthost.errors import Evidence, ManifestError
from exthost.model.empty_mapping import EMPTY_MAPPING, empty_mapping
from exthost.model.names import nearest
from exthost.model.spec import DeclaredSetting, Spec
from exthost.wire import jsontext

# Version 2 is that of a fork. It adds the hook `on_usage` and changes nothing else.
PROTOCOL_VERSIONS: Final = (1, 2)
PROTOCOL_VERSION: Final = 1

PERMISSIONS: Final = (
    "tools.intercept",
    "tools.register",
    "tools.override",
    "privacy.llm_content",
    "session.lifecycle",
    "providers.register",
    "memory.read",
    "memory.write",
    "config.write",
    "config.subscribe",
    "audio.input",
    "audio.output",
    "tools.transform_output",
    "context_providers.register",
    "session.drive",
)

# A known permission that is never granted.
_RESERVED: Final = ("tools.override",)

# Permissions that let a plugin act without a hook. A plugin needs one of them, or a hook.
_ACTIVE: Final = (
    "tools.register",
    "providers.register",
    "memory.read",
    "memory.write",
    "config.write",
    "config.subscribe",
    "audio.input",
    "audio.output",
    "context_providers.register",
    "session.drive",
)

# Permissions for something that this host does not offer, and what that is.
_NOT_OFFERED: Final = {
    "context_providers.register": "context providers",
    "session.drive": "session drivers",
}

# The limits of `deferred`: entries of each list, and the bytes of a schema.
_MAX_DEFERRED: Final = {"tools": 256, "providers": 16, "context_providers": 8}
_MAX_SCHEMA_BYTES: Final = 64 * 1024

_THEME_TOKEN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_COLOUR: Final = re.compile(r"#(?:[0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})")


class HookKind(NamedTuple):
    """One hook.

    permission  the permission that an extension needs for this hook
    actions     the actions that the reply of the hook may have
    of_tools    whether the hook is called for tool calls, so that a subscription may name a tool
    since       the lowest protocol version that has the hook
    """

    permission: str
    actions: tuple[str, ...] = ("continue",)
    of_tools: bool = False
    since: int = 1


HOOKS: Final[Mapping[str, HookKind]] = {
    "before_tool_call": HookKind(
        "tools.intercept", ("continue", "block", "confirm", "modify"), of_tools=True
    ),
    "after_tool_call": HookKind("tools.intercept", ("continue", "replace"), of_tools=True),
    "before_message": HookKind("privacy.llm_content", ("continue", "inject")),
    "on_message_complete": HookKind("privacy.llm_content"),
    "on_compaction": HookKind("privacy.llm_content"),
    "on_session_start": HookKind("session.lifecycle", ("continue", "inject")),
    "on_session_end": HookKind("session.lifecycle"),
    "on_usage": HookKind("privacy.llm_content", since=2),
}

# Hooks that cannot stop an event: their replies only continue it or add to it.
ADVISORY_HOOKS: Final = tuple(name for name, kind in HOOKS.items() if "block" not in kind.actions)

# Hooks that only observe an event: their replies change nothing.
_OBSERVER_HOOKS: Final = tuple(
    name for name, kind in HOOKS.items() if kind.actions == ("continue",)
)

# The filters in the `match` of a hook.
_MATCH_KEYS: Final = ("input_equals", "input_contains")

# The types of settings.
_SETTING_TYPES: Final = ("string", "bool", "number")


class Subscription(NamedTuple):
    """A hook that a plugin subscribes to, and its filters. A filter is None if it is not set.

    hook      the name of the hook
    tool      the name of the tool that the event must be about
    equals    a tuple of one value, which the tool's input must equal; the value itself may be null
    contains  a text that the tool's input must contain, as canonical JSON
    """

    hook: str
    tool: str | None = None
    equals: tuple[Any] | None = None
    contains: str | None = None


class DeferredTool(NamedTuple):
    """A tool in `deferred`. `description` and `input_schema` are None if they are not declared."""

    name: str
    description: str | None = None
    input_schema: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """The information about a plugin for a host that starts it late."""

    tools: tuple[DeferredTool, ...] = ()
    providers: tuple[str, ...] = ()
    context_providers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SynapsManifest:
    """The contents of a plugin.json that only this dialect uses. `deferred` is None if the manifest
    has no such key."""

    protocol_version: int = PROTOCOL_VERSION
    permissions: tuple[str, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    version: str = ""
    description: str = ""
    setup: Any = None
    prebuilt: Any = None
    theme_tokens: Mapping[str, str] = field(default_factory=empty_mapping)
    deferred: Deferred | None = None

    @property
    def hooks(self) -> tuple[str, ...]:
        """The hooks that the plugin subscribes to, without duplicates."""
        return tuple(dict.fromkeys(subscription.hook for subscription in self.subscriptions))


def parse(file: ManifestFile) -> tuple[Spec, SynapsManifest] | None:
    """Return the extension in this plugin.json, or None if it has none. Raises ManifestError for
    the first mistake."""
    document = _parse_json(file)
    if document.get("extension") is None:  # some programs write null for a key that they do not use
        return None
    table = ManifestTable(
        document["extension"], file.path, "X0250", "an object", file.folder_name, "extension"
    )
    protocol = table.whole("protocol_version", PROTOCOL_VERSION)
    if protocol not in PROTOCOL_VERSIONS:
        raise table.error(
            "X0251",
            f"it is written for protocol {protocol}, and this host speaks 1, and 2 with on_usage",
            "protocol_version",
            "use a version of the plugin for one of these",
        )
    if table.text("runtime") != "process":
        message = table.values["runtime"]
        help = 'only runtime = "process" is a child process'
        raise table.error("X0251", f"its runtime {message!r} does not run here", "runtime", help)
    if not table.text("command").strip():
        raise table.error("X0252", "its command is blank", "command", "name the program to run")
    permissions = _parse_permissions(table)
    hooks = tuple(_parse_hook(hook, permissions, protocol) for hook in table.tables("hooks", []))
    manifest = SynapsManifest(
        protocol_version=protocol,
        permissions=permissions,
        subscriptions=hooks,
        version=_text_of(document, "version"),
        description=_text_of(document, "description"),
        setup=table.values.get("setup"),
        prebuilt=table.values.get("prebuilt"),
        theme_tokens=_parse_theme_tokens(table),
        deferred=_parse_deferred(table, permissions, hooks),
    )
    if not manifest.hooks and not any(permission in permissions for permission in _ACTIVE):
        raise table.error(
            "X0255",
            "it has no hooks, and no permission to do anything else",
            "hooks",
            f"name a hook, or request one of: {', '.join(_ACTIVE)}",
        )
    spec = Spec(
        id=file.folder_name,
        argv=_argv(table, file),
        dialect="synaps",
        cwd=file.folder,
        version=manifest.version,
        declared_hooks=manifest.hooks,
        advisory_hooks=ADVISORY_HOOKS,
        observer_hooks=_observer_hooks(permissions),
        settings=tuple(
            _parse_setting(entry, file.folder_name) for entry in table.tables("config", [])
        ),
        manifest=manifest,
    )
    return spec, manifest


def _observer_hooks(permissions: Collection[str]) -> tuple[str, ...]:
    """Return the hooks with which a plugin of these permissions only observes an event."""
    if "tools.transform_output" in permissions:
        return _OBSERVER_HOOKS
    return (*_OBSERVER_HOOKS, "after_tool_call")


def _argv(table: ManifestTable, file: ManifestFile) -> tuple[str, ...]:
    """Return the command line of the plugin."""
    command = table.argument("command")
    # A name without a slash is looked up on PATH. Joining keeps an absolute path as it is.
    if "/" in command:
        command = str(PurePosixPath(file.folder, command))
    args = table.arguments("args")
    # An argument that names a file of the plugin becomes an absolute path.
    paths = (str(PurePosixPath(file.folder, arg)) if file.has_file(arg) else arg for arg in args)
    return (command, *paths)


def _parse_permissions(table: ManifestTable) -> tuple[str, ...]:
    """Return the permissions, without duplicates."""
    permissions = table.texts("permissions")
    for name in permissions:
        if name in _RESERVED:
            message = f"the permission {name!r} is reserved and never granted"
            raise table.error("X0253", message, "permissions", "take it out")
        if name not in PERMISSIONS:
            near = nearest(name, PERMISSIONS)
            help = f"did you mean {near!r}?" if near else f"there are: {', '.join(PERMISSIONS)}"
            raise table.error("X0253", f"there is no permission {name!r}", "permissions", help)
    return tuple(dict.fromkeys(permissions))


def _parse_theme_tokens(table: ManifestTable) -> Mapping[str, str]:
    """Return the colours of the plugin by their names."""
    if not table.has("theme_tokens"):
        return EMPTY_MAPPING
    tokens = table.table("theme_tokens")
    for name in tokens.values:
        colour = tokens.values[name]
        if not _THEME_TOKEN.fullmatch(name):
            raise tokens.error("X0256", f"{name!r:.70} cannot be the name of a theme token", name)
        if type(colour) is not str or not _COLOUR.fullmatch(colour):
            help = "write a colour as #rgb or #rrggbb"
            raise tokens.error("X0256", f"the theme token {name} is not a colour", name, help)
    return MappingProxyType(dict(tokens.values))


def _parse_deferred(
    table: ManifestTable, permissions: tuple[str, ...], hooks: tuple[Subscription, ...]
) -> Deferred | None:
    """Parse `deferred`. Raises ManifestError for what the format forbids."""
    if not table.has("deferred"):
        return None
    deferred = table.table("deferred")
    for key, limit in _MAX_DEFERRED.items():
        count = len(deferred.any_list(key))
        if count > limit:
            message = f"deferred.{key} has {count} entries, and {limit} are allowed"
            raise deferred.error("X0257", message, key)
        permission = f"{key}.register"
        if count and permission not in permissions:
            message = f"deferred.{key} needs the permission {permission}"
            raise deferred.error("X0257", message, key, "add it to permissions")
    lifecycle = deferred.text("lifecycle") if deferred.has("lifecycle") else None
    if lifecycle not in (None, "hook", "user"):
        raise deferred.value_error("lifecycle", "must be hook or user")
    if lifecycle == "hook" and not hooks:
        message = "deferred.lifecycle is hook, and the plugin has no hook"
        raise deferred.error("X0257", message, "lifecycle", "name a hook")
    parsed = Deferred(
        tools=tuple(_parse_deferred_tool(deferred, item) for item in deferred.any_list("tools")),
        providers=tuple(_entry_names(deferred, "providers", "id")),
        context_providers=tuple(
            _parse_context_provider(entry) for entry in deferred.tables("context_providers", [])
        ),
    )
    if lifecycle == "user" and (parsed.tools or parsed.providers):
        message = "deferred.lifecycle is user, so tools and providers cannot be deferred"
        raise deferred.error("X0257", message, "lifecycle", "take one of them out")
    return parsed


def _parse_deferred_tool(table: ManifestTable, item: Any) -> DeferredTool:
    """Parse an entry of `deferred.tools`: a name, or an object as in the handshake."""
    if type(item) is str:
        return DeferredTool(item)
    fields = item if type(item) is dict else {}
    name, schema = fields.get("name"), fields.get("input_schema")
    if type(name) is not str or not name:
        raise table.value_error("tools", "each entry needs a name")
    description = fields.get("description")
    if description is not None and type(description) is not str:
        raise table.value_error("tools", f"the description of {name} must be text")
    if schema is not None and len(jsontext.encode(schema)) > _MAX_SCHEMA_BYTES:
        message = f"the schema of the deferred tool {name} has more than {_MAX_SCHEMA_BYTES} bytes"
        raise table.error("X0257", message, "tools")
    return DeferredTool(name, description, schema)


def _parse_context_provider(table: ManifestTable) -> str:
    for key in ("id", "capability", "description"):
        if not table.text(key).strip():
            raise table.value_error(key, "must not be blank")
    if table.whole("schema_version", 1) < 1:
        raise table.value_error("schema_version", "must be at least 1")
    return table.argument("id")


def _parse_hook(
    table: ManifestTable, permissions: tuple[str, ...], protocol: int = PROTOCOL_VERSION
) -> Subscription:
    """Return one subscription to a hook."""
    name = table.text("hook")
    kind = HOOKS.get(name)
    if kind is None:
        near = nearest(name, HOOKS)
        help = f"did you mean {near!r}?" if near else f"there are: {', '.join(HOOKS)}"
        raise table.error("X0254", f"there is no hook {name!r}", "hook", help)
    if protocol < kind.since:
        message = (
            f"the hook {name} needs protocol_version {kind.since}, and the manifest has {protocol}"
        )
        raise table.error("X0254", message, "hook", f"write protocol_version = {kind.since}")
    if kind.permission not in permissions:
        message = f"the hook {name} needs the permission {kind.permission}"
        raise table.error("X0254", message, "hook", "add it to permissions")
    tool = table.text("tool") if table.has("tool") else None
    if tool is not None and not kind.of_tools:
        message = f"the hook {name} is not about tools, so it has no tool filter"
        raise table.error("X0254", message, "tool", "take the filter out")
    match = table.table("match") if table.has("match") else None
    if match is None:
        return Subscription(name, tool)
    for key in match.values:
        if key not in _MATCH_KEYS:
            near = nearest(key, _MATCH_KEYS)
            help = f"did you mean {near!r}?" if near else f"there are: {', '.join(_MATCH_KEYS)}"
            raise match.error("X0254", f"there is no match key {key!r}", key, help)
    return Subscription(
        name,
        tool,
        equals=(match.values["input_equals"],) if "input_equals" in match.values else None,
        contains=match.text("input_contains") if match.has("input_contains") else None,
    )


def _parse_setting(table: ManifestTable, id: str) -> DeclaredSetting:
    """Return one setting of `config`."""
    key = table.text("key")
    if not key.strip():
        raise table.value_error("key", "must not be blank")
    kind = table.text("type") if table.has("type") else "string"
    if kind not in _SETTING_TYPES:
        raise table.value_error("type", f"must be one of {', '.join(_SETTING_TYPES)}")
    required = table.values.get("required", False)
    if type(required) is not bool:
        raise table.value_error("required", "must be true or false")
    secret = table.argument("secret_env") if table.has("secret_env") else ""
    return DeclaredSetting(
        key=key,
        variables=_variables(id, key, secret),
        kind=kind,  # type: ignore[arg-type] # one of _SETTING_TYPES
        required=required,
        default=table.values.get("default"),
        secret=secret,
    )


def _variables(id: str, key: str, secret: str) -> tuple[str, ...]:
    """Return the names of the environment variables that may contain the value of a setting."""
    variable = "SYNAPS_EXTENSION_" + re.sub(r"[^A-Z0-9]", "_", f"{id}_{key}".upper())
    return (variable, secret) if secret else (variable,)


def _parse_json(file: ManifestFile) -> Mapping[str, Any]:
    """Return the plugin.json as an object."""
    try:
        document = jsontext.decode(file.data.removeprefix(b"\xef\xbb\xbf"))
    except jsontext.NotJson as reason:
        message = f"the manifest is not valid JSON: {reason}"
        line = _line_of(file.data, str(reason))
    else:
        if type(document) is dict:
            return document
        message, line = "the manifest is not a JSON object", 1
    raise ManifestError(
        "X0250",
        message,
        extension=file.folder_name,
        help="fix the file; the dialect's page shows one",
        evidence=Evidence(path=file.path, line=line),
    )


def _line_of(data: bytes, reason: str) -> int:
    """Return the line of the byte that a parser's message names; 0 if it names no byte."""
    place = re.search(r"byte (\d+)", reason)
    return data[: int(place[1])].count(b"\n") + 1 if place is not None else 0


def _text_of(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    return value if type(value) is str else ""


def _entry_names(table: ManifestTable, key: str, name_key: str) -> list[str]:
    """Return the names in a list whose entries are names, or objects with a name."""
    names: list[Any] = [
        item.get(name_key) if type(item) is dict else item for item in table.any_list(key)
    ]
    if not all(type(name) is str and name for name in names):
        raise table.value_error(key, f"each entry needs {name_key}")
    return names


def read(file: ManifestFile) -> Verdict:
    """Return the extension in this plugin.json, or None if it has no extension."""
    parsed = parse(file)
    if parsed is None:
        return None
    spec, manifest = parsed
    return Accepted(spec=spec, warnings=_find_not_offered(manifest))


def _find_not_offered(manifest: SynapsManifest) -> tuple[Remark, ...]:
    """Return a warning about what this host does not offer to the plugin."""
    parts = [text for name, text in _NOT_OFFERED.items() if name in manifest.permissions]
    if not parts:
        return ()
    text = f"this host does not offer {' and '.join(parts)}; the rest of the plugin runs"
    return (Remark(text, is_mistake=False),)


def join(spec: Spec, file: ManifestFile) -> Spec:
    """Return the spec of a config entry, completed with the manifest that the entry names: version,
    hooks and settings. All other values, such as the command, remain those of the entry."""
    parsed = parse(file)
    if parsed is None:
        raise ManifestError(
            "X0250",
            "it has no `extension`",
            extension=spec.id,
            help="name the plugin.json of a plugin that is one",
            evidence=Evidence(path=file.path),
        )
    parsed_spec, manifest = parsed
    # The names of the variables contain the extension's id, which the entry may have changed.
    settings = tuple(
        setting._replace(variables=_variables(spec.id, setting.key, setting.secret))
        for setting in parsed_spec.settings
    )
    return replace(
        spec,
        version=parsed_spec.version,
        declared_hooks=parsed_spec.declared_hooks,
        advisory_hooks=parsed_spec.advisory_hooks,
        observer_hooks=parsed_spec.observer_hooks,
        settings=settings,
        manifest=manifest,
    )


def read_hooks(file: ManifestFile) -> Spec:
    """Return a spec with the hooks of a plugin.json that has a mistake, as far as they can be read.
    The host blocks the calls that these hooks would judge. The mistake may be the name of the key
    or the form of its value. A filter that cannot be read is left out, and a hook of an unknown
    name counts as one that may stop a tool call."""
    spec = Spec(id=file.folder_name, argv=(), dialect="synaps", advisory_hooks=ADVISORY_HOOKS)
    try:
        extension = _parse_json(file).get("extension")
    except ManifestError:
        extension = None
    if type(extension) is not dict:
        return replace(spec, has_unknown_hooks=True)
    values = [value for key, value in extension.items() if nearest(key, ("hooks",))]
    hooks = [hook for value in values for hook in (value if type(value) is list else [value])]
    manifest = SynapsManifest(
        subscriptions=tuple(_read_subscription(hook) for hook in hooks if hook is not None)
    )
    return replace(spec, declared_hooks=manifest.hooks, manifest=manifest)


def _read_subscription(hook: Any) -> Subscription:
    """Return a subscription of a manifest with mistakes, for `read_hooks`."""
    fields = hook if type(hook) is dict else {"hook": hook}
    name, tool, match = fields.get("hook"), fields.get("tool"), fields.get("match")
    if type(name) is not str or name not in HOOKS:
        name = "before_tool_call"
    subscription = Subscription(name, tool if type(tool) is str else None)
    if type(match) is not dict or not match.keys() <= set(_MATCH_KEYS):
        return subscription
    contains = match.get("input_contains")
    return subscription._replace(
        equals=(match["input_equals"],) if "input_equals" in match else None,
        contains=contains if type(contains) is str else None,
    )


_USER_HOME: Final = "~/.synaps-cli"
_PROJECT_PLUGINS: Final = ".synaps/plugins"


def _find_homes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the user's folder of plugins and the project's, as two variables of the host set
    them. The project's comes last: its plugin takes the place of the user's of the same name."""
    user = f"{environ.get('SYNAPS_BASE_DIR') or _USER_HOME}/plugins"
    switch = environ.get("SYNAPS_DISABLE_PROJECT_PLUGINS", "").strip().lower()
    return (user,) if switch in ("1", "true", "yes", "on") else (user, _PROJECT_PLUGINS)


FORMAT = ManifestFormat(
    dialect="synaps",
    names=("plugin.json",),
    parent=".synaps-plugin",
    lists_tools=False,
    homes=(f"{_USER_HOME}/plugins", _PROJECT_PLUGINS),
    find_homes=_find_homes,
    read=read,
    read_hooks=read_hooks,
    join=join,
)
