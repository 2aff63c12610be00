"""Converts the MCP servers in the config of another program to the form of exthost's own config.

Most programs have `{"mcpServers": …}` in a JSON file. Some use another key: VS Code `servers`, Zed
`context_servers`, opencode `mcp`, and Codex `mcp_servers` in TOML. Some also have other names for
the settings of a server.

The config is read leniently. Unknown keys are ignored with a note, a number is converted to text,
null means that the key is not set, and a disabled server stays disabled. A variable whose whole
value is `${NAME}` refers to the host's variable of that name. Other placeholders stay as they are,
with a note. The result has the form of `[mcp_servers.NAME]`, which `config_section` reads:

    {"mcpServers": {"a": {"command": "prog", "env": {"KEY": "${TOKEN}"}, "timeout": 60}}}
    {"a": {"command": "prog", "env": {"KEY": {"from": "TOKEN"}}, "limits": {"call": "60s"}}}
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any

from exthost.model.documents.units import format_number
from exthost.model.names import nearest, variable_name

# The keys of a server that are read; all others are ignored with a note.
_SERVER_KEYS = frozenset(
    (
        *("command", "args", "env", "cwd", "url", "headers", "token", "type", "transport"),
        *("disabled", "enabled"),
    )
)

# Why a key that exthost knows is ignored all the same.
_REASONS = {"envFile": "its file cannot be read"}

# The names that other programs have for some of these keys.
_KEY_ALIASES = {
    "serverUrl": "url",
    "httpUrl": "url",
    "http_headers": "headers",
    "environment": "env",
}

# Codex's names for two of exthost's limits, in seconds.
_LIMIT_ALIASES = {"startup_timeout_sec": "handshake", "tool_timeout_sec": "call"}

# The keys under which other programs list the tools of a server that may be used, and those that
# must not be used.
_ALLOWED_TOOLS = ("includeTools", "enabled_tools", "enabledTools", "available_tools", "tools")
_DENIED_TOOLS = ("excludeTools", "disabled_tools", "disabledTools", "excludedTools")

# The settings of other programs that list servers which are switched off, and those which are on.
_DISABLED_SERVERS = ("disabledMcpServers", "disabledMcpjsonServers", "excludeMCPServers")
_ENABLED_SERVERS = ("allowMCPServers",)

# A larger `timeout` is in milliseconds.
_MAX_TIMEOUT_SECONDS = 3600

# The number of ignored settings that get a note each; the others get one note together.
_MAX_NAMED_SETTINGS = 5

# Keys with values that change nothing for a server that is run as a process.
_IGNORED_VALUES = {"type": ("local", "custom"), "source": ("custom",)}

# A value that is one placeholder: `${NAME}`, `${input:id}`, or `$NAME` as in Gemini CLI. Without
# braces the name must be in upper case, because a password may begin with `$`.
_VARIABLE = re.compile(
    r"\$(?:\{(?:(?:env:)?([A-Za-z_]\w*)|input:([\w.-]+))\}|([A-Z_][A-Z0-9_]*))", re.ASCII
)
_BEARER = "Bearer "
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")


def read_json_servers(document: dict[str, Any], section: str) -> tuple[str, Any, tuple[str, ...]]:
    """Return the name and the value of a section of exthost's config, and notes about what was
    ignored. `section` is the key of `document` that has the servers."""
    notes = _note_ignored_keys([key for key in document if key != section])
    servers = get_servers(document, section)
    if not isinstance(servers, dict):
        return "mcp_servers", servers, tuple(notes)
    is_disabled = _find_disabled_servers(document)
    converted = {}
    for name, item in servers.items():
        if isinstance(item, dict):
            server, server_notes = _convert_server(name, item, is_disabled=is_disabled(name))
            notes += server_notes
            if server is not None:
                converted[name] = server
        else:
            converted[name] = item  # `config_section` reports that it is not an object
    return "mcp_servers", converted, tuple(notes)


def _convert_server(
    name: str, item: dict[str, Any], *, is_disabled: bool
) -> tuple[dict[str, Any] | None, list[str]]:
    """Return one server in the form of exthost's config, and notes about it. The server is None if
    exthost cannot use it."""
    renamed = _rename_keys(item)
    tools = _read_tool_filters(renamed)
    limits = _read_limits(renamed)
    if is_disabled:
        renamed["disabled"] = True
    unknown_keys = [key for key in renamed if key not in _SERVER_KEYS]
    notes = [
        f"{name}.{key}: {_REASONS.get(key, 'unknown to exthost')}, and ignored"
        for key in unknown_keys
    ]
    server = {
        key: converted
        for key, value in renamed.items()
        if key in _SERVER_KEYS and (converted := _convert_value(value, key)) is not None
    }
    if "command" not in server and "url" not in server:
        misspelt_keys = {key for key in unknown_keys if nearest(key, ("command", "url"))}
        if not misspelt_keys and server.get("disabled") is not True:
            # Such as a server that an extension of the editor starts.
            notes.append(f"{name}: has neither command nor url, and is ignored")
            return None, notes
        # `config_section` reports the misspelt key.
        server |= {key: renamed[key] for key in misspelt_keys}
    if limits:
        server["limits"] = limits
    if tools:
        server["tools"] = tools
    _move_token(server)
    if "command" in server or "url" in server:
        notes += _note_placeholders(name, server)
    return server, notes


def _read_limits(item: dict[str, Any]) -> dict[str, Any]:
    """Take the time limits of another program out of a server, and return them as the setting
    `limits`. A `timeout` that is not a number stays, and is noted as an unknown key."""
    limits = {limit: item.pop(key) for key, limit in _LIMIT_ALIASES.items() if key in item}
    timeout = _read_timeout(item.get("timeout"))
    if timeout is not None:
        del item["timeout"]
        limits.setdefault("call", timeout)
    return limits


def _read_tool_filters(item: dict[str, Any]) -> dict[str, list[str]]:
    """Take the tool filters of another program out of a server, and return them as the setting
    `tools`. A filter of an unknown form stays, and is noted as an unknown key."""
    filters: dict[str, list[str]] = {}
    for key in (*_ALLOWED_TOOLS, *_DENIED_TOOLS):
        value = item.get(key)
        if key == "tools" and isinstance(value, dict):  # name → whether it may be used
            off = [name for name, is_on in value.items() if is_on is False]
            if off and all(isinstance(is_on, bool) for is_on in value.values()):
                del item[key]
                filters.setdefault("deny", []).extend(off)
        elif isinstance(value, list) and all(isinstance(name, str) for name in value):
            del item[key]
            # Gemini CLI allows `tool(arguments)`, of which the name counts.
            names = [name.partition("(")[0].strip() for name in value]
            kind = "allow" if key in _ALLOWED_TOOLS else "deny"
            filters.setdefault(kind, []).extend(name for name in names if name)
    if filters.get("allow") == ["*"]:
        del filters["allow"]
    return filters


def _find_disabled_servers(document: dict[str, Any]) -> Callable[[str], bool]:
    """Return a function that takes the name of a server, and returns whether the user has disabled
    it by a setting beside the servers."""
    disabled = _names(document, *_DISABLED_SERVERS)
    enabled = _names(document, *_ENABLED_SERVERS)  # if there are any, all others are disabled
    settings = document.get("mcp")  # of Gemini CLI
    if isinstance(settings, dict):
        disabled |= _names(settings, "excluded")
        enabled |= _names(settings, "allowed")
    return lambda name: name in disabled or (bool(enabled) and name not in enabled)


def _names(settings: dict[str, Any], *keys: str) -> set[str]:
    """Return the names in the lists under these keys."""
    lists = [settings.get(key) for key in keys]
    return {name for names in lists if isinstance(names, list) for name in map(str, names)}


def get_servers(document: dict[str, Any], section: str) -> Any:
    """Return the servers in a section of a document, by name, or whatever is in their place."""
    servers = document[section]
    if section == "mcp" and isinstance(servers, dict) and isinstance(servers.get("servers"), dict):
        servers = servers["servers"]  # VS Code's settings.json has `mcp.servers`
    return servers


def _read_timeout(value: Any) -> str | None:
    """Return the key `timeout` of a server as a limit of exthost, or None if it is not a number.
    Some programs have seconds in it and others milliseconds; none allows more than an hour in
    seconds."""
    if type(value) not in (int, float) or not 0 < value < math.inf:
        return None
    return format_number(value) + ("s" if value <= _MAX_TIMEOUT_SECONDS else "ms")


def _note_ignored_keys(keys: list[str]) -> list[str]:
    """Return notes about these settings of the other program, which are not about MCP servers."""
    notes = [f"{key}: not about MCP servers, and ignored" for key in keys[:_MAX_NAMED_SETTINGS]]
    more = len(keys) - _MAX_NAMED_SETTINGS
    if more > 0:
        notes.append(f"{more} more settings: not about MCP servers, and ignored")
    return notes


def _rename_keys(item: dict[str, Any]) -> dict[str, Any]:
    """Return a server under exthost's keys. `command` may be a list, or an object with a path."""
    renamed = {_KEY_ALIASES.get(key, key): value for key, value in item.items()}
    for key, values in _IGNORED_VALUES.items():
        if renamed.get(key) in values:
            del renamed[key]
    command = renamed.get("command")
    if isinstance(command, list) and len(command) > 0 and renamed.get("args") is None:
        renamed["command"] = _number_to_text(command[0])
        renamed["args"] = command[1:]
    elif isinstance(command, dict):
        renamed["command"] = command.get("path")
        renamed |= {key: command[key] for key in ("args", "env") if command.get(key) is not None}
    inherited, env = renamed.pop("env_vars", None), renamed.get("env") or {}
    # Codex lists the host's variables that a server inherits in `env_vars`.
    if isinstance(inherited, list) and isinstance(env, dict):
        # An entry may be a table, as in { name = "TOKEN", source = "local" }.
        names = [item.get("name") if isinstance(item, dict) else item for item in inherited]
        references = {name: {"from": name} for name in names if isinstance(name, str)}
        renamed["env"] = {**references, **env}
    # Codex names the host's variables that contain the token and the values of headers.
    token, headers = renamed.pop("bearer_token_env_var", None), renamed.get("headers") or {}
    if isinstance(token, str):
        renamed["token"] = {"from": token}
    named_headers = renamed.pop("env_http_headers", None)
    if isinstance(named_headers, dict) and isinstance(headers, dict):
        references = {name: {"from": value} for name, value in named_headers.items()}
        renamed["headers"] = {**headers, **references}
    return renamed


