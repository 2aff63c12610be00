"""Parses and checks `plugin.toml`, the manifest of a nexo extension.

An unknown key is an error. All errors are collected, each with its line and key, and sorted in the
order that the format prescribes (`_ORDER`). Users see the first one, or all of them with `--all`.

A transport other than a child process is valid: the extension is listed and never run. MCP servers
that the manifest declares become extensions of their own (`mcp_servers`). An invalid `.mcp.json`
beside the manifest is a warning, not an error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from exthost import semver
from exthost._version import __version__
from exthost.dialects.manifest_format import (
    Accepted,
    ManifestFile,
    ManifestFormat,
    Rejected,
    Remark,
    Verdict,
    manifest_error,
)
from exthost.dialects.nexo.mcp_servers import (
    JsonMistake,
    McpServer,
    make_spec,
    read_servers,
    replace_placeholders,
    servers_from_json,
    url,
)
from exthost.documents.problems import WRONG_VALUE, Place, Problem, Problems, format_path
from exthost.documents.readers import (
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
from exthost.documents.toml_positions import KeyPath, find_line
from exthost.documents.toml_text import parse_toml
from exthost.empty_mapping import empty_mapping
from exthost.errors import ManifestError
from exthost.offer import Tool
from exthost.spec import Requires, Spec

__all__ = ["FORMAT", "Manifest", "RESERVED_IDS"]

RESERVED_IDS = frozenset(
    {"agent", "browser", "core", "email", "heartbeat", "memory", "telegram", "whatsapp"}
)

_ID = re.compile(r"[a-z][a-z0-9_-]*")
_CAPABILITY = re.compile(r"[a-z][a-z0-9_]*")
_MAX_NAME_CHARS = 64
_MAX_DESCRIPTION_CHARS = 512
_MCP_JSON = ".mcp.json"

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
class Manifest:
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
    mcp_servers: tuple[McpServer, ...] = ()


def read(file: ManifestFile) -> Verdict:
    """Return the extension that this plugin.toml describes."""
    document, source = _parse_file(file)
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
        return Rejected(_make_errors(file, problems, id))
    warnings: tuple[Remark, ...] = ()
    if "mcp_servers" not in document:
        servers, warnings = _read_sidecar(file, id)
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
        tools=tuple(Tool(name, input_schema={}) for name in capabilities.get("tools", ())),
        declared_hooks=tuple(capabilities.get("hooks", ())),
        unrunnable=transport.unrunnable,
        manifest=Manifest(
            name=plugin.get("name", ""),
            description=plugin.get("description", ""),
            transport=transport.kind,
            passthrough=context.get("passthrough", False),
            author=meta.get("author", ""),
            license=meta.get("license", ""),
            outbound_bindings=checked.get("outbound_bindings") or empty_mapping(),
            mcp_servers=servers,
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


def _parse_file(file: ManifestFile) -> tuple[dict[str, Any], str]:
    try:
        source = file.data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = file.data.count(b"\n", 0, error.start) + 1
        raise manifest_error(file, f"line {line} is not UTF-8 text", line=line) from None
    source = source.removeprefix("\ufeff")
    try:
        return parse_toml(source), source
    except RecursionError:
        raise manifest_error(file, "it is nested too deep") from None
    except ValueError as error:  # TOMLDecodeError, or an integer of more than 4300 digits
        match = re.search(r"line (\d+)", str(error))
        line = int(match[1]) if match else source.count("\n") + 1
        help = "mend the line named; https://toml.io shows the notation"
        raise manifest_error(file, f"not valid TOML: {error}", line=line, help=help) from None


def _make_errors(file: ManifestFile, problems: Problems, id: str) -> tuple[ManifestError, ...]:
    """Return the problems as errors, in the order of `_ORDER`, then by line."""
    lines = problems.lines()

    def sort_key(problem: Problem) -> tuple[int, int]:
        for position, start in enumerate(_ORDER):
            # A section that is missing, or is not a table, is sorted as its first key.
            if problem.path[: len(start)] == start or problem.path == start[:1]:
                return position, find_line(lines, problem.path)
        return len(_ORDER), find_line(lines, problem.path)

    return tuple(
        manifest_error(
            file,
            f"{format_path(problem.path)}: {problem.text}" if problem.path else problem.text,
            key=format_path(problem.path),
            line=find_line(lines, problem.path),
            extension=id,
            help=problem.help,
        )
        for problem in sorted(problems.items, key=sort_key)
    )


def _read_sidecar(file: ManifestFile, id: str) -> tuple[tuple[McpServer, ...], tuple[Remark, ...]]:
    """Return the MCP servers of the `.mcp.json` beside the manifest, or a warning about it."""
    try:
        data = file.read_sibling(_MCP_JSON)
    except ManifestError as error:
        return (), (Remark(f"it is left out: {error.message}", _MCP_JSON),)
    if data is None:
        return (), ()
    try:
        return servers_from_json(data, id), ()
    except JsonMistake as mistake:
        return (), (Remark(f"it is left out: {mistake}", _MCP_JSON, mistake.line),)


def read_hooks(file: ManifestFile) -> Spec:
    """Return what can be read of the hooks of a plugin.toml that has a mistake. A misspelt section
    with a list of hooks counts."""
    spec = Spec(id=file.folder_name, argv=(), dialect="nexo")
    try:
        document, _ = _parse_file(file)
    except ManifestError:
        return replace(spec, has_unknown_hooks=True)
    sections = [section for section in document.values() if isinstance(section, Mapping)]
    plugin = document.get("plugin")
    id = plugin.get("id") if isinstance(plugin, Mapping) else None
    hooks = [hook for section in sections for hook in _as_list(section.get("hooks", []))]
    return replace(
        spec,
        id=id if isinstance(id, str) and _ID.fullmatch(id) else spec.id,
        declared_hooks=tuple(hook for hook in hooks if isinstance(hook, str)),
        has_unknown_hooks=not all(isinstance(hook, str) for hook in hooks),
        manifest=Manifest(),
    )


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


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
    if not _ID.fullmatch(checked) or len(checked) > _MAX_NAME_CHARS:
        rule = f"a letter, then letters, digits, _ and -, all lower case, up to {_MAX_NAME_CHARS}"
        place.add_problem(WRONG_VALUE, f"{quote_text(checked)} is no id: {rule}")
        return None
    if checked in RESERVED_IDS:
        reserved = ", ".join(sorted(RESERVED_IDS))
        place.add_problem(
            WRONG_VALUE, f"{checked!r} is reserved for the host", f"reserved are {reserved}"
        )
        return None
    return checked


def _read_version(value: Any, place: Place) -> str | None:
    checked = read_text(value, place)
    if checked is not None and not semver.is_version(checked):
        help = "write it like 1.2.3 or 1.2.3-beta.1 (https://semver.org)"
        place.add_problem(WRONG_VALUE, f"{quote_text(checked)} is no semantic version", help)
        return None
    return checked


def _read_description(value: Any, place: Place) -> str | None:
    if not isinstance(value, str):
        place.add_problem(WRONG_VALUE, f"must be text, and is {describe_type(value)}")
        return None
    if len(value) > _MAX_DESCRIPTION_CHARS:
        rule = f"must not be longer than {_MAX_DESCRIPTION_CHARS} characters"
        place.add_problem(WRONG_VALUE, f"{rule}, and has {len(value)}")
        return None
    return value


def _read_integer(value: Any, place: Place) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        place.add_problem(WRONG_VALUE, f"must be a whole number, and is {describe_type(value)}")
        return None
    return value


_PLUGIN: Mapping[str, Reader] = {
    "id": _read_id,
    "version": _read_version,
    "name": read_text,
    "description": _read_description,
    "min_agent_version": _read_version,
    "priority": _read_integer,
}


def _read_names(value: Any, place: Place) -> tuple[str, ...]:
    if not isinstance(value, list):
        return read_text_list(value, place) or ()
    names: dict[str, None] = {}
    rule = f"a letter, then letters, digits and _, all lower case, up to {_MAX_NAME_CHARS}"
    for index, item in enumerate(value):
        item_place = place.at(index)
        name = read_text(item, item_place)
        if name is None:
            continue
        if not _CAPABILITY.fullmatch(name) or len(name) > _MAX_NAME_CHARS:
            item_place.add_problem(WRONG_VALUE, f"{quote_text(name)} is no name: {rule}")
        elif name in names:
            item_place.add_problem(WRONG_VALUE, f"{name!r} is there twice", "keep one")
        names[name] = None
    return tuple(names)


_CAPABILITIES: Mapping[str, Reader] = dict.fromkeys(
    ("tools", "hooks", "channels", "providers", "pollers"), _read_names
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
    "http": {"url": url},
}


def _read_transport(value: Any, place: Place) -> _Transport | None:
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table, and is {describe_type(value)}")
        return None
    if "kind" in value and "type" in value:
        place.at("type").add_problem(WRONG_VALUE, "says the same as `kind`", "keep `kind`")
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
    fields = read_table({k: v for k, v in value.items() if k != kind_key}, place, keys)
    required_key = next(iter(keys))
    if required_key not in value:
        place.at(required_key).add_problem(WRONG_VALUE, f"is missing: {kind} needs it")
    if kind != "stdio":
        why = f"its transport is {kind}: it runs by itself and is not started from here"
        return _Transport(kind, unrunnable=why)
    return _Transport(kind, (fields.get("command") or "", *(fields.get("args") or ())))


def _read_bindings(value: Any, place: Place) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        place.add_problem(
            WRONG_VALUE, f"must be a table of channel and accounts, and is {describe_type(value)}"
        )
        return empty_mapping()
    bindings = {
        channel: read_text_list(accounts, place.at(channel)) for channel, accounts in value.items()
    }
    return MappingProxyType({channel: accounts or () for channel, accounts in bindings.items()})


def _make_table_reader(keys: Mapping[str, Reader]) -> Reader:
    """Return a reader of a table with these keys, which leaves out keys without a valid value."""

    def read(value: Any, place: Place) -> dict[str, Any]:
        return {k: v for k, v in read_table(value, place, keys).items() if v is not None}

    return read


def _skip_mcp_servers(value: Any, place: Place) -> None:
    """Ignore `mcp_servers` here. `read` parses them later, because their names contain the id."""


_SECTIONS: Mapping[str, Reader] = {
    "plugin": _read_plugin,
    "capabilities": _read_capabilities,
    "transport": _read_transport,
    "requires": _make_table_reader({"bins": read_text_list, "env": read_text_list}),
    "context": _make_table_reader({"passthrough": read_flag}),
    "meta": _make_table_reader({"author": read_text, "license": read_text}),
    "outbound_bindings": _read_bindings,
    "mcp_servers": _skip_mcp_servers,
}

FORMAT = ManifestFormat(dialect="nexo", names=("plugin.toml",), read=read, read_hooks=read_hooks)
