"""Reads the tables `[mcp_servers.NAME]` of a config, which other MCP clients write in JSON, as
`mcpServers`.

    [mcp_servers.files]
    command = "uvx"
    args = ["mcp-server-files", "."]

Each table becomes an `Entry`, like the tables of `[[extensions]]`, and may have the same keys
(limits, restart, options …) besides `command`. A server that has a URL and no command is remote.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from exthost.model.documents.entry import Entry, read_name
from exthost.model.documents.keys import ANY_TEXT, FLAG, TEXT, Key, make_section
from exthost.model.documents.problems import WRONG_VALUE, Place
from exthost.model.documents.readers import describe_type, read_table
from exthost.model.documents.remote_server import REMOTE_KEYS, bridge_arguments
from exthost.model.documents.setting_keys import SETTING_KEYS
from exthost.model.documents.settings import make_settings, setting_readers
from exthost.model.names import nearest
from exthost.model.spec import Spec


def read_mcp_servers(
    value: Any, place: Place, origin: str, folder: str | None
) -> tuple[Entry, ...]:
    """Return the entries of the section, which is the table `value`.

    place   the position of the section in the config, to which problems are added
    origin  the path of the config
    folder  the folder from which relative paths start
    """
    if not isinstance(value, Mapping):
        place.add_problem(
            WRONG_VALUE,
            f"must be a table by name, not {describe_type(value)}",
            'write {"mcpServers": {"NAME": {"command": "…"}}}',
        )
        return ()
    entries = (_read_server(key, item, place, origin, folder) for key, item in value.items())
    return tuple(entry for entry in entries if entry is not None)


def _read_server(
    name: Any, value: Any, section: Place, origin: str, folder: str | None
) -> Entry | None:
    """Return the entry of one server, or None if it is not a table or has no valid name."""
    id = read_name(name, section)
    if id is None:
        return None
    place = section.at(id).for_extension(id)
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table, not {describe_type(value)}")
        return None
    fields = read_table(value, place, {**_KEYS, **setting_readers(folder)})
    settings = make_settings({key: item for key, item in fields.items() if key in SETTING_KEYS})
    options = {key: fields[key] for key in _OPTIONS if fields.get(key) is not None}
    settings = replace(settings, options=MappingProxyType({**options, **settings.options}))
    command = fields.get("command")
    is_remote = "command" not in value and "url" in value
    if "command" not in value and "url" not in value:
        help = 'add command = "…" and args = […]'
        for key in value:
            if near := nearest(str(key), ("command", "url")):
                help = f"did you mean `{near}` by `{key}`?"
        place.add_problem(WRONG_VALUE, "has neither `command` nor `url`", help)
    argv: tuple[str, ...] = () if command is None else (command,)
    problem = ""
    if is_remote:
        # A remote server runs as a local process, too: a bridge that connects to it.
        argv, variables, problem = bridge_arguments(fields)
        settings = replace(settings, env=MappingProxyType({**settings.env, **variables}))
    spec = Spec(
        id=id,
        argv=argv,
        source="http" if is_remote else "process",
        dialect="mcp",
        enabled=fields.get("enabled") is not False and fields.get("disabled") is not True,
        origin=origin,
        unrunnable=problem,
    )
    # The name is not under a key, so an error about a duplicate name shows the command.
    return Entry(spec, settings, place, name_key="command")


_KEYS: Mapping[str, Key] = {
    "command": Key(TEXT, "The program of the server.", '"uvx"'),
    **REMOTE_KEYS,
    "type": Key(ANY_TEXT, "Another name of `transport`.", '"stdio"'),
    "enabled": Key(FLAG, "Whether it is used.", "false", "true"),
    "disabled": Key(FLAG, "The opposite of `enabled`.", "true", "false"),
    "log_level": Key(TEXT, "The level of log messages that it sends.", '"debug"'),
    "context_passthrough": Key(
        FLAG, "Whether a call's context is sent along in `_meta`.", "true", "false"
    ),
    "era": Key(
        ANY_TEXT, "The era of the protocol: auto, stateless or handshake.", '"handshake"', '"auto"'
    ),
}
# The keys of a server that set the key of the same name in its `options`.
_OPTIONS = ("log_level", "context_passthrough", "era")

# The section for the documentation of the config's keys; `read_mcp_servers` reads it.
SECTION = make_section(
    "MCP servers by name.",
    {**_KEYS, **SETTING_KEYS},
    "names",
)
