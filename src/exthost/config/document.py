"""A whole config → `Config`: its sections, and how they are combined.

The sections are a table of name → reader: `_SECTIONS`, and those of the dialects, which are loaded
only for a config with a section that is not in `_SECTIONS`. Readers do not depend on one another or
on their order in the file. After all of them, overrides and defaults are applied to the entries.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, TypeAlias

from exthost.config.cluster import NO_CLUSTER_SETTINGS, ClusterSettings, cluster_settings
from exthost.config.discovery import DiscoverySettings, discovery
from exthost.config.entry import DIALECTS, read_entry
from exthost.config.options import check_limits, check_options
from exthost.config.placeholders import fill_placeholders
from exthost.config.section_keys import AUDIT_KEYS
from exthost.dialects import find
from exthost.dialects.package import DialectPackage, Reference
from exthost.documents import jsonc
from exthost.documents.entry import Entry
from exthost.documents.problems import (
    DUPLICATE_NAME,
    UNREADABLE,
    WRONG_VALUE,
    Place,
    Problems,
    format_path,
)
from exthost.documents.readers import describe_type, drop_foreign_keys, read_table
from exthost.documents.setting_keys import hook_policy
from exthost.documents.settings import NO_SETTINGS, Settings, read_settings, resolve_path
from exthost.documents.toml_positions import find_line
from exthost.documents.toml_text import parse_toml
from exthost.empty_mapping import EMPTY_MAPPING
from exthost.errors import ConfigError, Evidence
from exthost.spec import Spec

DEFAULT_CONFIG = "exthost.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The values of a whole config. `discovery` is None if there is no such section.

    `specs` are in the order of the file and include the disabled ones. Overrides and defaults are
    already applied to them; `apply_overrides` does the same for a discovered extension. `hooks`
    says what happens when a hook fails, by its kind ("*" for all others), for extensions that do
    not set this themselves. `notes` name the keys of another program's file that mean nothing here.
    """

    specs: tuple[Spec, ...] = ()
    defaults: Settings = NO_SETTINGS
    overrides: Mapping[str, Settings] = field(default_factory=lambda: EMPTY_MAPPING)
    discovery: DiscoverySettings | None = None
    audit_path: str | None = None
    cluster: ClusterSettings = NO_CLUSTER_SETTINGS
    hooks: Mapping[str, str] = field(default_factory=lambda: EMPTY_MAPPING)
    origin: str = ""
    folder: str | None = None
    notes: tuple[str, ...] = ()

    def outer_settings(self, id: str) -> Settings:
        """Return the settings for the extension `id` from outside its own entry or manifest."""
        return self.overrides.get(id, NO_SETTINGS).over(self.defaults)

    def apply_overrides(self, spec: Spec) -> Spec:
        """Return a discovered extension with overrides and defaults applied."""
        return self.outer_settings(spec.id).apply_to(spec)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the reader of a section may need besides the value and its place."""

    origin: str
    folder: str | None
    dialects: Collection[str]


_Section: TypeAlias = Callable[[Any, Place, _Reading], Any]


def config_from_toml(
    source: str | bytes,
    origin: str,
    folder: str | None,
    *,
    dialects: Collection[str] = DIALECTS,
) -> Config:
    """Return the config in this TOML, read from the file `origin` in `folder`."""
    toml = _decoded(source, origin)
    try:
        document = parse_toml(toml)
    except RecursionError as error:
        raise _unreadable(origin, 0, "it is nested too deep") from error
    except ValueError as error:  # a TOMLDecodeError, or an integer of 5000 digits
        at = re.search(r"line (\d+)", str(error))
        raise _unreadable(origin, int(at[1]) if at else 0, str(error)) from error
    if not document.keys() <= _SECTIONS.keys():
        for package in find.iter_packages():
            shared = [name for name in package.json_sections if name in document]
            if shared and origin.endswith(tuple(f"/{name}" for name in package.toml_files)):
                return _config_of_section(package, document, shared[0], origin, folder)
    return _config(document, Problems(origin, toml), _Reading(origin, folder, dialects))


def config_from_json(
    source: bytes,
    origin: str,
    folder: str | None,
    environ: Mapping[str, str] = EMPTY_MAPPING,
) -> Config:
    """Return the config in a JSON file, read by the dialect that has its section.

    Such a file may be shared with other programs. `environ` is what its placeholders are filled
    with.
    """
    document = _json(source, origin)
    known: list[str] = []
    for package in find.iter_packages():
        known += package.json_sections[:1]
        for section in package.json_sections:
            if isinstance(document, dict) and section in document:
                document[section] = fill_placeholders(document[section], environ, folder)
                return _config_of_section(package, document, section, origin, folder)
    names = " or ".join(f"`{name}`" for name in known)
    raise ConfigError(
        "X0160",
        f"{origin} is JSON, and has no {names}",
        help='a JSON config is {"mcpServers": {name: {command, args}}}, or has `servers`, '
        "`context_servers` or `mcp`, as editors call that section; others are TOML",
        evidence=Evidence(path=origin),
    )


def _config_of_section(
    package: DialectPackage, document: Any, section: str, origin: str, folder: str | None
) -> Config:
    problems = Problems(origin)
    section_name, value, notes = find.load_reference(package, package.json_config)(
        document, section
    )
    read = find.load_reference(package, package.config_sections[section_name])
    entries: tuple[Entry, ...] = read(value, Place(problems).at(section), origin, folder)
    _check_settings(entries)
    problems.raise_first()
    specs = tuple(entry.spec(NO_SETTINGS, folder) for entry in entries)
    return Config(specs=specs, origin=origin, folder=folder, notes=notes)


def _json(source: bytes, origin: str) -> Any:
    try:
        return jsonc.loads(source.decode("utf-8-sig"))
    except (RecursionError, ValueError) as error:
        deep = isinstance(error, RecursionError)
        why = "it is nested too deep" if deep else f"not valid JSON: {error}"
        raise ConfigError(
            UNREADABLE,
            f"{origin}: {why}",
            help="correct the place named",
            evidence=Evidence(path=origin),
        ) from error


def config_from_mapping(
    document: Mapping[str, Any],
    *,
    origin: str = "",
    folder: str | None = None,
    dialects: Collection[str] = DIALECTS,
) -> Config:
    """Return the config in a dict. Without a folder, relative paths stay as they are."""
    return _config(document, Problems(origin), _Reading(origin, folder, dialects))


def spec_from_mapping(
    entry: Mapping[str, Any],
    *,
    origin: str = "",
    folder: str | None = None,
    defaults: Settings = NO_SETTINGS,
    dialects: Collection[str] = DIALECTS,
) -> Spec:
    """Return the extension of a single entry, as `host.load` takes it.

    `defaults` are the settings from outside the entry.
    """
    problems = Problems(origin)
    read = read_entry(entry, Place(problems), origin=origin, folder=folder, dialects=dialects)
    _check_settings([] if read is None else [read])
    problems.raise_first()
    assert read is not None, "an entry without mistakes is read"
    return read.spec(defaults, folder)


def _config(document: Any, problems: Problems, reading: _Reading) -> Config:
    sections = _sections(document)
    readers = {
        name: lambda value, place, section=section: section(value, place, reading)
        for name, section in sections.items()
    }
    place = Place(problems)
    if _is_foreign(document, sections, reading.origin):
        document = drop_foreign_keys(document, place, sections)
    read = read_table(document, place, readers)
    of_dialects = [read[name] for name in read if name not in _SECTIONS]
    entries: tuple[Entry, ...] = (
        *(read.get("extensions") or ()),
        *(entry for section in of_dialects for entry in section),
    )
    _check_settings(entries)
    _check_names(entries)
    problems.raise_first()
    config = Config(
        defaults=read.get("defaults", NO_SETTINGS),
        overrides=read.get("overrides", EMPTY_MAPPING),
        discovery=read.get("discovery"),
        audit_path=read.get("audit"),
        cluster=read.get("cluster") or NO_CLUSTER_SETTINGS,
        hooks=MappingProxyType(read.get("hooks") or {}),
        origin=reading.origin,
        folder=reading.folder,
        notes=tuple(problems.notes),
    )
    specs = tuple(
        entry.spec(config.outer_settings(entry.base_spec.id), reading.folder) for entry in entries
    )
    return replace(config, specs=specs)


def _sections(document: Any) -> Mapping[str, _Section]:
    """Return the reader of every section. Those of dialects are loaded only if needed."""
    if not isinstance(document, Mapping) or document.keys() <= _SECTIONS.keys():
        return _SECTIONS
    sections = {
        name: _of_dialect(package, reader)
        for package in find.iter_packages()
        for name, reader in package.config_sections.items()
    }
    return {**sections, **_SECTIONS}


def _is_foreign(document: Any, sections: Mapping[str, _Section], origin: str) -> bool:
    """Return whether this is the config of another program, which may have sections of its own: all
    the sections known here are a dialect's, and the file does not have the name of ours."""
    if not isinstance(document, Mapping) or PurePath(origin).name in ("", DEFAULT_CONFIG):
        return False
    known = document.keys() & sections.keys()
    return bool(known) and known.isdisjoint(_SECTIONS)


