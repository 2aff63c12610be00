"""`{"mcpServers": …}`: JSON configs that other programs share.

Such a file is taken as it is: unknown keys are noted and left alone, numbers count as their text,
null as nothing, and a server that is switched off stays off. Of the placeholders only `${NAME}` for
a whole variable is filled in; the others are noted. What is left has the form of
`[mcp_servers.NAME]`, which reads it.
"""

import json
import re
from typing import Any

# What a foreign file may say that means something here; both words for where a server is.
_FOREIGN_KEYS = frozenset(
    ("command", "args", "env", "cwd", "url", "headers", "type", "transport", "disabled", "enabled")
)

# What some programs call `url`.
_URLS = ("serverUrl", "httpUrl")

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)\}", re.ASCII)
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")


def read_json_servers(document: dict[str, Any], section: str) -> tuple[str, Any, tuple[str, ...]]:
    """Return the section of our own config that this is, its servers in our words, and notes."""
    notes = [f"{key}: not for us, and left alone" for key in document if key != section]
    servers = document[section]
    if not isinstance(servers, dict):
        return "mcp_servers", servers, tuple(notes)
    read = {}
    for called, item in servers.items():
        if isinstance(item, dict):
            said = {_ours(key): value for key, value in item.items()}
            unknown = [key for key in said if key not in _FOREIGN_KEYS]
            notes += [f"{called}.{key}: unknown here, and left alone" for key in unknown]
            item = {key: _plain(value, key) for key, value in said.items() if key in _FOREIGN_KEYS}
            item = {key: value for key, value in item.items() if value is not None}
            if "command" in item:
                notes += _unfilled(called, item)
        read[called] = item
    return "mcp_servers", read, tuple(notes)


def _ours(key: str) -> str:
    return "url" if key in _URLS else key


def _plain(value: Any, key: str) -> Any:
    """Words and variables as text; some programs take numbers there, and null for nothing."""
    if isinstance(value, list):
        return [_word(item) for item in value]
    if isinstance(value, dict):
        said = {name: _word(item) for name, item in value.items() if item is not None}
        return {name: _filled(item) for name, item in said.items()} if key == "env" else said
    return value


def _filled(value: Any) -> Any:
    """A variable that is to be one of the host's, as our own config says it."""
    named = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    return value if named is None else {"from": named[1]}


def _unfilled(called: str, item: dict[str, Any]) -> list[str]:
    """Of the placeholders that are left, one note for each place."""
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
