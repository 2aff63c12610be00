"""Parses the MCP servers that a nexo manifest, or a `.mcp.json` beside it, declares.

    [mcp_servers.files]                        # in plugin.toml
    command = "${EXTENSION_ROOT}/server"

    {"mcpServers": {"files": {"command": "${EXTENSION_ROOT}/server"}}}    in .mcp.json

Parsing returns `DeclaredServer` values whose texts still contain placeholders such as
`${EXTENSION_ROOT}`. `replace_placeholders` replaces them, and `make_spec` returns the spec of a
server (its command and settings), with which the host runs it as an extension of its own.

An unknown key in a manifest is an error. In a `.mcp.json` it is ignored, because other programs use
the same file and have their own keys.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from exthost.model.documents.problems import WRONG_VALUE, Place, Problems, format_path
from exthost.model.documents.readers import (
    Reader,
    describe_type,
    find_nearest,
    quote_text,
    read_any_text,
    read_any_text_list,
    read_flag,
    read_table,
    read_text,
    read_variables,
)
from exthost.model.documents.remote_server import bridge_arguments
from exthost.model.documents.settings import resolve_path
from exthost.model.empty_mapping import empty_mapping
from exthost.model.spec import Requires, Spec

_MAX_NAME_CHARS = 32
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_URL = re.compile(r"(?i:https?)://[^/\s]")

# A URL may begin with a placeholder, whose value then contains the scheme.
_PLACEHOLDER = "${"

_TRANSPORTS = ("stdio", "streamable_http", "sse", "auto")

# Names that other programs use for a transport in a `.mcp.json`.
_TRANSPORT_ALIASES = {"http": "streamable_http", "streamable-http": "streamable_http"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredServer:
    """One declared server. `key` is its id in the host: `{extension}.{name}`."""

    name: str
    key: str
    transport: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    log_level: str | None = None
    context_passthrough: bool | None = None


def _read_transport(value: Any, place: Place) -> str | None:
    """Read the name of a transport."""
    if isinstance(value, str) and value in _TRANSPORTS:
        return value
    near = find_nearest(value, frozenset(_TRANSPORTS)) if isinstance(value, str) else ""
    guess = f'; did you mean "{near}"?' if near else ""
    known = ", ".join(f'"{transport}"' for transport in _TRANSPORTS)
    place.add_problem(WRONG_VALUE, f"must be one of {known}{guess}")
    return None


def read_url(value: Any, place: Place) -> str | None:
    """Read the address of a server: http or https, with a host."""
    text = read_text(value, place)
    if text is None or text.startswith(_PLACEHOLDER) or _URL.match(text):
        return text
    place.add_problem(
        WRONG_VALUE, f"{quote_text(text)} is not an http or https URL", "write https://host/path"
    )
    return None


# A reader checks one value, and adds a problem to `place` (the value's place in the file) for a
# mistake.
_READERS: Mapping[str, Reader] = {
    "transport": _read_transport,
    "command": read_text,
    "args": read_any_text_list,
    "env": read_variables,
    "cwd": read_text,
    "url": read_url,
    "headers": read_variables,
    "log_level": read_any_text,
    "context_passthrough": read_flag,
}

# The keys that only a server over stdio, or only a remote server, may have.
_STDIO_ONLY = ("command", "args", "env", "cwd")
_REMOTE_ONLY = ("url", "headers")


def read_servers(value: Any, place: Place, extension: str) -> tuple[DeclaredServer, ...]:
    """Return the `mcp_servers` of a manifest. Mistakes are recorded at their place."""
    if isinstance(value, Mapping):
        for name in value:
            if isinstance(name, str) and name.isprintable() and not _NAME.fullmatch(name):
                rule = "a letter, then letters, digits, _ and -, all lower case"
                place.at(name).add_problem(
                    WRONG_VALUE, f"{quote_text(name)} is not the name of a server: {rule}"
                )
    return _read_server_table(value, place, extension)


def _read_server_table(value: Any, place: Place, extension: str) -> tuple[DeclaredServer, ...]:
    """Return the valid servers of a table, and add a problem to `place` for each mistake."""
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table by name, not {describe_type(value)}")
        return ()
    servers = (_read_server(name, item, place.at(name), extension) for name, item in value.items())
    return tuple(server for server in servers if server is not None)


class JsonMistake(Exception):
    """A `.mcp.json` is invalid, and therefore ignored. `line` is 0 if the line is unknown."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


