"""Parses `[[process_extensions]]` of a config: roder extensions, each with its manifest's path.

    [[process_extensions]]
    id = "weather"
    manifest = "weather/roder-extension.toml"
    command = "weather/run"

Each element becomes an `Entry`, like an element of `[[extensions]]`, and may have the same common
keys (limits, restart, options …). This module only stores the path of the manifest; `discovery`
reads the file. Relative paths, and a command that contains a slash, are relative to the folder of
the config. Unknown keys are reported and have no effect, because later versions of roder's own host
may have more keys.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from exthost.model.documents import keys
from exthost.model.documents.entry import Entry, read_name
from exthost.model.documents.problems import WRONG_VALUE, Place
from exthost.model.documents.readers import Reader, describe_type, drop_foreign_keys, read_table
from exthost.model.documents.setting_keys import SETTING_KEYS
from exthost.model.documents.settings import make_settings, resolve_path, setting_readers
from exthost.model.spec import Limits, Spec


def read_process_extensions(
    value: Any, place: Place, origin: str, folder: str | None
) -> tuple[Entry, ...]:
    """Return the entries of the section. `value` is the parsed section, `place` its position in the
    config, which records mistakes, `origin` the path of the config. Relative paths start at
    `folder`, the config's folder."""
    if not isinstance(value, list | tuple):
        help = "write [[process_extensions]] with two brackets"
        place.add_problem(
            WRONG_VALUE, f"must be a list of tables, not {describe_type(value)}", help
        )
        return ()
    entries = (
        _parse_entry(item, place.at(index), origin, folder) for index, item in enumerate(value)
    )
    return tuple(entry for entry in entries if entry is not None)


def _parse_entry(value: Any, place: Place, origin: str, folder: str | None) -> Entry | None:
    """Return one entry, or None if it is not a table."""
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table, not {describe_type(value)}")
        return None
    if isinstance(value.get("id"), str):
        place = place.for_extension(value["id"])
    key_readers: dict[str, Reader] = {**_KEYS, **setting_readers(folder)}
    values = read_table(drop_foreign_keys(value, place, key_readers), place, key_readers)
    for key in ("id", "manifest", "command"):
        if key not in value:
            place.add_problem(WRONG_VALUE, f"the entry has no `{key}`", f'add {key} = "..."')
    settings = make_settings({key: item for key, item in values.items() if key in SETTING_KEYS})
    milliseconds = values.get("startup_timeout_ms")
    if milliseconds is not None:
        start = Limits(start=milliseconds / 1000, handshake=milliseconds / 1000)
        settings = replace(settings, limits=settings.limits.over(start))
    if values.get("event_filter") is not None:
        options = {"event_filter": values["event_filter"], **settings.options}
        settings = replace(settings, options=MappingProxyType(options))
    command, manifest = values.get("command"), values.get("manifest")
    if command is not None and "/" in command:  # a bare name is looked up on PATH
        command = resolve_path(folder, command)
    spec = Spec(
        id=values.get("id") or "",
        argv=() if command is None else (command,),
        dialect="roder",
        enabled=values.get("enabled") is not False,
        origin=origin,
        config=values.get("config", {}),
        manifest_path=None if manifest is None else resolve_path(folder, manifest),
    )
    return Entry(spec, settings, place, name_key="id")


_FILTER: Mapping[str, keys.Key] = {
    "kinds": keys.Key(
        keys.ANY_TEXT_LIST,
        "Events whose kind begins with one of these are sent; with none, no event is.",
        '["turn_started"]',
        "[]",
    ),
}


def _read_event_filter(value: Any, place: Place) -> dict[str, Any]:
    kinds = read_table(drop_foreign_keys(value, place, _FILTER), place, _FILTER).get("kinds")
    return {"kinds": list(kinds or ())}


_KEYS: Mapping[str, keys.Key] = {
    "id": keys.Key(
        keys.ValueType(read_name, "text on one line", keys.TEXT.schema),
        "The id of the extension, which its manifest has too.",
        '"inference"',
        required=True,
    ),
    "enabled": keys.Key(keys.FLAG, "Whether it is used.", "false", "true"),
    "manifest": keys.Key(keys.TEXT, "Its manifest.", '"roder-extension.toml"', required=True),
    "command": keys.Key(
        keys.TEXT,
        "Its program: a name on PATH, or a path from the config.",
        '"node"',
        required=True,
    ),
    "startup_timeout_ms": keys.Key(
        keys.integer_at_least(1), "How long the start and the handshake may each take.", "5000"
    ),
    "event_filter": keys.Key(
        keys.table_type(_FILTER, _read_event_filter),
        "The events that it is sent.",
        '{ kinds = ["turn_started"] }',
        "(as its manifest says)",
    ),
    "config": keys.Key(keys.JSON, "A value for the extension.", '{ model = "small" }', "{}"),
}

SECTION = keys.make_section(
    "Extensions of the roder dialect, each with its manifest.",
    {**_KEYS, **SETTING_KEYS},
    "list",
)
