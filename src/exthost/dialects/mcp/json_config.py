"""Converts the MCP servers in the config of another program to the form of exthost's own config.

Most programs have `{"mcpServers": …}` in a JSON file. Some use another key: VS Code `servers`, Zed
`context_servers`, opencode `mcp`, and Codex `mcp_servers` in TOML. Some also have other names for
the settings of a server.

The config is read leniently. Unknown keys are ignored with a note, a number is converted to text,
null means that the key is not set, and a disabled server stays disabled. A variable whose whole
value is `${NAME}` refers to the host's variable of that name. Other placeholders stay as they are,
with a note. The result has the form of `[mcp_servers.NAME]`, which `config_section` reads.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from exthost.model.names import nearest, variable_name

# The keys of a server that are read; all others are ignored with a note.
_SERVER_KEYS = frozenset(
    (
        *("command", "args", "env", "cwd", "url", "headers", "token", "type", "transport"),
        *("disabled", "enabled"),
    )
)

# The names that other programs have for some of these keys.
_KEY_ALIASES = {
    "serverUrl": "url",
    "httpUrl": "url",
    "http_headers": "headers",
    "environment": "env",
}

# Codex's names for two of exthost's limits, in seconds.
_LIMIT_ALIASES = {"startup_timeout_sec": "handshake", "tool_timeout_sec": "call"}

# The names that other programs have for the tools of a server that may be used, and for those that
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

_VARIABLE = re.compile(r"\$\{(?:(?:env:)?([A-Za-z_]\w*)|input:([\w.-]+))\}", re.ASCII)
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")


def read_json_servers(document: dict[str, Any], section: str) -> tuple[str, Any, tuple[str, ...]]:
    """Return the name and the value of a section of exthost's config, and notes about what was
    ignored. `section` is the key of `document` that has the servers."""
    notes = _note_ignored_keys([key for key in document if key != section])
    servers = get_servers(document, section)
    if not isinstance(servers, dict):
        return "mcp_servers", servers, tuple(notes)
    converted = {}
    is_off = _find_switched_off(document)
    for name, item in servers.items():
        if isinstance(item, dict):
            renamed = _rename_keys(item)
            tools = _read_tool_filters(renamed)
            if is_off(name):
                renamed["disabled"] = True
            limits = {
                limit: renamed.pop(key) for key, limit in _LIMIT_ALIASES.items() if key in renamed
            }
            if (timeout := _read_timeout(renamed.get("timeout"))) is not None:
                del renamed["timeout"]
                limits.setdefault("call", timeout)
            unknown = [key for key in renamed if key not in _SERVER_KEYS]
            notes += [f"{name}.{key}: unknown here, and left alone" for key in unknown]
            item = {
                key: _convert_value(value, key)
                for key, value in renamed.items()
                if key in _SERVER_KEYS
            }
            item = {key: value for key, value in item.items() if value is not None}
            if "command" not in item and "url" not in item:
                misspelt = {key for key in unknown if nearest(key, ("command", "url"))}
                if not misspelt and item.get("disabled") is not True:
                    # Such as a server that an extension of the editor starts.
                    notes.append(f"{name}: has neither command nor url, and is ignored")
                    continue
                # `config_section` reports the misspelt key.
                item |= {key: renamed[key] for key in misspelt}
            if limits:
                item["limits"] = limits
            if tools:
                item["tools"] = tools
            if "command" in item or "url" in item:
                notes += _note_placeholders(name, item)
        converted[name] = item
    return "mcp_servers", converted, tuple(notes)


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


def _find_switched_off(document: dict[str, Any]) -> Callable[[str], bool]:
    """Return a function that says whether the user has disabled a server by a setting beside
    the servers."""
    off = _names(document, *_DISABLED_SERVERS)
    on = _names(document, *_ENABLED_SERVERS)
    settings = document.get("mcp")  # of Gemini CLI
    if isinstance(settings, dict):
        off |= _names(settings, "excluded")
        on |= _names(settings, "allowed")
    return lambda name: name in off or (bool(on) and name not in on)


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


def _read_timeout(value: Any) -> Any:
    """Return the key `timeout` of a server as a limit of exthost, or None if it is not a number.
    Some programs have seconds in it and others milliseconds; none allows more than an hour in
    seconds."""
    if type(value) not in (int, float) or value <= 0:
        return None
    return f"{value:g}s" if value <= _MAX_TIMEOUT_SECONDS else f"{value:g}ms"


def _note_ignored_keys(keys: list[str]) -> list[str]:
    """Return notes about these settings of the other program, which have nothing to do with MCP."""
    notes = [f"{key}: not for us, and left alone" for key in keys[:_MAX_NAMED_SETTINGS]]
    more = len(keys) - _MAX_NAMED_SETTINGS
    return [*notes, f"{more} more settings: not for us, and left alone"] if more > 0 else notes


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
        references = {name: {"from": name} for name in inherited if isinstance(name, str)}
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
    """Return the value of a variable or a header. `${NAME}` becomes a reference to the host's
    variable NAME. `${input:id}` becomes a reference to the host's variable of the same name as the
    variable, or, in a header, to the one that is named after the id."""
    named = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    if named is None:
        return value
    return {"from": named[1] or (name if table == "env" else variable_name(named[2]))}


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