def _of_dialect(package: DialectPackage, reader: Reference) -> _Section:
    def read(value: Any, place: Place, reading: _Reading) -> tuple[Entry, ...]:
        entries: tuple[Entry, ...] = find.load_reference(package, reader)(
            value, place, reading.origin, reading.folder
        )
        return entries

    return read


def _check_settings(entries: Iterable[Entry]) -> None:
    for entry in entries:
        check_options(
            entry.own_settings.options, entry.place.at("options"), entry.base_spec.dialect
        )
        check_limits(entry.own_settings.limits, entry.place.at("limits"), entry.base_spec.dialect)


def _check_names(entries: tuple[Entry, ...]) -> None:
    first: dict[str, Place] = {}
    for entry in entries:
        name, place = entry.base_spec.id, entry.place.at(entry.name_key)
        if not name:
            continue
        if name not in first:
            first[name] = place
            continue
        line = find_line(place.problems.lines(), first[name].path)
        where = (
            f"{format_path(first[name].path)}, line {line}"
            if line
            else format_path(first[name].path)
        )
        place.add_problem(DUPLICATE_NAME, f"{name!r} is already the name at {where}", "rename one")


def _extensions(value: Any, place: Place, reading: _Reading) -> tuple[Entry, ...]:
    if not isinstance(value, list | tuple):
        help = "write [[extensions]] with two brackets" if isinstance(value, Mapping) else ""
        place.add_problem(
            WRONG_VALUE, f"must be a list of tables, and is {describe_type(value)}", help
        )
        return ()
    read = (
        read_entry(
            item,
            place.at(index),
            origin=reading.origin,
            folder=reading.folder,
            dialects=reading.dialects,
        )
        for index, item in enumerate(value)
    )
    return tuple(entry for entry in read if entry is not None)


