"""Parses and checks a manifest of nexo's second contract (`manifest_version = 2`).

    manifest_version = 2
    [plugin]
    id = "tide"
    version = "1.0.0"
    name = "Tides"
    description = "Tells tides"
    min_nexo_version = ">=0.1.0"
    [plugin.entrypoint]
    command = "./tide"
    [plugin.extends]
    tools = ["tide_next"]

nexo has two contracts: two versions of its protocol that have little in common. The file is
`plugin.toml`, or `nexo-plugin.toml` under its former name. Everything is below `[plugin]`. An
unknown key is an error. Real files often lack `manifest_version`, so `is_version_2` also recognises
the shape.

This host runs the tools and hooks of such an extension. It does not offer other parts of the
contract, such as channels and model providers. Their form is checked as far as it is known, and one
warning names those that a manifest uses.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from exthost.dialects.manifest_format import Accepted, ManifestFile, Rejected, Remark, Verdict
from exthost.dialects.nexo.hooks import HOOKS
from exthost.dialects.nexo.manifest_parts import (
    MAX_NAME_CHARS,
    make_errors,
    make_table_reader,
    read_names,
    read_version,
)
from exthost.model.documents.problems import WRONG_VALUE, Place, Problems
from exthost.model.documents.readers import (
    Reader,
    choice_reader,
    describe_type,
    quote_text,
    read_any_text,
    read_any_text_list,
    read_flag,
    read_table,
    read_text,
    read_text_list,
    read_variables,
)
from exthost.model.documents.toml_positions import KeyPath
from exthost.model.offer import Tool
from exthost.model.spec import Requires, Restart, Spec
from exthost.model.versionreq import NotAVersion, VersionReq
from exthost.wire import jsontext

# The documentation of the contract allows hyphens, though its own host refuses them.
_ID = re.compile(r"[a-z][a-z0-9_-]*")

# The default of `rpc_method`.
_OUTBOUND_METHOD = "outbound_tool.invoke"

# The longest delay between two restarts, in seconds.
_MAX_BACKOFF_SECONDS = 60

# Why an extension whose manifest names no command cannot be started.
_BUILT_IN = (
    "its manifest names no command: it is a part of nexo itself and is not started from here"
)

# Errors at these keys are reported first, in this order.
_ORDER: tuple[KeyPath, ...] = (
    ("manifest_version",),
    ("plugin", "id"),
    ("plugin", "version"),
    ("plugin", "name"),
    ("plugin", "description"),
    ("plugin", "min_nexo_version"),
    ("plugin", "entrypoint"),
    ("plugin", "extends"),
)


class OutboundTool(NamedTuple):
    """A tool that the manifest describes and that is called by a method of its own. `seconds` is
    its time limit; None for that of all tools."""

    name: str
    description: str
    input_schema: Any
    rpc_method: str = _OUTBOUND_METHOD
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestV2:
    """The values of a manifest that only this contract uses.

    id              the id of the extension in its messages
    tools, hooks    the names that the extension may offer
    outbound        the tools that the manifest describes itself
    has_config      whether the manifest has a schema for the extension's config
    config_is_list  whether the config is a list
    not_offered     the parts of the manifest that this host does not offer
    """

    id: str
    name: str = ""
    description: str = ""
    tools: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    outbound: tuple[OutboundTool, ...] = ()
    has_config: bool = False
    config_is_list: bool = False
    not_offered: tuple[str, ...] = ()


def is_version_2(document: Mapping[str, Any]) -> bool:
    """Return whether a manifest has this shape: its `manifest_version` is 2, or it has keys or
    tables in `[plugin]` that the flat shape of the first contract never has."""
    if "manifest_version" in document:
        version = document["manifest_version"]
        return type(version) is int and version == 2
    plugin = document.get("plugin")
    return isinstance(plugin, Mapping) and (
        "min_nexo_version" in plugin or any(isinstance(value, Mapping) for value in plugin.values())
    )


def read(file: ManifestFile, document: Mapping[str, Any], source: str) -> Verdict:
    """Return the extension that a manifest of this shape describes. `source` is its text."""
    problems = Problems(file.path, source)
    place = Place(problems)
    checked = read_table(document, place, {"manifest_version": _accept, "plugin": _read_plugin})
    plugin: dict[str, Any] = checked.get("plugin") or {}
    id = plugin.get("id") or ""
    if "plugin" not in document:
        place.at("plugin").add_problem(WRONG_VALUE, "there is no [plugin]", "add [plugin]")
    if problems.items:
        return Rejected(make_errors(file, problems, id, _ORDER))
    manifest = _make_manifest(plugin)
    entrypoint = plugin.get("entrypoint") or {}
    command = entrypoint.get("command", "").strip()
    requires = plugin.get("requires") or {}
    spec = Spec(
        id=id,
        argv=(command, *entrypoint.get("args", ())) if command else (),
        env=entrypoint.get("env") or {},
        dialect="nexo",
        version=plugin["version"],
        requires=Requires(
            bins=requires.get("bins", ()),
            env=requires.get("env", ()),
            is_advisory=True,
            host_range=plugin["min_nexo_version"],
        ),
        restart=_make_restart(plugin.get("supervisor") or {}),
        declared_tools=(
            # The manifest only names these; their schemas come with the handshake.
            *(Tool(name, input_schema={}) for name in manifest.tools),
            *(Tool(tool.name, tool.description, tool.input_schema) for tool in manifest.outbound),
        ),
        declared_hooks=tuple(hook for hook in manifest.hooks if hook in HOOKS),
        unrunnable="" if command else _BUILT_IN,
        manifest=manifest,
    )
    return Accepted(spec=spec, warnings=_make_warnings(manifest))


def _make_manifest(plugin: Mapping[str, Any]) -> ManifestV2:
    extends, tools = plugin.get("extends") or {}, plugin.get("tools") or {}
    config = plugin.get("config_schema") or {}
    return ManifestV2(
        id=plugin["id"],
        name=plugin["name"],
        description=plugin["description"],
        tools=extends.get("tools", ()),
        hooks=extends.get("hooks", ()),
        outbound=tools.get("outbound", ()),
        has_config="schema" in config,
        config_is_list=config.get("shape") == "array",
        not_offered=tuple(_find_not_offered(plugin)),
    )


def _find_not_offered(plugin: Mapping[str, Any]) -> list[str]:
    """Return the names of the parts that this host does not offer, and that the manifest uses."""
    extends, capabilities = plugin.get("extends") or {}, plugin.get("capabilities") or {}
    lists = [
        f"extends.{key}"
        for key in ("channels", "llm_providers", "memory_backends")
        if extends.get(key)
    ]
    lists += [f"capabilities.{key}" for key in ("broker", "http_server") if capabilities.get(key)]
    for key in ("credentials_schema", "sandbox"):
        if (plugin.get(key) or {}).get("enabled"):
            lists.append(key)
    return lists + [key for key in _NOT_OFFERED if plugin.get(key)]


def _make_warnings(manifest: ManifestV2) -> tuple[Remark, ...]:
    if not manifest.not_offered:
        return ()
    parts = ", ".join(manifest.not_offered)
    text = f"this host does not offer these parts of nexo's second contract: {parts}"
    if "sandbox" in manifest.not_offered:
        text += f"; [overrides.{manifest.id}] permissions = {{}} runs it in a sandbox of this host"
    return (Remark(text, is_mistake=False),)


def _make_restart(supervisor: Mapping[str, Any]) -> Restart:
    """Return the restart policy that `[plugin.supervisor]` describes."""
    if not supervisor.get("respawn"):
        return Restart()
    return Restart(
        strategy="exponential",
        initial_delay=supervisor.get("backoff_ms", 1000) / 1000,
        max_delay=_MAX_BACKOFF_SECONDS,
        max_retries=supervisor.get("max_attempts", 3),
    )


# -- readers ---------------------------------------------------------------------------------

# Each reader checks one value. It adds a problem to `place` for each mistake.


def _accept(value: Any, place: Place) -> Any:
    """Accept any value. The host does not use it."""
    return value


def _read_id(value: Any, place: Place) -> str | None:
    checked = read_text(value, place)
    if checked is not None and (not _ID.fullmatch(checked) or len(checked) > MAX_NAME_CHARS):
        rule = f"a letter, then letters, digits, _ and -, all lower case, up to {MAX_NAME_CHARS}"
        place.add_problem(WRONG_VALUE, f"{quote_text(checked)} is not an id: {rule}")
        return None
    return checked


def _read_requirement(value: Any, place: Place) -> str | None:
    """Read a requirement on a version, such as ">=0.1.0"."""
    checked = read_text(value, place)
    if checked is None:
        return None
    try:
        VersionReq.parse(checked)
    except NotAVersion as error:
        place.add_problem(WRONG_VALUE, str(error), 'write it like ">=0.1.0"')
        return None
    return checked


def _read_entrypoint_env(value: Any, place: Place) -> dict[str, str] | None:
    for name in value if isinstance(value, Mapping) else ():
        if name.startswith("NEXO_"):
            place.at(name).add_problem(
                WRONG_VALUE, "is a name that only the host sets", "use a name without NEXO_"
            )
    return read_variables(value, place)


def _range_reader(minimum: int, maximum: int) -> Reader:
    """Return a reader of a whole number from `minimum` to `maximum`."""

    def read(value: Any, place: Place) -> int | None:
        if type(value) is not int or not minimum <= value <= maximum:
            place.add_problem(
                WRONG_VALUE,
                f"must be a whole number from {minimum} to {maximum}, not {_describe(value)}",
            )
            return None
        return value

    return read


def _describe(value: Any) -> str:
    """Return a number, unless it is very long, or the type of any other value."""
    if type(value) is not int:
        return describe_type(value)
    return str(value) if abs(value) < 2**64 else "a number of many digits"


def _read_schema(value: Any, place: Place) -> Any:
    """Read a JSON Schema that the manifest has as text. Its root must be an object."""
    text = read_text(value, place)
    if text is None:
        return None
    try:
        schema = jsontext.decode(text.encode())
    except jsontext.NotJson as reason:
        message = str(reason).removeprefix("not JSON: ")
        place.add_problem(WRONG_VALUE, f"is not JSON: {message}", "write a JSON Schema as text")
        return None
    if not isinstance(schema, dict):
        place.add_problem(WRONG_VALUE, "must be a JSON Schema, which is a JSON object")
        return None
    return schema


def _read_object_schema(value: Any, place: Place) -> Any:
    schema = _read_schema(value, place)
    if schema is not None and schema.get("type") != "object":
        place.add_problem(WRONG_VALUE, 'its root must have "type": "object"')
        return None
    return schema


_EXTENDS: Mapping[str, Reader] = dict.fromkeys(
    ("channels", "llm_providers", "memory_backends", "hooks", "tools"), read_names
)


def _read_extends(value: Any, place: Place) -> dict[str, tuple[str, ...]]:
    """Read `[plugin.extends]`: the names of what the extension offers, by kind."""
    lists = read_table(value, place, _EXTENDS)
    owners: dict[str, str] = {}
    for key, names in lists.items():
        for name in names:
            # A name can be in only one of the lists. `owners` has the list that named it first.
            if owners.setdefault(name, key) != key:
                place.at(key).add_problem(
                    WRONG_VALUE, f"{name!r} is also in {owners[name]}", "keep one of the two"
                )
    return lists


_OUTBOUND: Mapping[str, Reader] = {
    "name": read_text,
    "description": read_any_text,
    "input_schema": _read_schema,
    "rpc_method": read_text,
    "timeout_ms": _range_reader(1, 2**31 - 1),
}


def _read_outbound(value: Any, place: Place) -> tuple[OutboundTool, ...]:
    """Read `[[plugin.tools.outbound]]`: the tools that the manifest itself describes."""
    if not isinstance(value, list):
        place.add_problem(WRONG_VALUE, f"must be a list of tables, not {describe_type(value)}")
        return ()
    tools = []
    for index, item in enumerate(value):
        fields = read_table(item, place.at(index), _OUTBOUND)
        missing = [key for key in ("name", "input_schema") if key not in fields]
        for key in missing:
            place.at(index).at(key).add_problem(WRONG_VALUE, "is missing", f'add {key} = "…"')
        if missing or fields["name"] is None:
            continue
        milliseconds = fields.get("timeout_ms")
        tools.append(
            OutboundTool(
                fields["name"],
                fields.get("description") or "",
                fields["input_schema"],
                fields.get("rpc_method") or _OUTBOUND_METHOD,
                None if milliseconds is None else milliseconds / 1000,
            )
        )
    return tuple(tools)


def _read_tools(value: Any, place: Place) -> dict[str, Any]:
    """Read `[plugin.tools]`. The other lists may name only tools that are in `expose`."""
    tools = read_table(
        value, place, {"expose": read_names, "deferred": read_names, "outbound": _read_outbound}
    )
    exposed = frozenset(tools.get("expose") or ())
    for name in tools.get("deferred") or ():
        if name not in exposed:
            place.at("deferred").add_problem(
                WRONG_VALUE, f"{name!r} is not in expose", "add it there"
            )
    for index, tool in enumerate(tools.get("outbound") or ()):
        if tool.name not in exposed:
            place.at("outbound").at(index).at("name").add_problem(
                WRONG_VALUE, f"{quote_text(tool.name)} is not in expose", "add it there"
            )
    return tools


def _read_plugin(value: Any, place: Place) -> dict[str, Any]:
    fields = read_table(value, place, _PLUGIN)
    if not isinstance(value, Mapping):
        return {}
    for key in ("id", "version", "name", "description", "min_nexo_version"):
        if key not in value:
            place.at(key).add_problem(WRONG_VALUE, "is missing", f'add {key} = "…"')
    fields = {key: item for key, item in fields.items() if item is not None}
    _check_outbound_names(fields, place)
    return fields


def _check_outbound_names(fields: Mapping[str, Any], place: Place) -> None:
    """Check that the names of tools begin with the id of the extension, because the host registers
    them unchanged."""
    id = fields.get("id")
    for index, tool in enumerate((fields.get("tools") or {}).get("outbound") or ()):
        if id and not tool.name.startswith((f"{id}_", f"ext_{id}_")):
            place.at("tools").at("outbound").at(index).at("name").add_problem(
                WRONG_VALUE, f"{quote_text(tool.name)} does not begin with {id}_ or ext_{id}_"
            )


# Parts whose form is not known, and which this host does not offer. Those that are only about a
# presentation or a build are accepted without a warning.
_NOT_OFFERED = (
    "advisors",
    "agents",
    "channels",
    "http_server",
    "pairing",
    "http",
    "admin",
    "metrics",
    "dashboard",
    "admin_ui",
    "public_tunnel",
    "poller",
    "subscriptions",
)
_UNUSED = ("skills", "config", "capability_gates", "ui", "contracts", "meta")

_PLUGIN: Mapping[str, Reader] = {
    "id": _read_id,
    "version": read_version,
    "name": read_text,
    "description": read_text,
    "min_nexo_version": _read_requirement,
    "enabled_by_default": read_flag,
    "entrypoint": make_table_reader(
        {"command": read_any_text, "args": read_any_text_list, "env": _read_entrypoint_env}
    ),
    "extends": _read_extends,
    "tools": _read_tools,
    "requires": make_table_reader(
        dict.fromkeys(("bins", "env", "features", "nexo_capabilities"), read_text_list)
    ),
    "capabilities": make_table_reader(
        {
            "provides": read_text_list,
            "skills": read_text_list,
            "admin": make_table_reader(dict.fromkeys(("required", "optional"), read_text_list)),
            "broker": make_table_reader(dict.fromkeys(("subscribe", "publish"), read_text_list)),
            "http_server": make_table_reader(
                {
                    "port": _range_reader(0, 65535),
                    "token_env": read_text,
                    "bind": read_text,
                    "health_path": read_text,
                    "extra_env_passthrough": read_text_list,
                }
            ),
        }
    ),
    "config_schema": make_table_reader(
        {
            "schema": _read_object_schema,
            "shape": choice_reader("object", "array"),
            "hot_reload": read_flag,
        }
    ),
    "credentials_schema": make_table_reader({"enabled": read_flag, "accounts_shape": _accept}),
    "supervisor": make_table_reader(
        {
            "respawn": read_flag,
            "max_attempts": _range_reader(0, 2**31 - 1),
            "backoff_ms": _range_reader(100, 300_000),
            "stderr_tail_lines": _range_reader(0, 512),
        }
    ),
    "sandbox": make_table_reader(
        {
            "enabled": read_flag,
            "network": choice_reader("deny", "host"),
            "fs_read_paths": read_text_list,
            "fs_write_paths": read_text_list,
            "drop_user": read_flag,
        }
    ),
    **dict.fromkeys((*_NOT_OFFERED, *_UNUSED), _accept),
}
