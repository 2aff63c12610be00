"""Parses and checks `plugin.toml`, the manifest of a nexo extension, in its first, flat shape.

    [plugin]
    id = "weather"
    version = "1.0.0"
    [capabilities]
    tools = ["forecast"]
    [transport]
    kind = "stdio"
    command = "./weather"

`read` decides which shape a file has. `manifest_v2` reads the other one, the nested shape of nexo's
second contract. That contract formerly named the file `nexo-plugin.toml`; such a file is ignored
beside a `plugin.toml`.

An unknown key is an error. All errors are collected, each with its line and key, and sorted in the
order that the format prescribes (`_ORDER`). Users see the first one, or all of them with `--all`.

A transport other than a child process is valid: the extension is listed and never run. MCP servers
that the manifest declares become extensions of their own (`mcp_servers`). An invalid `.mcp.json`
beside the manifest is a warning, not an error.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from exthost._version import __version__
from exthost.dialects.manifest_format import (
    Accepted,
    ManifestFile,
    ManifestFormat,
    Rejected,
    Remark,
    Verdict,
)
from exthost.dialects.nexo import manifest_v2
from exthost.dialects.nexo.hooks import HOOKS
from exthost.dialects.nexo.manifest_parts import (
    MAX_NAME_CHARS,
    make_errors,
    make_table_reader,
    parse_file,
    read_names,
    read_version,
)
from exthost.dialects.nexo.mcp_servers import (
    DeclaredServer,
    JsonMistake,
    make_spec,
    read_servers,
    read_url,
    replace_placeholders,
    servers_from_json,
)
from exthost.errors import ManifestError
from exthost.model.documents.problems import WRONG_VALUE, Place, Problems
from exthost.model.documents.readers import (
    Reader,
    describe_type,
    find_nearest,
    quote_text,
    read_any_text_list,
    read_flag,
    read_table,
    read_text,
    read_text_list,
)
from exthost.model.documents.toml_positions import KeyPath
from exthost.model.empty_mapping import empty_mapping
from exthost.model.offer import Tool
from exthost.model.spec import Requires, Spec

RESERVED_IDS = frozenset(
    {"agent", "browser", "core", "email", "heartbeat", "memory", "telegram", "whatsapp"}
)

_ID = re.compile(r"[a-z][a-z0-9_-]*")
_MAX_DESCRIPTION_CHARS = 512
_PRIORITY_LIMIT = 2**63
_MCP_JSON = ".mcp.json"
_FILE_NAME = "plugin.toml"
_FORMER_FILE_NAME = "nexo-plugin.toml"

# Errors at these keys are reported first, in this order; errors at other keys come after them.
_ORDER: tuple[KeyPath, ...] = (
    ("plugin", "id"),
    ("plugin", "version"),
    ("plugin", "min_agent_version"),
    ("plugin", "description"),
    ("capabilities",),
    ("transport",),
    ("mcp_servers",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NexoManifest:
    """The values of a plugin.toml that only this dialect uses."""

    name: str = ""
    description: str = ""
    transport: str = "stdio"
    hooks: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    pollers: tuple[str, ...] = ()
    passthrough: bool = False
    author: str = ""
    license: str = ""
    outbound_bindings: Mapping[str, tuple[str, ...]] = field(default_factory=empty_mapping)
    mcp_servers: tuple[DeclaredServer, ...] = ()


def read(file: ManifestFile) -> Verdict:
    """Return the extension that this manifest describes, in either shape."""
    if file.name == _FORMER_FILE_NAME and file.has_file(_FILE_NAME):
        return None
    document, source = parse_file(file)
    read_shape = manifest_v2.read if manifest_v2.is_version_2(document) else _read_flat
    verdict = read_shape(file, document, source)
    if (
        isinstance(verdict, Accepted)
        and file.name == _FILE_NAME
        and file.has_file(_FORMER_FILE_NAME)
    ):
        remark = Remark(f"it is ignored, because {_FILE_NAME} is beside it", _FORMER_FILE_NAME)
        return replace(verdict, warnings=(*verdict.warnings, remark))
    return verdict


def _read_flat(file: ManifestFile, document: Mapping[str, Any], source: str) -> Verdict:
    """Return the extension that a manifest of the flat shape describes, and its MCP servers."""
    problems = Problems(file.path, source)
    place = Place(problems)
    checked = read_table(document, place, _SECTIONS)
    plugin: dict[str, Any] = checked.get("plugin") or {}
    id = plugin.get("id") or ""
    for section in ("plugin", "capabilities", "transport"):
        if section not in document:
            misspelt = find_nearest(section, document.keys() - _SECTIONS.keys())
            fix = f"rename [{misspelt}] to [{section}]" if misspelt else f"add [{section}]"
            place.at(section).add_problem(WRONG_VALUE, f"there is no [{section}]", fix)
    servers = read_servers(document.get("mcp_servers", {}), place.at("mcp_servers"), id)
    if problems.items:
        return Rejected(make_errors(file, problems, id, _ORDER))
    warnings: tuple[Remark, ...] = ()
    if "mcp_servers" not in document:
        servers, warnings = _read_mcp_json(file, id)
    capabilities, transport = checked["capabilities"], checked["transport"]
    requires = checked.get("requires") or {}
    context, meta = checked.get("context") or {}, checked.get("meta") or {}
    spec = Spec(
        id=id,
        argv=transport.argv,
        dialect="nexo",
        version=plugin["version"],
        priority=plugin.get("priority", 0),
        requires=Requires(
            bins=requires.get("bins", ()),
            env=requires.get("env", ()),
            host=plugin.get("min_agent_version", ""),
        ),
        declared_tools=tuple(Tool(name, input_schema={}) for name in capabilities.get("tools", ())),
        declared_hooks=tuple(capabilities.get("hooks", ())),
        unrunnable=transport.unrunnable,
        manifest=NexoManifest(
            name=plugin.get("name", ""),
            description=plugin.get("description", ""),
            transport=transport.kind,
            passthrough=context.get("passthrough", False),
            author=meta.get("author", ""),
            license=meta.get("license", ""),
            outbound_bindings=checked.get("outbound_bindings") or empty_mapping(),
            mcp_servers=servers,
            # hooks, channels, providers and pollers
            **{name: capabilities.get(name, ()) for name in _CAPABILITIES if name != "tools"},
        ),
    )
    variables = {"root": file.folder, "extension": id, "version": spec.version}
    server_specs = tuple(
        make_spec(
            replace_placeholders(server, host_version=__version__, **variables),
            file.folder,
            spec.requires,
        )
        for server in servers
    )
    return Accepted(spec=spec, also=server_specs, warnings=warnings)


def _read_mcp_json(
    file: ManifestFile, id: str
) -> tuple[tuple[DeclaredServer, ...], tuple[Remark, ...]]:
    """Return the MCP servers of the `.mcp.json` beside the manifest, or a warning about it."""
    try:
        data = file.read_sibling(_MCP_JSON)
    except ManifestError as error:
        return (), (Remark(f"it is ignored: {error.message}", _MCP_JSON),)
    if data is None:
        return (), ()
    try:
        return servers_from_json(data, id), ()
    except JsonMistake as mistake:
        return (), (Remark(f"it is ignored: {mistake}", _MCP_JSON, mistake.line),)


def read_hooks(file: ManifestFile) -> Spec:
    """Return a spec with the hooks that a plugin.toml with a mistake may declare, in either shape.
    The host blocks the calls that these hooks would judge."""
    spec = Spec(id=file.folder_name, argv=(), dialect="nexo")
    try:
        document, _ = parse_file(file)
    except ManifestError:
        return replace(spec, has_unknown_hooks=True)
    plugin = document.get("plugin")
    id = plugin.get("id") if isinstance(plugin, Mapping) else None
    found = set(_find_hooks(document))
    return replace(
        spec,
        id=id if isinstance(id, str) and _ID.fullmatch(id) else spec.id,
        declared_hooks=tuple(hook for hook in HOOKS if hook in found),
        manifest=NexoManifest(),
    )


def _find_hooks(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the hooks that a manifest with a mistake may declare. The mistake may be the name of a
    key or the form of its value, so the name of a hook counts wherever it is. A key `hooks`, or one
    like it, that does not have a list of such names may declare any hook."""
    remaining: list[Any] = [document]
    while remaining:
        value = remaining.pop()
        if isinstance(value, Mapping):
            for key, item in value.items():
                if find_nearest(key, ("hooks",)) and not _is_list_of_hooks(item):
                    yield from HOOKS
                remaining += (key, item)
        elif isinstance(value, list):
            remaining += value
        elif isinstance(value, str) and value in HOOKS:
            yield value


