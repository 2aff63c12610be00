"""`plugin.toml`: what a nexo extension says about itself on disk, to the letter.

Every key of the page is read here and every other one is a mistake. Mistakes are gathered, each
with its line and key, and handed over in the page's own order (`_ORDER`): the first is what people
are shown, all of them with `--all`.

A transport that is not a child process is well-formed and is listed; nothing is run for it.
MCP servers come along as extensions of their own (`mcpservers`); a broken `.mcp.json` costs only
itself: a warning.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from exthost import semver
from exthost._version import __version__
from exthost.dialects.manifest_format import (
    Accepted,
    Found,
    ManifestFormat,
    Rejected,
    Remark,
    Verdict,
    invalid,
)
from exthost.dialects.nexo.mcp_servers import (
    JsonMistake,
    McpServer,
    expanded,
    read_servers,
    servers_from_json,
    spec_of,
    url,
)
from exthost.documents.problems import WRONG_VALUE, Place, Problem, Problems, shown
from exthost.documents.readers import Reader, cut, flag, kind, nearest, table, text, texts, words
from exthost.documents.toml_positions import Path, line_of
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
_SIDECAR = ".mcp.json"

# The first mistake of these is shown first; what stands nowhere here comes after them.
_ORDER: tuple[Path, ...] = (
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
    """What a plugin.toml says beyond what every extension has."""

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


def read(found: Found) -> Verdict:
    """The extension that this plugin.toml describes."""
    document, source = _parsed(found)
    problems = Problems(found.path, source)
    place = Place(problems)
    said = table(document, place, _SECTIONS)
    plugin: dict[str, Any] = said.get("plugin") or {}
    id = plugin.get("id") or ""
    for section in ("plugin", "capabilities", "transport"):
        if section not in document:
            place.at(section).wrong(WRONG_VALUE, f"there is no [{section}]", f"add [{section}]")
    servers = read_servers(document.get("mcp_servers", {}), place.at("mcp_servers"), id)
    if problems.found:
        return Rejected(_errors(found, problems, id))
    warnings: tuple[Remark, ...] = ()
    if "mcp_servers" not in document:
        servers, warnings = _beside(found, id)
    capabilities, transport = said["capabilities"], said["transport"]
    requires = said.get("requires") or {}
    context, meta = said.get("context") or {}, said.get("meta") or {}
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
            outbound_bindings=said.get("outbound_bindings") or empty_mapping(),
            mcp_servers=servers,
            **{name: capabilities.get(name, ()) for name in _CAPABILITIES if name != "tools"},
        ),
    )
    facts = {"root": found.folder, "extension": id, "version": spec.version}
    also = tuple(
        spec_of(expanded(server, host_version=__version__, **facts), found.folder, spec.requires)
        for server in servers
    )
    return Accepted(spec=spec, also=also, warnings=warnings)


def _parsed(found: Found) -> tuple[dict[str, Any], str]:
    try:
        source = found.data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = found.data.count(b"\n", 0, error.start) + 1
        raise invalid(found, f"line {line} is not UTF-8 text", line=line) from None
    source = source.removeprefix("\ufeff")
    try:
        return parse_toml(source), source
    except RecursionError:
        raise invalid(found, "it is nested too deep") from None
    except ValueError as error:  # TOMLDecodeError is one; so is an integer of 5000 digits
        at = re.search(r"line (\d+)", str(error))
        line = int(at[1]) if at else source.count("\n") + 1
        help = "mend the line named; https://toml.io shows the notation"
        raise invalid(found, f"not valid TOML: {error}", line=line, help=help) from None


def _errors(found: Found, problems: Problems, id: str) -> tuple[ManifestError, ...]:
    lines = problems.lines()

    def rank(problem: Problem) -> tuple[int, int]:
        for position, start in enumerate(_ORDER):
            # A section that is missing altogether, or is none, lacks the first of its keys.
            if problem.path[: len(start)] == start or problem.path == start[:1]:
                return position, line_of(lines, problem.path)
        return len(_ORDER), line_of(lines, problem.path)

    return tuple(
        invalid(
            found,
            f"{shown(problem.path)}: {problem.text}" if problem.path else problem.text,
            key=shown(problem.path),
            line=line_of(lines, problem.path),
            extension=id,
            help=problem.help,
        )
        for problem in sorted(problems.found, key=rank)
    )


def _beside(found: Found, id: str) -> tuple[tuple[McpServer, ...], tuple[Remark, ...]]:
    """The servers of a `.mcp.json` beside the manifest, or why they are left out."""
    try:
        data = found.sibling(_SIDECAR)
    except ManifestError as error:
        return (), (Remark(f"it is left out: {error.message}", _SIDECAR),)
    if data is None:
        return (), ()
    try:
        return servers_from_json(data, id), ()
    except JsonMistake as mistake:
        return (), (Remark(f"it is left out: {mistake}", _SIDECAR, mistake.line),)


# -- sections --------------------------------------------------------------------------------


def _plugin(value: Any, place: Place) -> dict[str, Any]:
    read = table(value, place, _PLUGIN)
    if isinstance(value, Mapping):
        for key in ("id", "version"):
            if key not in value:
                place.at(key).wrong(WRONG_VALUE, "is missing", f'add {key} = "…"')
    return {key: item for key, item in read.items() if item is not None}


def _id(value: Any, place: Place) -> str | None:
    said = text(value, place)
    if said is None:
        return None
    if not _ID.fullmatch(said) or len(said) > _MAX_NAME_CHARS:
        rule = f"a letter, then letters, digits, _ and -, all lower case, up to {_MAX_NAME_CHARS}"
        place.wrong(WRONG_VALUE, f"{cut(said)} is no id: {rule}")
        return None
    if said in RESERVED_IDS:
        others = ", ".join(sorted(RESERVED_IDS))
        place.wrong(WRONG_VALUE, f"{said!r} is reserved for the host", f"reserved are {others}")
        return None
    return said


def _version(value: Any, place: Place) -> str | None:
    said = text(value, place)
    if said is not None and not semver.is_version(said):
        help = "write it like 1.2.3 or 1.2.3-beta.1 (https://semver.org)"
        place.wrong(WRONG_VALUE, f"{cut(said)} is no semantic version", help)
        return None
    return said


def _description(value: Any, place: Place) -> str | None:
    if not isinstance(value, str):
        place.wrong(WRONG_VALUE, f"must be text, and is {kind(value)}")
        return None
    if len(value) > _MAX_DESCRIPTION_CHARS:
        most = f"must not be longer than {_MAX_DESCRIPTION_CHARS} characters"
        place.wrong(WRONG_VALUE, f"{most}, and has {len(value)}")
        return None
    return value


def _whole(value: Any, place: Place) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        place.wrong(WRONG_VALUE, f"must be a whole number, and is {kind(value)}")
        return None
    return value


_PLUGIN: Mapping[str, Reader] = {
    "id": _id,
    "version": _version,
    "name": text,
    "description": _description,
    "min_agent_version": _version,
    "priority": _whole,
}


def _names(value: Any, place: Place) -> tuple[str, ...]:
    if not isinstance(value, list):
        return texts(value, place) or ()
    names: dict[str, None] = {}
    rule = f"a letter, then letters, digits and _, all lower case, up to {_MAX_NAME_CHARS}"
    for index, item in enumerate(value):
        here = place.at(index)
        name = text(item, here)
        if name is None:
            continue
        if not _CAPABILITY.fullmatch(name) or len(name) > _MAX_NAME_CHARS:
            here.wrong(WRONG_VALUE, f"{cut(name)} is no name: {rule}")
        elif name in names:
            here.wrong(WRONG_VALUE, f"{name!r} is there twice", "keep one")
        names[name] = None
    return tuple(names)


_CAPABILITIES: Mapping[str, Reader] = dict.fromkeys(
    ("tools", "hooks", "channels", "providers", "pollers"), _names
)


def _capabilities(value: Any, place: Place) -> dict[str, tuple[str, ...]]:
    before = len(place.problems.found)
    read = table(value, place, _CAPABILITIES)
    if not any(read.values()) and len(place.problems.found) == before:
        lists = ", ".join(_CAPABILITIES)
        place.wrong(WRONG_VALUE, "offers nothing at all", f"name at least one thing in: {lists}")
    return read


@dataclass(frozen=True, slots=True)
class _Transport:
    kind: str
    argv: tuple[str, ...] = ()
    unrunnable: str = ""


# The keys of each kind; the first is the one that it needs.
_KINDS: Mapping[str, Mapping[str, Reader]] = {
    "stdio": {"command": text, "args": words},
    "nats": {"subject_prefix": text},
    "http": {"url": url},
}


def _transport(value: Any, place: Place) -> _Transport | None:
    if not isinstance(value, Mapping):
        place.wrong(WRONG_VALUE, f"must be a table, and is {kind(value)}")
        return None
    if "kind" in value and "type" in value:
        place.at("type").wrong(WRONG_VALUE, "says the same as `kind`", "keep `kind`")
        return None
    named = "type" if "type" in value else "kind"
    said = value.get(named)
    if named not in value:
        place.at("kind").wrong(WRONG_VALUE, "is missing", 'add kind = "stdio"')
        return None
    if not isinstance(said, str) or said not in _KINDS:
        near = nearest(said, _KINDS) if isinstance(said, str) else ""
        guess = f'; did you mean "{near}"?' if near else ""
        known = ", ".join(f'"{one}"' for one in _KINDS)
        place.at(named).wrong(WRONG_VALUE, f"must be one of {known}{guess}")
        return None
    keys = _KINDS[said]
    read = table({k: v for k, v in value.items() if k != named}, place, keys)
    needed = next(iter(keys))
    if needed not in value:
        place.at(needed).wrong(WRONG_VALUE, f"is missing: {said} needs it")
    if said != "stdio":
        why = f"its transport is {said}: it runs by itself and is not started from here"
        return _Transport(said, unrunnable=why)
    return _Transport(said, (read.get("command") or "", *(read.get("args") or ())))


def _bindings(value: Any, place: Place) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        place.wrong(WRONG_VALUE, f"must be a table of channel and accounts, and is {kind(value)}")
        return empty_mapping()
    read = {channel: texts(accounts, place.at(channel)) for channel, accounts in value.items()}
    return MappingProxyType({channel: said or () for channel, said in read.items()})


def _said(keys: Mapping[str, Reader]) -> Reader:
    def read(value: Any, place: Place) -> dict[str, Any]:
        return {k: v for k, v in table(value, place, keys).items() if v is not None}

    return read


def _later(value: Any, place: Place) -> None:
    """`mcp_servers` are read once the id is known, which is a part of their names."""


_SECTIONS: Mapping[str, Reader] = {
    "plugin": _plugin,
    "capabilities": _capabilities,
    "transport": _transport,
    "requires": _said({"bins": texts, "env": texts}),
    "context": _said({"passthrough": flag}),
    "meta": _said({"author": text, "license": text}),
    "outbound_bindings": _bindings,
    "mcp_servers": _later,
}

FORMAT = ManifestFormat(dialect="nexo", names=("plugin.toml",), read=read)
