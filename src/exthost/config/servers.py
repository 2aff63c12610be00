"""MCP servers: `[mcp_servers.NAME]` of our own config, and `{"mcpServers": …}` files of others.

Both become the same `Entry` that `[[extensions]]` has. In our own config the shared keys (limits,
restart, options …) may stand beside `command`, and an unknown key is a mistake. A file that other
programs share is taken as it is: their keys are noted and left alone, numbers count as their text,
null as nothing, a server that is switched off stays off. One that is reached by a URL is listed,
and never run. Of their placeholders only `${NAME}` for a whole variable is filled in; others are
noted.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from exthost.config import jsonc
from exthost.config.entry import SETTING_KEYS, Entry, name
from exthost.config.options import check_options
from exthost.config.problems import UNREADABLE, WRONG_VALUE, Place
from exthost.config.readers import Reader, flag, kind, table, text, variables, word
from exthost.config.settings import readers, settings_of
from exthost.errors import ConfigError, Evidence
from exthost.model import Spec

# What a foreign file may say that means something here; both words for where a server is.
_FOREIGN_KEYS = frozenset(
    ("command", "args", "env", "cwd", "url", "headers", "type", "transport", "disabled", "enabled")
)
_SECTIONS = ("mcpServers", "mcp_servers")

# What some programs call `url`.
_URLS = ("serverUrl", "httpUrl")

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)\}", re.ASCII)
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")


def read_servers(value: Any, place: Place, *, origin: str, folder: str | None) -> tuple[Entry, ...]:
    """The servers of a table by name."""
    if not isinstance(value, Mapping):
        place.wrong(WRONG_VALUE, f"must be a table by name, and is {kind(value)}")
        return ()
    read = (_server(key, item, place, origin, folder) for key, item in value.items())
    return tuple(entry for entry in read if entry is not None)


def _server(called: Any, value: Any, outer: Place, origin: str, folder: str | None) -> Entry | None:
    id = name(called, outer)
    if id is None:
        return None
    place = outer.at(id).of(id)
    if not isinstance(value, Mapping):
        place.wrong(WRONG_VALUE, f"must be a table, and is {kind(value)}")
        return None
    read = table(value, place, {**_KEYS, **readers(folder)})
    own = settings_of({key: item for key, item in read.items() if key in SETTING_KEYS})
    check_options(own.options, place.at("options"), "mcp")
    options = {key: read[key] for key in _OPTIONS if read.get(key) is not None}
    own = replace(own, options=MappingProxyType({**options, **own.options}))
    command = read.get("command")
    remote = "" if "command" in value else read.get("url") or ""
    if "command" not in value and "url" not in value:
        help = 'add command = "…" and args = […]'
        place.wrong(WRONG_VALUE, "says neither `command` nor `url`: how is it reached?", help)
    bare = Spec(
        id=id,
        argv=() if command is None else (command,),
        dialect="mcp",
        enabled=read.get("enabled") is not False and read.get("disabled") is not True,
        origin=origin,
        unrunnable=not_stdio(read.get("transport") or read.get("type") or "") if remote else "",
    )
    return Entry(bare, own, place, name_key="command")


def not_stdio(transport: str) -> str:
    """Why a server that is reached over the network is not run."""
    how = f" ({transport})" if transport else ""
    return f"it is reached by a URL{how}, not over stdio: it runs by itself and is only listed"


_KEYS: Mapping[str, Reader] = {
    "command": text,
    "url": text,
    "headers": variables,
    "transport": word,
    "type": word,
    "enabled": flag,
    "disabled": flag,
    "log_level": text,
    "context_passthrough": flag,
}
_OPTIONS = ("log_level", "context_passthrough")


# -- other programs' files -------------------------------------------------------------------


def foreign_servers(source: bytes, origin: str) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """The section of a JSON file that holds servers, its servers in our words, and what was noted.
    Raises ConfigError for a file that has none."""
    try:
        document = jsonc.loads(source.decode("utf-8-sig"))
    except RecursionError as error:
        raise _unreadable(origin, "it is nested too deep") from error
    except ValueError as error:
        raise _unreadable(origin, f"not valid JSON: {error}") from error
    section = next((key for key in _SECTIONS if isinstance(document, dict) and key in document), "")
    if not section:
        raise ConfigError(
            "X0160",
            f"{origin} is JSON, and has no `mcpServers`",
            help='a JSON config is {"mcpServers": {name: {command, args}}}, whatever an editor '
            "calls that section; others are TOML",
            evidence=Evidence(path=origin),
        )
    notes = [f"{key}: not for us, and left alone" for key in document if key != section]
    servers = document[section]
    if not isinstance(servers, dict):
        return section, servers, tuple(notes)
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
    return section, read, tuple(notes)


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


def _unreadable(origin: str, why: str) -> ConfigError:
    return ConfigError(
        UNREADABLE,
        f"{origin}: {why}",
        help="mend the place named",
        evidence=Evidence(path=origin),
    )