def _is_list_of_hooks(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, str) and item in HOOKS for item in value
    )


# -- sections --------------------------------------------------------------------------------

# Each reader checks one section or value. It adds a problem to `place` for each mistake and returns
# the checked value. A reader of a single value returns None if the value is invalid.


def _read_plugin(value: Any, place: Place) -> dict[str, Any]:
    fields = read_table(value, place, _PLUGIN)
    if isinstance(value, Mapping):
        for key in ("id", "version"):
            if key not in value:
                place.at(key).add_problem(WRONG_VALUE, "is missing", f'add {key} = "…"')
    return {key: item for key, item in fields.items() if item is not None}


def _read_id(value: Any, place: Place) -> str | None:
    checked = read_text(value, place)
    if checked is None:
        return None
    if not _ID.fullmatch(checked) or len(checked) > MAX_NAME_CHARS:
        rule = f"a letter, then letters, digits, _ and -, all lower case, up to {MAX_NAME_CHARS}"
        place.add_problem(WRONG_VALUE, f"{quote_text(checked)} is not an id: {rule}")
        return None
    if checked in RESERVED_IDS:
        reserved = ", ".join(sorted(RESERVED_IDS))
        place.add_problem(
            WRONG_VALUE, f"{checked!r} is reserved for the host", f"reserved are {reserved}"
        )
        return None
    return checked


