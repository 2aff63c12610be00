"""Reads one entry of `[[extensions]]`, which has the keys of morphir's own config (the requirement
morphir-config-01) and those of `documents.setting_keys`:

    [[extensions]]
    name = "weather"
    dialect = "mcp"
    source = { type = "process", command = "python3", args = ["weather.py"] }
    limits = { call = "10s" }

An `Entry` has only the settings of the entry itself. `Entry.spec` merges them with `[overrides]`
and `[defaults]` after the whole config has been read. The program is kept as written: `launch`
checks whether "./x" exists, and looks for a bare name on PATH.

An entry may have a type of source that morphir knows and this host cannot run, such as "grpc", or
another protocol than "stdio". Then `Spec.unrunnable` has the reason: that extension is refused, and
the others run. Any other type of source is a problem, unless the entry is disabled.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from exthost.dialects.find import DIALECT_NAMES
from exthost.model.documents.entry import Entry, read_name
from exthost.model.documents.keys import (
    ANY_TEXT_LIST,
    FLAG,
    JSON,
    TEXT,
    VARIABLES,
    Key,
    ValueType,
    table_schema,
)
from exthost.model.documents.problems import (
    UNKNOWN_DIALECT,
    UNKNOWN_KEY,
    UNSUPPORTED_SOURCE,
    WRONG_VALUE,
    Place,
)
from exthost.model.documents.readers import (
    Reader,
    describe_type,
    find_nearest,
    quote_text,
    read_table,
    read_text,
)
from exthost.model.documents.remote_server import REMOTE_KEYS, bridge_arguments
from exthost.model.documents.setting_keys import SETTING_KEYS
from exthost.model.documents.settings import make_settings, resolve_path, setting_readers
from exthost.model.spec import DEFAULT_DIALECT, Spec

# The built-in dialects, and those of installed packages.
DIALECTS = DIALECT_NAMES

# Types of source that a morphir config may have, and that this host cannot run.
_UNSUPPORTED_SOURCES = frozenset({"grpc", "wasmcomponent"})

# Types of source that this host runs.
_SUPPORTED_SOURCES = frozenset({"process", "wasm", "http"})

_NEEDS_MCP = 'a source of type "http" is a remote MCP server, and needs dialect = "mcp"'

_STDIO_ONLY_HELP = (
    "exthost runs child processes over stdin and stdout; disable the entry, or start it through a "
    "program that does so"
)


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of an entry.

    argv               the program or module, and its arguments
    env                environment variables
    has_args           whether the source sets `args`
    type               "process", "wasm" or "http"; "process" also if this host has no such type
    unrunnable_reason  the reason why this host cannot run the source, "" if it can
    is_unknown_type    whether neither this host nor morphir has such a type of source
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    has_args: bool
    type: Literal["process", "wasm", "http"] = "process"
    unrunnable_reason: str = ""
    is_unknown_type: bool = False


_NO_SOURCE = _Source((), {}, has_args=False)
_SOURCE_EXAMPLE = 'source = { type = "process", command = "python3", args = ["extension.py"] }'


def read_entry(
    value: Any, place: Place, *, origin: str, folder: str | None, dialects: Collection[str]
) -> Entry | None:
    """Read one entry, and add its problems at `place`. Return None if the value is not a table.
    `origin` is the path of the config, `folder` its folder, and `dialects` are the names of
    dialects (protocols) that the key `dialect` may have."""
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table, not {describe_type(value)}")
        return None
    raw_name = value.get("name")
    if isinstance(raw_name, str):
        place = place.for_extension(raw_name)  # problems name the extension
    has_command = "command" in value
    if has_command:
        help = f"use {_SOURCE_EXAMPLE}"
        place.at("command").add_problem(UNKNOWN_KEY, "belongs in `source`", help)
        value = {key: item for key, item in value.items() if key != "command"}
    read = read_table(value, place, _readers(folder, _as_frozenset(dialects)))
    if "name" not in value:
        place.add_problem(WRONG_VALUE, "the entry has no `name`", 'add name = "..."')
    enabled = read.get("enabled") is not False
    source = read.get("source") or _NO_SOURCE
    if source.type == "http" and read.get("dialect") == "mcp":
        source = _read_remote_source(value["source"], place.at("source"))
    if "source" not in value and not has_command:
        place.add_problem(WRONG_VALUE, "the entry has no `source`", f"add {_SOURCE_EXAMPLE}")
    if source.is_unknown_type and enabled:
        place.at("source").at("type").add_problem(
            UNSUPPORTED_SOURCE, source.unrunnable_reason, _STDIO_ONLY_HELP
        )
    if source.has_args and "args" in value:
        place.at("args").add_problem(
            WRONG_VALUE, "is given twice, here and in `source`", "keep one"
        )
    values = {key: item for key, item in read.items() if key in SETTING_KEYS}
    if source.env:  # a variable in `source` takes precedence over one in `env`
        values["env"] = {**(values.get("env") or {}), **source.env}
    if source.has_args:
        # As a setting, so that they take precedence over the `args` of `[overrides]`.
        values["args"] = source.argv[1:]
    own_settings = make_settings(values)
    dialect = read.get("dialect") or (DEFAULT_DIALECT if "dialect" not in value else "")
    base_spec = Spec(
        id=read.get("name") or "",
        argv=_resolve_argv(source, folder),
        source=source.type,
        dialect=dialect,
        is_dialect_assumed="dialect" not in value,
        enabled=enabled,
        origin=origin,
        config=read.get("config", {}),
        manifest_path=read.get("manifest"),
        unrunnable=source.unrunnable_reason or read.get("protocol") or "",
    )
    return Entry(base_spec, own_settings, place)


def _resolve_argv(source: _Source, folder: str | None) -> tuple[str, ...]:
    """Return the program without its arguments, the path of the module, or the whole command of
    the bridge to a remote server."""
    if source.type == "http":
        return source.argv
    program = source.argv[:1]
    if source.type == "wasm":  # a module is never looked up on PATH
        return tuple(resolve_path(folder, path) for path in program)
    return program


def _as_frozenset(dialects: Collection[str]) -> frozenset[str]:
    """Return the names as a frozenset, which `lru_cache` needs."""
    return dialects if isinstance(dialects, frozenset) else frozenset(dialects)


@lru_cache(maxsize=16)  # all entries of a config have the same readers
def _readers(folder: str | None, dialects: frozenset[str]) -> Mapping[str, Reader]:
    """Return the reader of each key of an entry. `folder` and `dialects` are as in `read_entry`."""

    def read_dialect(value: Any, place: Place) -> str | None:
        name = read_text(value, place)
        if name is not None and name not in dialects:
            near = find_nearest(name, dialects)
            guess = f'; did you mean "{near}"?' if near else ""
            help = f"the dialects are {', '.join(sorted(dialects))}"
            place.add_problem(
                UNKNOWN_DIALECT, f"no dialect is called {quote_text(name)}{guess}", help
            )
            return None
        return name

    def read_manifest(value: Any, place: Place) -> str | None:
        path = read_text(value, place)
        return None if path is None else resolve_path(folder, path)

    return {
        **ENTRY_KEYS,
        "dialect": read_dialect,
        "manifest": read_manifest,
        **setting_readers(folder),
    }


def _read_protocol(value: Any, place: Place) -> str:
    """Return the reason why this host does not support the protocol, "" if it does."""
    protocol = read_text(value, place)
    if protocol is None or protocol == "stdio":
        return ""
    is_misspelt = bool(find_nearest(protocol, frozenset({"stdio"})))
    guess = '; did you mean "stdio"?' if is_misspelt else ""
    return f'protocol {quote_text(protocol)} is not supported, only "stdio" is{guess}'


def _read_source(value: Any, place: Place) -> _Source:
    """Read the key `source`: a program, a WebAssembly module or a remote server."""
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table, not {describe_type(value)}")
        return _NO_SOURCE
    type_ = value.get("type", "process")
    if type_ == "wasm":
        read = read_table(value, place, _MODULE_KEYS)
        if "path" not in value:
            place.add_problem(WRONG_VALUE, "the source has no `path`", 'add path = "ext.wasm"')
        argv = (read.get("path") or "", *(read.get("args") or ()))
        return _Source(argv, read.get("env") or {}, has_args="args" in value, type="wasm")
    if type_ == "http":
        # The dialect is not known here. If it is MCP, `read_entry` reads the other keys, and drops
        # this reason.
        return _Source((), {}, has_args=False, type="http", unrunnable_reason=_NEEDS_MCP)
    if isinstance(type_, str) and type_ != "process":
        # The other keys are not checked, because they belong to that type of source.
        is_unknown = type_ not in _UNSUPPORTED_SOURCES
        verdict = "is unknown" if is_unknown else "cannot be run here"
        nearest = find_nearest(type_, _SUPPORTED_SOURCES | _UNSUPPORTED_SOURCES)
        guess = f'; did you mean "{nearest}"?' if nearest in _SUPPORTED_SOURCES else ""
        known = 'use "process", "wasm" or "http"'
        reason = f"source type {quote_text(type_)} {verdict}{guess or '; ' + known}"
        return _Source((), {}, has_args=False, unrunnable_reason=reason, is_unknown_type=is_unknown)
    read = read_table(value, place, _SOURCE_KEYS)
    if "command" not in value:
        place.add_problem(WRONG_VALUE, "the source has no `command`", 'add command = "..."')
    command = read.get("command")
    args = read.get("args") or ()
    argv = () if command is None else (command, *args)
    return _Source(argv, read.get("env") or {}, has_args="args" in value)


def _read_remote_source(value: Mapping[str, Any], place: Place) -> _Source:
    read = read_table(value, place, _REMOTE_KEYS)
    if "url" not in value:
        place.add_problem(WRONG_VALUE, "the source has no `url`", 'add url = "https://…"')
    argv, env, problem = bridge_arguments({**read, "type": None})
    return _Source(argv, env, has_args=False, type="http", unrunnable_reason=problem)


def _read_command(value: Any, place: Place) -> str | None:
    if isinstance(value, list | tuple):
        help = "put the first item in command and the others in args"
        place.add_problem(WRONG_VALUE, "must be text, not a list", help)
        return None
    return read_text(value, place)


_SOURCE_KEYS: Mapping[str, Key] = {
    "type": Key(
        TEXT,
        'The kind: a program ("process"), a module ("wasm"), or a remote MCP server ("http").',
        '"process"',
        '"process"',
    ),
    "command": Key(
        ValueType(_read_command, "text", TEXT.schema),
        "The program: a name on PATH, or a path from the config's folder.",
        '"python3"',
        required=True,
    ),
    "args": Key(ANY_TEXT_LIST, "Its arguments.", '["extension.py"]', "[]"),
    "env": Key(
        VARIABLES, "Variables, which take precedence over `env`.", '{ MODE = "fast" }', "{}"
    ),
}

_MODULE_KEYS: Mapping[str, Key] = {
    "type": Key(TEXT, "A WebAssembly module.", '"wasm"', required=True),
    "path": Key(TEXT, "The module: a path from the config's folder.", '"ext.wasm"', required=True),
    "args": _SOURCE_KEYS["args"],
    "env": _SOURCE_KEYS["env"],
}

_REMOTE_KEYS: Mapping[str, Key] = {
    "type": Key(TEXT, "A remote MCP server.", '"http"', required=True),
    **REMOTE_KEYS,
}

# The keys of an entry besides those of `setting_keys`.
ENTRY_KEYS: Mapping[str, Key] = {
    "name": Key(
        ValueType(read_name, "text on one line", TEXT.schema),
        "The id of the extension, unique in the config.",
        '"weather"',
        required=True,
    ),
    "enabled": Key(FLAG, "Whether it is used.", "false", "true"),
    "protocol": Key(
        ValueType(_read_protocol, '"stdio"', TEXT.schema),
        "How it is reached; others are listed and refused.",
        '"stdio"',
        '"stdio"',
    ),
    "dialect": Key(TEXT, "The dialect that it speaks.", '"mcp"', f'"{DEFAULT_DIALECT}"'),
    "manifest": Key(
        TEXT, "The manifest of the extension, for dialects that have them.", '"plugin.toml"'
    ),
    "config": Key(
        JSON, "A value for the extension, sent in its handshake.", '{ units = "metric" }', "{}"
    ),
    "source": Key(
        ValueType(
            _read_source,
            "table",
            {
                "anyOf": [
                    table_schema(_SOURCE_KEYS),
                    table_schema(_MODULE_KEYS),
                    table_schema(_REMOTE_KEYS),
                    {
                        "properties": {"type": {"not": {"enum": sorted(_SUPPORTED_SOURCES)}}},
                        "required": ["type"],
                    },
                ]
            },
            keys=_SOURCE_KEYS,
        ),
        "The code to run.",
        '{ type = "process", command = "python3", args = ["extension.py"] }',
        required=True,
    ),
}
