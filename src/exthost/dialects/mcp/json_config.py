"""`{"mcpServers": …}`: configs that other programs share, in JSON; Codex's is TOML.

Each program has words of its own: VS Code `servers`, Zed `context_servers`, opencode `mcp`, Codex
`mcp_servers`, and its own names for the members of a server. Such a file is read leniently: unknown
keys are noted and ignored, numbers count as text, null counts as not set, and a disabled server
stays disabled.
`${NAME}` for a whole variable is a reference to a variable of the host; other placeholders that are
still there are noted. The result has the form of `[mcp_servers.NAME]` and is read by that section.
"""

import json
import re
from typing import Any

from exthost.names import nearest

# The keys that are read, with both keys for the address of a server.
_FOREIGN_KEYS = frozenset(
    ("command", "args", "env", "cwd", "url", "headers", "type", "transport", "disabled", "enabled")
)

# What other programs call our keys.
_OTHER_NAMES = {
    "serverUrl": "url",
    "httpUrl": "url",
    "http_headers": "headers",
    "environment": "env",
}

# Codex's names of our limits, in seconds.
_LIMITS = {"startup_timeout_sec": "handshake", "tool_timeout_sec": "call"}

# Settings of another program that are named one by one; the rest is counted.
_MOST_NAMED = 5

# Keys of other programs that mean nothing where a server is run as a process.
_WITHOUT_MEANING = {"type": ("local", "custom"), "source": ("custom",)}

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)\}", re.ASCII)
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")


def read_json_servers(document: dict[str, Any], section: str) -> tuple[str, Any, tuple[str, ...]]:
    """Return the servers as a section of our own config, and notes about what was ignored."""
    notes = _others([key for key in document if key != section])
    servers = document[section]
    if section == "mcp" and isinstance(servers, dict) and isinstance(servers.get("servers"), dict):
        servers = servers["servers"]  # as VS Code has it in its settings
    if not isinstance(servers, dict):
        return "mcp_servers", servers, tuple(notes)
    read = {}
    for called, item in servers.items():
        if isinstance(item, dict):
            renamed = _renamed(item)
            limits = {ours: renamed.pop(key) for key, ours in _LIMITS.items() if key in renamed}
            unknown = [key for key in renamed if key not in _FOREIGN_KEYS]
            notes += [f"{called}.{key}: unknown here, and left alone" for key in unknown]
            item = {
                key: _plain(value, key) for key, value in renamed.items() if key in _FOREIGN_KEYS
            }
            item = {key: value for key, value in item.items() if value is not None}
            if "command" not in item and "url" not in item:
                # A misspelt key is the likely reason, and the error names it.
                item |= {key: renamed[key] for key in unknown if nearest(key, ("command", "url"))}
            if limits:
                item["limits"] = limits
            if "command" in item:
                notes += _unfilled(called, item)
        read[called] = item
    return "mcp_servers", read, tuple(notes)


def _others(keys: list[str]) -> list[str]:
    """Return notes about the other settings of a program."""
    notes = [f"{key}: not for us, and left alone" for key in keys[:_MOST_NAMED]]
    more = len(keys) - _MOST_NAMED
    return [*notes, f"{more} more settings: not for us, and left alone"] if more > 0 else notes


def _renamed(item: dict[str, Any]) -> dict[str, Any]:
    """Return a server in our words: a command may be a list, or an object with a path."""
    renamed = {_OTHER_NAMES.get(key, key): value for key, value in item.items()}
    for key, values in _WITHOUT_MEANING.items():
        if renamed.get(key) in values:
            del renamed[key]
    command = renamed.get("command")
    if isinstance(command, list) and len(command) > 0 and renamed.get("args") is None:
        renamed["command"] = _word(command[0])
        renamed["args"] = command[1:]
    elif isinstance(command, dict):
        renamed["command"] = command.get("path")
        renamed |= {key: command[key] for key in ("args", "env") if command.get(key) is not None}
    passed, own = renamed.pop("env_vars", None), renamed.get("env") or {}
    if isinstance(passed, list) and isinstance(own, dict):  # Codex's variables that are passed on
        references = {name: {"from": name} for name in passed if isinstance(name, str)}
        renamed["env"] = {**references, **own}
    return renamed


def _plain(value: Any, key: str) -> Any:
    """Return a value as text. Some programs allow numbers there, and null for nothing."""
    if isinstance(value, list):
        return [_word(item) for item in value]
    if isinstance(value, dict):
        renamed = {name: _word(item) for name, item in value.items() if item is not None}
        return {name: _filled(item) for name, item in renamed.items()} if key == "env" else renamed
    return value


def _filled(value: Any) -> Any:
    """Return the value of a variable. `${NAME}` becomes a reference to a variable of the host."""
    named = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    return value if named is None else {"from": named[1]}


def _unfilled(called: str, item: dict[str, Any]) -> list[str]:
    """Return a note for each place with placeholders that are not replaced."""
    places = {"command": item["command"], "cwd": item.get("cwd")}
    args, env = item.get("args"), item.get("env")
    if isinstance(args, list):
        places |= {f"args.{number}": value for number, value in enumerate(args)}
    if isinstance(env, dict):
        places |= {f"env.{name}": value for name, value in env.items()}
    return [
        f"{called}.{place}: {found[0]} is not filled in here"
        for place, value in places.items()
        if isinstance(value, str) and (found := _PLACEHOLDER.search(value))
    ]


def _word(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, bool | int | float) else value