def _read_description(value: Any, place: Place) -> str | None:
    if not isinstance(value, str):
        place.add_problem(WRONG_VALUE, f"must be text, not {describe_type(value)}")
        return None
    if len(value) > _MAX_DESCRIPTION_CHARS:
        rule = f"must not be longer than {_MAX_DESCRIPTION_CHARS} characters"
        place.add_problem(WRONG_VALUE, f"{rule}, and has {len(value)}")
        return None
    return value


def _read_priority(value: Any, place: Place) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        place.add_problem(WRONG_VALUE, f"must be a whole number, not {describe_type(value)}")
        return None
    if not -_PRIORITY_LIMIT <= value < _PRIORITY_LIMIT:
        place.add_problem(WRONG_VALUE, "must be a whole number of 64 bits")
        return None
    return value


_PLUGIN: Mapping[str, Reader] = {
    "id": _read_id,
    "version": read_version,
    "name": read_text,
    "description": _read_description,
    "min_agent_version": read_version,
    "priority": _read_priority,
}


_CAPABILITIES: Mapping[str, Reader] = dict.fromkeys(
    ("tools", "hooks", "channels", "providers", "pollers"), read_names
)


def _read_capabilities(value: Any, place: Place) -> dict[str, tuple[str, ...]]:
    problem_count = len(place.problems.items)
    names = read_table(value, place, _CAPABILITIES)
    if not any(names.values()) and len(place.problems.items) == problem_count:
        lists = ", ".join(_CAPABILITIES)
        place.add_problem(
            WRONG_VALUE, "offers nothing at all", f"name at least one thing in: {lists}"
        )
    return names


