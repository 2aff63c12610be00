"""Reads a whole config into a `Config`: its sections, and how they are combined.

Each section has a reader. `_SECTIONS` has the readers of sections that belong to no dialect (the
protocol that an extension speaks). Those of dialects are loaded only for a config that has a
section which is not in `_SECTIONS`. No reader depends on another section. At the end, overrides and
defaults are applied to the entries.

The configs of some other programs are read as well, such as the `mcpServers` of an editor. Unknown
keys in them are not problems, since they are for the other program.

A reader gets the value of its section and the `Place` of the section. It adds problems to the
place, and does not raise, so that one error can list all problems of a file.

Modules that not every config needs are imported lazily.
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from exthost.config.cluster import DEFAULT_CLUSTER_SETTINGS, read_cluster_settings
from exthost.config.entry import DIALECTS, ENTRY_KEYS, read_entry
from exthost.config.gateway import (
    DEFAULT_GATEWAY_SETTINGS,
    read_gateway_settings,
)
from exthost.config.host_config import Config
from exthost.config.options import check_limits, check_options
from exthost.config.trust_section import DEFAULT_TRUST, read_trust
from exthost.dialects import find
from exthost.errors import ConfigError, Evidence
from exthost.model.documents.problems import (
    DUPLICATE_NAME,
    UNKNOWN_KEY,
    UNREADABLE,
    WRONG_VALUE,
    Place,
    Problems,
    format_path,
)
from exthost.model.documents.readers import describe_type, drop_foreign_keys, read_table
from exthost.model.documents.setting_keys import HostHooks, read_host_hooks
from exthost.model.documents.settings import NO_SETTINGS, read_settings, resolve_path
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.rules import NO_RULES
from exthost.model.spec import ValueReference

if TYPE_CHECKING:
    from exthost.config.cluster import ClusterSettings
    from exthost.config.discovery_section import DiscoverySettings
    from exthost.config.gateway import (
        GatewaySettings,
    )
    from exthost.config.trust_section import TrustSettings
    from exthost.dialects.package import DialectPackage, Reference
    from exthost.model.documents.entry import Entry
    from exthost.model.documents.settings import SettingValues
    from exthost.model.rules import Rules
    from exthost.model.spec import Spec


DEFAULT_CONFIG = "exthost.toml"


@dataclass(frozen=True, slots=True)
class _FileContext:
    """The file that is read, for the readers of sections: `origin` is its path, `folder` its
    folder, and `dialects` are the names of dialects that an entry may have."""

    origin: str
    folder: str | None
    dialects: Collection[str]


# Gets the value of a section, its place, and the file. Returns what the section means.
_SectionReader: TypeAlias = Callable[[Any, Place, _FileContext], Any]


def config_from_toml(
    source: str | bytes,
    origin: str,
    folder: str | None,
    *,
    dialects: Collection[str] = DIALECTS,
) -> Config:
    """Return the config in this TOML text. `origin` is the path of its file, and `folder` the
    folder against which relative paths are resolved."""
    toml = _decode(source, origin)
    from exthost.model.documents.toml_text import parse_toml

    try:
        document = parse_toml(toml)
    except RecursionError as error:
        raise _unreadable_error(origin, 0, "it is nested too deep") from error
    except ValueError as error:  # a TOMLDecodeError, or an integer of 5000 digits
        line_match = re.search(r"line (\d+)", str(error))
        last_line = toml.rstrip().count("\n") + 1 if "end of document" in str(error) else 0
        line = int(line_match[1]) if line_match else last_line
        raise _unreadable_error(origin, line, str(error), _foreign_format_help(toml)) from error
    if not document.keys() <= _SECTIONS.keys():
        # It may be the config of another program, which has such a path and such a section.
        for package in find.iter_packages():
            sections = [name for name in package.json_sections if name in document]
            if sections and origin.endswith(tuple(f"/{name}" for name in package.toml_files)):
                return _read_dialect_file(package, document, sections[0], origin, folder)
    return _read_config(document, Problems(origin, toml), _FileContext(origin, folder, dialects))


def config_from_json(
    source: bytes,
    origin: str,
    folder: str | None,
    environ: Mapping[str, str] = EMPTY_MAPPING,
    read: Callable[[str], str] | None = None,
) -> Config:
    """Return the config in this JSON text. `origin` and `folder` are as in `config_from_toml`.
    `read` returns the text of a file, for `envFile`.

    The dialect that knows one of its sections, such as `mcpServers`, reads it. The file may be
    shared with other programs. `environ` has the variables for placeholders (see `placeholders`).
    """
    document = _parse_json(source, origin)
    known_sections: list[str] = []  # for the error: the first name of each dialect's section
    for package in find.iter_packages():
        known_sections += package.json_sections[:1]
        for section in package.json_sections:
            if isinstance(document, dict) and section in document:
                from exthost.config.env_file import merge_env_files
                from exthost.config.placeholders import fill_placeholders, with_dollars

                servers = with_dollars(document[section], section)
                filled = fill_placeholders(servers, environ, folder)
                document[section] = filled if read is None else merge_env_files(filled, read)
                return _read_dialect_file(package, document, section, origin, folder)
    names = " or ".join(f"`{name}`" for name in known_sections)
    raise ConfigError(
        "X0160",
        f"{origin} is JSON, and has no {names}",
        help='a JSON config is {"mcpServers": {name: {command, args}}}, or has `servers`, '
        "`context_servers` or `mcp`, as editors call that section; others are TOML",
        evidence=Evidence(path=origin),
    )


def _read_dialect_file(
    package: DialectPackage, document: Any, section: str, origin: str, folder: str | None
) -> Config:
    """Return the config in a file of another program. Only this section is read, with the reader of
    the dialect that declares the section."""
    problems = Problems(origin)
    section_name, value, notes = find.call_reference(
        package, package.json_config, document, section
    )
    reader = package.config_sections[section_name]
    place = Place(problems).at(section)
    entries: tuple[Entry, ...] = find.call_reference(package, reader, value, place, origin, folder)
    _check_settings(entries)
    problems.raise_first()
    specs = tuple(entry.spec(NO_SETTINGS, folder) for entry in entries)
    return Config(specs=specs, origin=origin, folder=folder, notes=notes)


def _parse_json(source: bytes, origin: str) -> Any:
    """Return the value of a JSON text, in which comments are allowed. Raises ConfigError."""
    from exthost.model.documents import jsonc

    if source[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise _utf_16_error(origin)
    try:
        return jsonc.loads(source.decode("utf-8-sig"))
    except (RecursionError, ValueError) as error:
        is_too_deep = isinstance(error, RecursionError)
        reason = "it is nested too deep" if is_too_deep else f"not valid JSON: {error}"
        if not source.strip():
            reason = "it has no JSON in it"
        raise ConfigError(
            UNREADABLE,
            f"{origin}: {reason}",
            help="correct the place named"
            if source.strip()
            else 'the file is empty: write {"mcpServers": {}}, or name another file',
            evidence=Evidence(path=origin),
        ) from error


def config_from_mapping(
    document: Mapping[str, Any],
    *,
    origin: str = "",
    folder: str | None = None,
    dialects: Collection[str] = DIALECTS,
) -> Config:
    """Return the config in a mapping, which has the form of a parsed TOML config. Without a folder,
    relative paths stay as they are."""
    return _read_config(document, Problems(origin), _FileContext(origin, folder, dialects))


def spec_from_mapping(
    entry: Mapping[str, Any],
    *,
    origin: str = "",
    folder: str | None = None,
    defaults: SettingValues = NO_SETTINGS,
    dialects: Collection[str] = DIALECTS,
) -> Spec:
    """Return the extension of a single entry, for `Host.load` with a mapping.

    `defaults` are settings that apply unless the entry has them itself.
    """
    problems = Problems(origin)
    read = read_entry(entry, Place(problems), origin=origin, folder=folder, dialects=dialects)
    _check_settings([] if read is None else [read])
    problems.raise_first()
    assert read is not None, "an entry without problems is read"
    return read.spec(defaults, folder)


def _read_config(document: Any, problems: Problems, context: _FileContext) -> Config:
    """Return the config in a parsed document. Raises ConfigError if there are problems."""
    section_readers = _section_readers(document)
    readers = {
        # The default of `read_section` gives each function its own reader of the loop.
        name: lambda value, place, read_section=read_section: read_section(value, place, context)
        for name, read_section in section_readers.items()
    }
    place = Place(problems)
    is_foreign = _is_foreign(document, section_readers, context.origin)
    if is_foreign:
        document = drop_foreign_keys(document, place, section_readers)
    read = read_table(document, place, readers)
    # A section of a dialect is a list of entries, as `extensions` is.
    dialect_sections = [read[name] for name in read if name not in _SECTIONS]
    entries: tuple[Entry, ...] = (
        *(read.get("extensions") or ()),
        *(entry for section in dialect_sections for entry in section),
    )
    _check_settings(entries)
    _check_names(entries)
    if not is_foreign:
        for entry in entries:
            _check_placeholders(entry.own_settings.env, entry.place, entry.base_spec)
        defaults = read.get("defaults") or NO_SETTINGS
        _check_placeholders(defaults.env, place.at("defaults"))
        for id, settings in (read.get("overrides") or _NO_OVERRIDES).settings.items():
            _check_placeholders(settings.env, place.at("overrides").at(id))
    problems.raise_first()
    hooks: HostHooks = read.get("hooks") or HostHooks({})
    overrides = read.get("overrides", _NO_OVERRIDES)
    config = Config(
        defaults=read.get("defaults", NO_SETTINGS),
        overrides=overrides.settings,
        configs=overrides.configs,
        discovery=read.get("discovery"),
        audit_path=read.get("audit"),
        cluster=read.get("cluster") or DEFAULT_CLUSTER_SETTINGS,
        gateway=read.get("gateway") or DEFAULT_GATEWAY_SETTINGS,
        trust=read.get("trust") or DEFAULT_TRUST,
        hooks=MappingProxyType(hooks.policy),
        required_guards=hooks.required,
        rules=read.get("rules") or NO_RULES,
        origin=context.origin,
        folder=context.folder,
        notes=tuple(problems.notes),
    )
    specs = tuple(
        entry.spec(config.outer_settings(entry.base_spec.id), context.folder) for entry in entries
    )
    return replace(config, specs=specs)


def _section_readers(document: Any) -> Mapping[str, _SectionReader]:
    """Return the reader of every section. Those of dialects are included only if the document has a
    section that is not in `_SECTIONS`."""
    if not isinstance(document, Mapping) or document.keys() <= _SECTIONS.keys():
        return _SECTIONS
    sections = {
        name: _dialect_section_reader(package, reader)
        for package in find.iter_packages()
        for name, reader in package.config_sections.items()
    }
    return {**sections, **_SECTIONS}


def _is_foreign(document: Any, section_readers: Mapping[str, _SectionReader], origin: str) -> bool:
    """Return whether this is the config of another program, which may have sections that are
    unknown here. That is so if the file is not called `exthost.toml`, and all of its known sections
    belong to dialects."""
    if not isinstance(document, Mapping) or PurePath(origin).name in ("", DEFAULT_CONFIG):
        return False
    known = document.keys() & section_readers.keys()
    return bool(known) and known.isdisjoint(_SECTIONS)


def _dialect_section_reader(package: DialectPackage, reader: Reference) -> _SectionReader:
    """Return the reader of a section of a dialect. `reader` is a reference to a function, which is
    imported when the section is read."""

    def read(value: Any, place: Place, context: _FileContext) -> tuple[Entry, ...]:
        entries: tuple[Entry, ...] = find.call_reference(
            package, reader, value, place, context.origin, context.folder
        )
        return entries

    return read


def _check_settings(entries: Iterable[Entry]) -> None:
    """Add a problem for each option and limit that the dialect of an entry does not allow."""
    for entry in entries:
        check_options(
            entry.own_settings.options, entry.place.at("options"), entry.base_spec.dialect
        )
        check_limits(entry.own_settings.limits, entry.place.at("limits"), entry.base_spec.dialect)


def _check_placeholders(env: Mapping[str, str], place: Place, spec: Spec | None = None) -> None:
    """Add a problem for each variable, header or URL that has `${NAME}`. Only the configs of other
    programs have placeholders, so nothing would replace it here."""
    is_remote = spec is not None and spec.source == "http"
    values: list[tuple[str, str, str]] = []  # the key of the entry, the name below it, the value
    for name, value in env.items():
        # The headers of a remote server are variables of its bridge process (`remote_server`).
        is_header = is_remote and name.startswith("EXTHOST_BRIDGE_")
        values.append(("headers" if is_header else "env", name, value))
    if spec is not None and is_remote:
        values.append(("url", "url", spec.argv[0] if spec.argv else ""))
    from exthost.config.placeholders import find_placeholder

    for key, name, value in values:
        found = None if isinstance(value, ValueReference) else find_placeholder(value)
        if found is None:
            continue
        reference = f'{{ from = "{found}" }}'
        if key == "headers":
            help = f"write NAME = {reference}, or token = {reference} for a bearer token"
        else:
            help = f"write {name} = {reference}: the whole value comes from a variable of the host"
        key_place = place.at(key).at(name) if key == "env" else place.at(key)
        key_place.add_problem(WRONG_VALUE, f"${{{found}}} is not replaced here", help)


def _check_names(entries: tuple[Entry, ...]) -> None:
    """Add a problem for each entry whose name an earlier one has."""
    first_places: dict[str, Place] = {}
    for entry in entries:
        name, place = entry.base_spec.id, entry.place.at(entry.name_key)
        if not name:
            continue
        if name not in first_places:
            first_places[name] = place
            continue
        from exthost.model.documents.toml_positions import find_line

        first_path = first_places[name].path
        line = find_line(place.problems.lines(), first_path)
        where = format_path(first_path) + (f", line {line}" if line else "")
        place.add_problem(DUPLICATE_NAME, f"{name!r} is already the name at {where}", "rename one")


def _read_extensions(value: Any, place: Place, context: _FileContext) -> tuple[Entry, ...]:
    if not isinstance(value, list | tuple):
        help = "write [[extensions]] with two brackets above the keys of each entry"
        place.add_problem(
            WRONG_VALUE, f"must be a list of tables, not {describe_type(value)}", help
        )
        return ()
    read = (
        read_entry(
            item,
            place.at(index),
            origin=context.origin,
            folder=context.folder,
            dialects=context.dialects,
        )
        for index, item in enumerate(value)
    )
    return tuple(entry for entry in read if entry is not None)


def _read_defaults(value: Any, place: Place, context: _FileContext) -> SettingValues:
    return _read_settings(value, place, context)


def _read_settings(value: Any, place: Place, context: _FileContext) -> SettingValues:
    read = read_settings(value, place, context.folder)
    check_options(read.options, place.at("options"))
    return read


class _Overrides(NamedTuple):
    """The section `overrides`: for each id, the settings and the value of `config`."""

    settings: Mapping[str, SettingValues]
    configs: Mapping[str, Any]


_NO_OVERRIDES = _Overrides(EMPTY_MAPPING, EMPTY_MAPPING)


def _read_overrides(value: Any, place: Place, context: _FileContext) -> _Overrides:
    """Read the section `overrides`, a table for each extension. In such a table, `config` is a key
    as in an entry, and the other keys are settings."""
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table by extension, not {describe_type(value)}")
        return _NO_OVERRIDES
    settings: dict[str, SettingValues] = {}
    configs: dict[str, Any] = {}
    for id, item in value.items():
        if not isinstance(id, str):
            place.add_problem(WRONG_VALUE, f"a key must be text, and one is {describe_type(id)}")
            continue
        item_place = place.at(id).for_extension(id)
        if isinstance(item, Mapping) and "config" in item:
            configs[id] = ENTRY_KEYS["config"](item["config"], item_place.at("config"))
            item = {key: setting for key, setting in item.items() if key != "config"}
        if isinstance(item, Mapping) and "enabled" in item:
            item_place.at("enabled").add_problem(
                UNKNOWN_KEY,
                "a discovered extension is not switched off here",
                "write disabled = [NAME] under [discovery], or use `exthost disable NAME`",
            )
            item = {key: setting for key, setting in item.items() if key != "enabled"}
        settings[id] = _read_settings(item, item_place, context)
    return _Overrides(MappingProxyType(settings), MappingProxyType(configs))


def _read_discovery(value: Any, place: Place, context: _FileContext) -> DiscoverySettings:
    from exthost.config.discovery_section import read_discovery

    return read_discovery(value, place, context.folder)


def _read_audit(value: Any, place: Place, context: _FileContext) -> str | None:
    from exthost.config.section_keys import AUDIT_KEYS

    path = read_table(value, place, AUDIT_KEYS).get("path")
    return None if path is None else resolve_path(context.folder, path)


def _read_cluster(value: Any, place: Place, context: _FileContext) -> ClusterSettings | None:
    return read_cluster_settings(value, place, context.folder)


def _read_gateway(value: Any, place: Place, context: _FileContext) -> GatewaySettings:
    return read_gateway_settings(value, place)


def _read_rules(value: Any, place: Place, context: _FileContext) -> Rules:
    from exthost.config.rules import read_rules

    return read_rules(value, place)


def _read_trust(value: Any, place: Place, context: _FileContext) -> TrustSettings:
    return read_trust(value, place)


def _read_hooks(value: Any, place: Place, context: _FileContext) -> HostHooks:
    return read_host_hooks(value, place)


# A test checks that `section_keys` has the same names.
_SECTIONS: Mapping[str, _SectionReader] = {
    "extensions": _read_extensions,
    "defaults": _read_defaults,
    "overrides": _read_overrides,
    "discovery": _read_discovery,
    "audit": _read_audit,
    "cluster": _read_cluster,
    "gateway": _read_gateway,
    "hooks": _read_hooks,
    "rules": _read_rules,
    "trust": _read_trust,
}


def _decode(source: str | bytes, origin: str) -> str:
    """Return the text of a config. Raises ConfigError if it is not UTF-8."""
    if isinstance(source, str):
        text = source
    else:
        try:
            text = source.decode("utf-8")
        except UnicodeDecodeError as error:
            if source[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise _utf_16_error(origin) from None
            if b"\0" in source:
                raise ConfigError(
                    UNREADABLE,
                    f"{origin} is not a text file",
                    help="a config is TOML or JSON: name another file with --config",
                    evidence=Evidence(path=origin),
                ) from None
            line = source.count(b"\n", 0, error.start) + 1
            raise _unreadable_error(origin, line, f"line {line} is not UTF-8 text") from error
    # Some editors begin a file with a byte-order mark, which TOML does not allow.
    return text.removeprefix("\ufeff")


def _utf_16_error(origin: str) -> ConfigError:
    return ConfigError(
        UNREADABLE,
        f"{origin}: it is UTF-16 text, and a config is UTF-8 text",
        help="save it as UTF-8 (in PowerShell: Out-File -Encoding utf8), or convert it: "
        f"iconv -f UTF-16 -t UTF-8 {shlex.quote(origin)}",
        evidence=Evidence(path=origin),
    )


def _foreign_format_help(text: str) -> str:
    """Return the help for a config that looks like JSON or YAML, or ""."""
    if text.lstrip().startswith("{"):
        return "it looks like JSON: rename it to mcp.json, and use --config mcp.json"
    if re.match(r"([ \t]*(#[^\n]*)?\n)*(---|\w+:)[ \t]*\n", text):
        return "it looks like YAML, and this file is TOML: an entry begins with [[extensions]]"
    return ""


def _unreadable_error(origin: str, line: int, reason: str, help: str = "") -> ConfigError:
    """Return the error for a config that is not valid TOML. `line` is 0 if it is not known."""
    where = f"{origin}:{line}" if line else origin
    if help:
        fix = help
    elif "UTF-8" in reason:
        fix = "save the file as UTF-8"
    elif "Cannot overwrite" in reason:  # the message of tomllib about a key that is repeated
        reason = reason.replace("Cannot overwrite a value", "this key is set twice")
        fix = "remove one of the two lines"
    else:
        fix = (
            f"correct {'that line' if line else 'it'}: text, and a number with a unit such as "
            '"10s", stands in quotes; see https://toml.io for the syntax'
        )
    return ConfigError(
        UNREADABLE,
        f"{where}: not valid TOML: {reason}",
        help=fix,
        evidence=Evidence(path=origin, line=line),
    )
