"""The JSON Schema of `exthost.toml`, made from the tables of keys.

Editors use it to complete and check a config while it is written. `docs/exthost.schema.json` is the
schema of the built-in dialects; `exthost schema` adds the sections of installed dialects.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from exthost.config.section_keys import SECTION_KEYS
from exthost.dialects import find
from exthost.dialects.options import COMMON_OPTIONS, Option
from exthost.dialects.package import DialectPackage
from exthost.errors import ConfigError
from exthost.model.documents.keys import Key, key_schema
from exthost.model.documents.setting_keys import SETTING_KEYS


def json_schema(packages: Iterable[DialectPackage] | None = None) -> dict[str, Any]:
    """Return the schema with the sections and options of these dialects, by default of all dialects
    that are built in or installed."""
    dialects = list(find.iter_packages() if packages is None else packages)
    sections = {name: _section_schema(key) for name, key in SECTION_KEYS.items()}
    for package in dialects:
        keys = dict(dialect_sections(package))
        for name in package.config_sections:
            sections[name] = _section_schema(keys[name]) if name in keys else {}
    names = [package.name for package in dialects]
    entry = sections["extensions"]["items"]["properties"]
    # Editors suggest the names of `enum`. Any other text is valid, because more dialects may
    # be installed where the config is used.
    entry["dialect"] = {
        "description": entry["dialect"]["description"],
        "anyOf": [{"enum": names}, {"type": "string"}],
    }
    definitions = {name: key_schema(key) for name, key in SETTING_KEYS.items()}
    definitions["options"]["properties"] = _option_schemas(dialects)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "exthost.toml",
        "description": "The config of exthost: extensions that run as child processes.",
        "type": "object",
        "properties": sections,
        "additionalProperties": False,
        "$defs": definitions,
    }


def dialect_sections(package: DialectPackage) -> Iterator[tuple[str, Key]]:
    """Yield the name and the `Key` of each section whose keys the dialect declares."""
    for name, reference in package.section_keys.items():
        yield name, find.load_reference(package, reference)


def _section_schema(key: Key) -> dict[str, Any]:
    """Return the schema of a section. The schemas of the keys of `setting_keys`, which several
    sections have, are references to `$defs`."""
    schema = key_schema(key)
    table = schema
    if key.type.layout == "list":
        table = schema["items"]
    elif key.type.layout == "names":
        table = schema["additionalProperties"]
    for name, setting_key in SETTING_KEYS.items():
        if key.type.keys.get(name) is setting_key:
            table["properties"][name] = {"$ref": f"#/$defs/{name}"}
    return schema


def _option_schemas(dialects: Iterable[DialectPackage]) -> dict[str, Any]:
    """Return the schema of each option. If several dialects have an option of the same name, a
    value may match the schema of any of them."""
    options: dict[str, list[Option]] = {name: [option] for name, option in COMMON_OPTIONS.items()}
    for package in dialects:
        for name, option in _declared_options(package).items():
            options.setdefault(name, []).append(option)
    return {name: _option_schema(namesakes) for name, namesakes in options.items()}


def _option_schema(options: list[Option]) -> dict[str, Any]:
    """Return the schema of an option. `options` are the declarations of all dialects that have an
    option of this name."""
    schemas = [dict(option.schema) for option in options]
    schema = schemas[0] if all(schema == schemas[0] for schema in schemas) else {"anyOf": schemas}
    return {"description": options[0].about, **schema}


def _declared_options(package: DialectPackage) -> Mapping[str, Option]:
    try:
        return find.find_dialect(package.name).options
    except ConfigError:  # the package is broken, which is reported when an extension uses it
        return {}