@dataclass(frozen=True, slots=True)
class _Transport:
    """A checked `[transport]`. `unrunnable` is the reason why the host cannot start it, or ""."""

    kind: str
    argv: tuple[str, ...] = ()
    unrunnable: str = ""


# The keys of each kind of transport. The first key is required.
_TRANSPORT_KEYS: Mapping[str, Mapping[str, Reader]] = {
    "stdio": {"command": read_text, "args": read_any_text_list},
    "nats": {"subject_prefix": read_text},
    "http": {"url": read_url},
}


def _read_transport(value: Any, place: Place) -> _Transport | None:
    """Read `[transport]`: how the extension is reached. Only stdio is run by this host."""
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table, not {describe_type(value)}")
        return None
    if "kind" in value and "type" in value:
        place.at("type").add_problem(WRONG_VALUE, "repeats `kind`", "keep `kind`")
        return None
    kind_key = "type" if "type" in value else "kind"
    kind = value.get(kind_key)
    if kind_key not in value:
        place.at("kind").add_problem(WRONG_VALUE, "is missing", 'add kind = "stdio"')
        return None
    if not isinstance(kind, str) or kind not in _TRANSPORT_KEYS:
        near = find_nearest(kind, _TRANSPORT_KEYS) if isinstance(kind, str) else ""
        guess = f'; did you mean "{near}"?' if near else ""
        known = ", ".join(f'"{known_kind}"' for known_kind in _TRANSPORT_KEYS)
        place.at(kind_key).add_problem(WRONG_VALUE, f"must be one of {known}{guess}")
        return None
    keys = _TRANSPORT_KEYS[kind]
    other_values = {key: item for key, item in value.items() if key != kind_key}
    fields = read_table(other_values, place, keys)
    required_key = next(iter(keys))
    if required_key not in value:
        place.at(required_key).add_problem(WRONG_VALUE, f"is missing: {kind} needs it")
    if kind != "stdio":
        reason = f"its transport is {kind}: it runs by itself and is not started from here"
        return _Transport(kind, unrunnable=reason)
    return _Transport(kind, (fields.get("command") or "", *(fields.get("args") or ())))


def _read_bindings(value: Any, place: Place) -> Mapping[str, tuple[str, ...]]:
    """Read `[outbound_bindings]`: channel → its accounts."""
    if not isinstance(value, Mapping):
        place.add_problem(
            WRONG_VALUE, f"must be a table of channel and accounts, not {describe_type(value)}"
        )
        return empty_mapping()
    bindings = {
        channel: read_text_list(accounts, place.at(channel)) for channel, accounts in value.items()
    }
    return MappingProxyType({channel: accounts or () for channel, accounts in bindings.items()})


def _read_manifest_version(value: Any, place: Place) -> None:
    if value != 1 or type(value) is not int:
        place.add_problem(WRONG_VALUE, "must be 1 or 2", "this host runs these two contracts")


def _skip_mcp_servers(value: Any, place: Place) -> None:
    """Ignore `mcp_servers` here. `read` parses them later, because their names contain the id."""


_SECTIONS: Mapping[str, Reader] = {
    "manifest_version": _read_manifest_version,
    "plugin": _read_plugin,
    "capabilities": _read_capabilities,
    "transport": _read_transport,
    "requires": make_table_reader({"bins": read_text_list, "env": read_text_list}),
    "context": make_table_reader({"passthrough": read_flag}),
    "meta": make_table_reader({"author": read_text, "license": read_text}),
    "outbound_bindings": _read_bindings,
    "mcp_servers": _skip_mcp_servers,
}

FORMAT = ManifestFormat(
    dialect="nexo", names=(_FILE_NAME, _FORMER_FILE_NAME), read=read, read_hooks=read_hooks
)
