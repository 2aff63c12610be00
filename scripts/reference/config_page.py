"""The page of the keys of exthost.toml, from the tables that its reader uses."""

from collections.abc import Mapping
from typing import Any

from exthost.config.json_schema import dialect_sections
from exthost.config.section_keys import SECTION_KEYS
from exthost.dialects import find
from exthost.dialects.base import Dialect
from exthost.dialects.options import COMMON_OPTIONS
from exthost.extension.policy import effective_breaker, effective_restart_policy
from exthost.launch.limits import resolve_limits
from exthost.model.documents.keys import Key
from exthost.model.documents.setting_keys import SETTING_KEYS
from exthost.model.spec import Spec
from scripts.reference.markdown import code, page, table

_HEADER = ("Key", "Type", "Default", "Example", "")

_INTRODUCTION = """\
A config is a TOML file, by default `./exthost.toml`, or the same as a dict for
`exthost.Host.from_config`. An unknown key is an error. `exthost validate` reports every mistake with
its line.

[`exthost.schema.json`](../exthost.schema.json) is a JSON Schema for editors; `exthost schema` prints
it with the sections of the dialects that you have installed. With Taplo (Even Better TOML), the first
line of a config names it: `#:schema ./exthost.schema.json`.

A **duration** is text with a unit (`"500ms"`, `"2s"`, `"1m"`, `"1h"`), or a number of seconds. A
**size** is text with a unit (`"256MB"` is 10⁶, `"256MiB"` is 2²⁰), or a number of bytes. A relative
path is relative to the folder of the config. An empty default means that the dialect decides; see
[the defaults of each dialect](#defaults-of-each-dialect).
"""

_SETTINGS = """\
These keys may stand in an entry of an extension (also in a section of a dialect), in
`[overrides.<id>]` and in `[defaults]`. An entry takes precedence over overrides, and these over
defaults. For an extension that was discovered, overrides and defaults take precedence over its
manifest. Tables are merged key by key, except `permissions`, which is replaced as a whole.
"""


def config_page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    sections = dict(SECTION_KEYS)
    for name in find.BUILT_IN:
        sections |= dict(dialect_sections(find.find_package(name)))
    for name, key in sections.items():
        parts += _section(name, key)
    parts += ["## Settings of an extension", _SETTINGS, _table(SETTING_KEYS)]
    for name, key in SETTING_KEYS.items():
        if key.type.keys:
            parts += [f"### `{name}`", _table(key.type.keys)]
    parts += ["## Defaults of each dialect", _defaults(), "## Options of each dialect", _options()]
    return page("Configuration", *parts)


def _section(name: str, key: Key) -> list[str]:
    header = {"list": f"[[{name}]]", "names": f"[{name}.NAME]", "table": f"[{name}]"}
    own = {
        key_name: inner
        for key_name, inner in key.type.keys.items()
        if SETTING_KEYS.get(key_name) is not inner
    }
    parts = [f"## `{header[key.type.layout]}`", key.about, _table(own)]
    if len(own) < len(key.type.keys):
        settings = "[settings of an extension](#settings-of-an-extension)"
        parts.append(f"And the {settings}." if own else f"Its keys are the {settings}.")
    for key_name, inner_key in own.items():
        if inner_key.type.keys:
            parts += [f"### `{name}.{key_name}`", _table(inner_key.type.keys)]
    return parts


def _table(keys: Mapping[str, Key]) -> str:
    return table(
        _HEADER,
        (
            (
                code(name) + (" (required)" if key.required else ""),
                key.type.description,
                key.default.strip("()") if key.default.startswith("(") else code(key.default),
                code(_shortened(key.example)),
                key.about,
            )
            for name, key in keys.items()
        ),
    )


def _shortened(example: str) -> str:
    is_digest = example.startswith('"') and len(example) > 64
    return f'{example[:9]}…"' if is_digest else example


def _defaults() -> str:
    dialects = [find.find_dialect(name) for name in find.BUILT_IN]
    columns = [_defaults_of(dialect) for dialect in dialects]
    rows = [
        (code(name), *(_shown(column.get(name)) for column in columns))
        for name in columns[0]
        if any(column.get(name) is not None for column in columns)
    ]
    return table(("Key", *find.BUILT_IN), rows)


def _defaults_of(dialect: Dialect) -> dict[str, Any]:
    spec = Spec(id="any", argv=(), dialect=dialect.name)
    groups = {
        "limits": resolve_limits(spec, dialect),
        "restart": effective_restart_policy(spec, dialect),
        "breaker": effective_breaker(spec, dialect),
    }
    values: dict[str, Any] = {}
    for group, held in groups.items():
        for name in SETTING_KEYS[group].type.keys:
            values[f"{group}.{name}"] = None if held is None else getattr(held, name)
    restart = effective_restart_policy(spec, dialect)
    if restart.strategy != "never" and restart.max_retries is None:
        values["restart.max_retries"] = "unlimited"
    traits = dialect.traits
    return values | {
        "env_policy": traits.environment,
        "retry": traits.retry,
        "start": traits.start,
    }


_MEBIBYTE = 2**20


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value and value % _MEBIBYTE == 0:
        return f"{value // _MEBIBYTE} MiB"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _options() -> str:
    rows = [("every", *_option_cells(name, option)) for name, option in COMMON_OPTIONS.items()]
    for dialect in find.BUILT_IN:
        for name, option in find.find_dialect(dialect).options.items():
            rows.append((dialect, *_option_cells(name, option)))
    return table(("Dialect", "Option", "Type", ""), rows)


def _option_cells(name: str, option: Any) -> tuple[str, str, str]:
    return code(name), option.expected, option.about