def servers_from_json(data: bytes, extension: str) -> tuple[DeclaredServer, ...]:
    """Return the servers in a `.mcp.json`. Raises JsonMistake. Names may have any form, because
    other programs use the file, too."""
    try:
        source = data.decode("utf-8-sig")
        document = json.loads(source)
    except RecursionError:
        raise JsonMistake("it is nested too deep") from None
    except json.JSONDecodeError as error:
        raise JsonMistake(f"it is not JSON: {error}", error.lineno) from None
    except ValueError as error:
        raise JsonMistake(f"it is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise JsonMistake("it is not an object", 1)
    declared = document.get("mcpServers", document.get("mcp_servers"))
    if declared is None:
        raise JsonMistake("it has neither `mcpServers` nor `mcp_servers`", 1)
    problems = Problems()
    place = Place(problems).at("mcpServers" if "mcpServers" in document else "mcp_servers")
    servers = _read_server_table(_rename_keys(declared), place, extension)
    if problems.items:
        first = problems.items[0]
        line = _line_of(source, first.path)
        raise JsonMistake(f"{format_path(first.path)}: {first.text}", line)
    return servers


def _line_of(source: str, path: Sequence[Any]) -> int:
    """Return the line of the last key of this path that occurs in the source. Each key is searched
    for after the previous one."""
    position = 0
    for key in path:
        key_position = source.find(json.dumps(key), position) if isinstance(key, str) else -1
        if key_position >= 0:
            position = key_position
    return source.count("\n", 0, position) + 1


def _rename_keys(declared: Any) -> Any:
    """Return the servers of a `.mcp.json` as a manifest would declare them: with the known keys
    only, and the transport under its name in a manifest. Disabled servers are left out."""
    if not isinstance(declared, dict):
        return declared
    renamed = {}
    for name, item in declared.items():
        if isinstance(item, dict):
            if item.get("disabled") is True:
                continue
            transport = item.get("transport", item.get("type"))
            item = {key: value for key, value in item.items() if key in _READERS}
            if isinstance(transport, str):
                item["transport"] = _TRANSPORT_ALIASES.get(transport, transport)
        renamed[name] = item
    return renamed


def make_spec(server: DeclaredServer, folder: str, requires: Requires) -> Spec:
    """Return the spec of a server whose placeholders are replaced. It runs in `folder`, the base of
    a relative cwd, and requires what its manifest's extension requires."""
    remote = server.transport != "stdio"
    declared = {"log_level": server.log_level, "context_passthrough": server.context_passthrough}
    argv, env, problem = (server.command, *server.args), server.env, ""
    if remote:
        # A remote server runs as a local process, too: a bridge that connects to it.
        values = {"url": server.url, "headers": server.headers, "transport": server.transport}
        argv, env, problem = bridge_arguments(values)
    return Spec(
        id=server.key,
        argv=argv,
        source="http" if remote else "process",
        dialect="mcp",
        env=env,
        cwd=resolve_path(folder, server.cwd or "."),
        requires=requires,
        options=MappingProxyType({key: item for key, item in declared.items() if item is not None}),
        unrunnable=problem,
    )


def _read_server(name: Any, value: Any, place: Place, extension: str) -> DeclaredServer | None:
    """Return one server; None if its name or its transport cannot be used."""
    if not isinstance(name, str) or not name.strip() or len(name) > _MAX_NAME_CHARS:
        place.add_problem(
            WRONG_VALUE, f"a server's name must have 1 to {_MAX_NAME_CHARS} characters"
        )
        return None
    if not name.isprintable():
        place.add_problem(WRONG_VALUE, "the name of a server cannot contain control characters")
        return None
    fields = read_table(value, place, _READERS)
    if not isinstance(value, Mapping):
        return None
    transport = fields.get("transport") if "transport" in value else _infer_transport(value, place)
    if transport is None:
        return None
    _check_keys_of_transport(value, transport, place)
    declared = {
        key: item for key, item in fields.items() if item is not None and key != "transport"
    }
    for key in ("env", "headers"):
        if key in declared:
            declared[key] = MappingProxyType(declared[key])
    return DeclaredServer(name=name, key=f"{extension}.{name}", transport=transport, **declared)


def _infer_transport(value: Mapping[str, Any], place: Place) -> str | None:
    """Return the transport of a server that names none, by its other keys."""
    if "command" in value:
        return "stdio"
    if "url" in value:
        return "auto"
    place.add_problem(WRONG_VALUE, "has neither `command` nor `url`")
    return None


def _check_keys_of_transport(value: Mapping[str, Any], transport: str, place: Place) -> None:
    """Check that a server has the key that its transport needs, and none of another transport."""
    is_stdio = transport == "stdio"
    needed = "command" if is_stdio else "url"
    not_allowed = _REMOTE_ONLY if is_stdio else _STDIO_ONLY
    if needed not in value:
        place.add_problem(
            WRONG_VALUE, f"a server over {transport} needs `{needed}`", f"add {needed}"
        )
    for key in not_allowed:
        if key in value:
            place.at(key).add_problem(
                WRONG_VALUE, f"is not allowed for a server with transport {transport}"
            )


def replace_placeholders(
    server: DeclaredServer, *, root: str, extension: str, version: str, host_version: str
) -> DeclaredServer:
    """Return the server with its placeholders replaced."""
    values = {
        "${EXTENSION_ROOT}": root,
        "${EXTENSION_ID}": extension,
        "${EXTENSION_VERSION}": version,
        "${AGENT_VERSION}": host_version,
    }

    def fill(declared: str) -> str:
        for placeholder, value in values.items():
            declared = declared.replace(placeholder, value)
        return declared

    def fill_all(declared: Mapping[str, str]) -> Mapping[str, str]:
        return MappingProxyType({key: fill(value) for key, value in declared.items()})

    return replace(
        server,
        command=fill(server.command),
        args=tuple(fill(arg) for arg in server.args),
        env=fill_all(server.env),
        cwd=None if server.cwd is None else fill(server.cwd),
        url=fill(server.url),
        headers=fill_all(server.headers),
    )