def _defaults(value: Any, place: Place, reading: _Reading) -> Settings:
    return _settings(value, place, reading)


def _settings(value: Any, place: Place, reading: _Reading) -> Settings:
    read = read_settings(value, place, reading.folder)
    check_options(read.options, place.at("options"))
    return read


def _overrides(value: Any, place: Place, reading: _Reading) -> Mapping[str, Settings]:
    if not isinstance(value, Mapping):
        place.add_problem(
            WRONG_VALUE, f"must be a table by extension, and is {describe_type(value)}"
        )
        return EMPTY_MAPPING
    read: dict[str, Settings] = {}
    for id, item in value.items():
        if isinstance(id, str):
            read[id] = _settings(item, place.at(id).for_extension(id), reading)
        else:
            place.add_problem(WRONG_VALUE, f"a key must be text, and one is {describe_type(id)}")
    return MappingProxyType(read)


def _discovery(value: Any, place: Place, reading: _Reading) -> DiscoverySettings:
    return discovery(value, place, reading.folder)


def _audit(value: Any, place: Place, reading: _Reading) -> str | None:
    path = read_table(value, place, AUDIT_KEYS).get("path")
    return None if path is None else resolve_path(reading.folder, path)


def _cluster(value: Any, place: Place, reading: _Reading) -> ClusterSettings | None:
    return cluster_settings(value, place)


def _hooks(value: Any, place: Place, reading: _Reading) -> dict[str, str]:
    return hook_policy(value, place)


# A test compares their names with those of `section_keys`.
_SECTIONS: Mapping[str, _Section] = {
    "extensions": _extensions,
    "defaults": _defaults,
    "overrides": _overrides,
    "discovery": _discovery,
    "audit": _audit,
    "cluster": _cluster,
    "hooks": _hooks,
}


def _decoded(source: str | bytes, origin: str) -> str:
    if isinstance(source, str):
        text = source
    else:
        try:
            text = source.decode("utf-8")
        except UnicodeDecodeError as error:
            line = source.count(b"\n", 0, error.start) + 1
            raise _unreadable(origin, line, f"line {line} is not UTF-8 text") from error
    # Some editors begin a file with a byte-order mark, which TOML does not allow.
    return text.removeprefix("\ufeff")


def _unreadable(origin: str, line: int, why: str) -> ConfigError:
    where = f"{origin}:{line}" if line else origin
    return ConfigError(
        UNREADABLE,
        f"{where}: not valid TOML: {why}",
        help="correct the line named; https://toml.io shows the notation",
        evidence=Evidence(path=origin, line=line),
    )