def _convert_value(value: Any, key: str) -> Any:
    """Return the value of a key with numbers and booleans inside it as text, and without nulls."""
    if isinstance(value, list):
        return [_number_to_text(item) for item in value]
    if isinstance(value, dict):
        texts = {name: _number_to_text(item) for name, item in value.items() if item is not None}
        return (
            {name: _resolve_reference(item, name, key) for name, item in texts.items()}
            if key in ("env", "headers")
            else texts
        )
    return value


def _resolve_reference(value: Any, name: str, table: str) -> Any:
    """Return the value of a variable or a header. `${NAME}` or `$NAME` becomes a reference to the
    host's variable NAME. `${input:id}` becomes a reference to the host's variable of the same name
    as the variable, or, in a header, to the one that is named after the id."""
    named = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    if named is None:
        return value
    variable = named[1] or named[3]
    return {"from": variable or (name if table == "env" else variable_name(named[2]))}


def _move_token(server: dict[str, Any]) -> None:
    """Make a header `Authorization: Bearer ${NAME}` the setting `token`, a reference to the host's
    variable NAME."""
    headers = server.get("headers")
    if "token" in server or not isinstance(headers, dict):
        return
    for name, value in headers.items():
        if name.lower() == "authorization" and isinstance(value, str):
            token = _resolve_reference(value.removeprefix(_BEARER), name, "headers")
            if value.startswith(_BEARER) and isinstance(token, dict):
                server["token"] = token
                server["headers"] = {key: headers[key] for key in headers if key != name}
                return


def _note_placeholders(server: str, item: dict[str, Any]) -> list[str]:
    """Return a note for each place with placeholders that are not replaced."""
    places = {key: item.get(key) for key in ("command", "cwd", "url")}
    args, env, headers = item.get("args"), item.get("env"), item.get("headers")
    if isinstance(args, list):
        places |= {f"args.{number}": value for number, value in enumerate(args)}
    if isinstance(env, dict):
        places |= {f"env.{name}": value for name, value in env.items()}
    if isinstance(headers, dict):
        places |= {f"headers.{name}": value for name, value in headers.items()}
    return [
        f"{server}.{place}: {placeholder[0]} is not filled in here"
        for place, value in places.items()
        if isinstance(value, str) and (placeholder := _PLACEHOLDER.search(value))
    ]


def _number_to_text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, bool | int | float) else value
