"""Reads `extensions.yaml`, the config file of nexo's own host (the requirement nexo-disc-11).

The table `extensions` has the keys of `[discovery]`, and `transport_defaults.stdio` sets limits.
Nexo's host may know other keys; they have no effect here, and a note reports each. But a key that
looks like a misspelling of a known key is a problem. A relative search path is relative to the
working folder if it exists there, as in nexo's host, and otherwise to the folder of the file.

PyYAML is an optional dependency and is imported when the first YAML config is read.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exthost.config.discovery_section import (
    DISCOVERY_KEYS,
    WATCH_KEYS,
    DiscoverySettings,
    read_discovery,
)
from exthost.config.host_config import Config
from exthost.errors import ConfigError, Evidence
from exthost.model.documents.problems import UNREADABLE, WRONG_VALUE, Place, Problems
from exthost.model.documents.readers import (
    Reader,
    describe_type,
    drop_foreign_keys,
    integer_reader,
    read_table,
)
from exthost.model.documents.settings import SettingValues
from exthost.model.documents.toml_positions import KeyPath
from exthost.model.spec import Limits

# Keys that nexo's host has beside or below `extensions`, and that have no effect here.
_FOREIGN_KEYS = ("schema_version", "doctor", "entries")

# The limits of nexo's host, in milliseconds, and the fields of `Limits` that they set, in seconds.
_LIMITS: Mapping[str, str] = {
    "handshake_timeout_ms": "handshake",
    "call_timeout_ms": "call",
    "shutdown_grace_ms": "stop",
}

_TRANSPORTS = "transport_defaults"


def config_from_yaml(source: bytes, origin: str, folder: str | None) -> Config:
    """Return the config in this YAML, read from the file `origin` in `folder`."""
    try:
        import yaml
    except ImportError:
        raise ConfigError(
            "X0130",
            f"{origin} is YAML, and PyYAML is not installed",
            help="pip install 'exthost[yaml]', or write the same as [discovery] in exthost.toml",
            evidence=Evidence(path=origin),
        ) from None
    try:
        text = source.decode("utf-8-sig")
        document = yaml.safe_load(text)
        lines = _find_key_lines(yaml.compose(text, Loader=yaml.SafeLoader))
    except RecursionError as error:
        raise _unreadable_error(origin, 0, "it is nested too deep") from error
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        raise _unreadable_error(origin, line, f"line {line} is not UTF-8 text") from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = str(getattr(error, "problem", None) or error)
        raise _unreadable_error(origin, mark.line + 1 if mark is not None else 0, reason) from error
    except (
        AttributeError,
        KeyError,
        IndexError,
    ) as error:  # what PyYAML raises for `!!timestamp x`, `!!bool x` and `!!int ""`
        reason = "a value does not have the type of its tag (!!)"
        raise _unreadable_error(origin, 0, reason) from error
    except _DuplicateKey as duplicate:
        raise _unreadable_error(origin, duplicate.line, f"`{duplicate.key}` is repeated") from None
    problems = Problems(origin, _lines=lines)
    place = Place(problems)
    if not isinstance(document, Mapping) or "extensions" not in document:
        place.add_problem(
            WRONG_VALUE, "there is no `extensions`", "begin the file with `extensions:`"
        )
    reader = _FileReader()
    top = {"extensions": reader.read_section, **reader.other_readers()}
    # An empty file is null in YAML.
    table = document if document is not None else {}
    sections = read_table(drop_foreign_keys(table, place, top), place, top)
    problems.raise_first()
    return Config(
        discovery=sections["extensions"],
        defaults=SettingValues(limits=reader.limits),
        origin=origin,
        folder=folder,
        notes=tuple(problems.notes),
    )


class _DuplicateKey(Exception):
    """Raised if a table has the same key twice. `line` is the line of the second occurrence."""

    def __init__(self, key: str, line: int) -> None:
        self.key, self.line = key, line


class _FileReader:
    """Reads the sections of a file. `limits` are the limits that were read so far."""

    def __init__(self) -> None:
        self.limits = Limits()

    def other_readers(self) -> dict[str, Reader]:
        """Return the readers of the keys that `[discovery]` does not have. As in nexo's host, these
        keys may be beside `extensions` or in it."""
        return {_TRANSPORTS: self._read_transports, **dict.fromkeys(_FOREIGN_KEYS, _note_ignored)}

    def read_section(self, value: Any, place: Place) -> DiscoverySettings:
        """Read the section `extensions`."""
        # `extensions:` with nothing below it is null in YAML, and means all defaults.
        table: Any = {} if value is None else value
        if isinstance(value, Mapping):
            other_readers = self.other_readers()
            other_keys = {key: value[key] for key in value if key in other_readers}
            read_table(other_keys, place, other_readers)
            table = {key: item for key, item in value.items() if key not in other_readers}
            table = drop_foreign_keys(table, place, DISCOVERY_KEYS)
            if "watch" in table:
                table["watch"] = drop_foreign_keys(table["watch"], place.at("watch"), WATCH_KEYS)
        # Without a folder, search paths stay relative: the search itself resolves them.
        return replace(read_discovery(table, place, None), prefers_working_folder=True)

    def _read_transports(self, value: Any, place: Place) -> None:
        """Read `transport_defaults`, of which only `stdio` has an effect here."""
        if not isinstance(value, Mapping):
            place.add_problem(WRONG_VALUE, f"must be a table, not {describe_type(value)}")
            return
        for name, settings in value.items():
            if name == "stdio":
                self._read_stdio(settings, place.at(name))
            else:
                place.at(str(name)).note_ignored()

    def _read_stdio(self, value: Any, place: Place) -> None:
        """Read the limits in `transport_defaults.stdio`."""
        if not isinstance(value, Mapping):
            place.add_problem(WRONG_VALUE, f"must be a table, not {describe_type(value)}")
            return
        for key, item in value.items():
            if key not in _LIMITS:
                place.at(str(key)).note_ignored()
                continue
            # A grace of 0 kills at once. A timeout of 0 could never be met.
            minimum = 0 if key == "shutdown_grace_ms" else 1
            milliseconds = integer_reader(minimum)(item, place.at(key))
            if milliseconds is not None:
                seconds: Any = {_LIMITS[key]: milliseconds / 1000}
                self.limits = replace(self.limits, **seconds)


def _note_ignored(value: Any, place: Place) -> None:
    place.note_ignored()


def _find_key_lines(root: Any) -> dict[KeyPath, int]:
    """Return the line of each key and list item. A node that is used several times, by aliases, is
    only visited once, because it may contain itself."""
    lines: dict[KeyPath, int] = {}
    visited_ids: set[int] = set()
    remaining: list[tuple[KeyPath, Any]] = [((), root)]
    while remaining:
        path, node = remaining.pop()
        if node is None or id(node) in visited_ids:
            continue
        visited_ids.add(id(node))
        if node.id == "mapping":
            for key, value in node.value:
                if isinstance(key.value, str):
                    if (*path, key.value) in lines:  # an error in YAML, which PyYAML accepts
                        raise _DuplicateKey(key.value, key.start_mark.line + 1)
                    lines[(*path, key.value)] = key.start_mark.line + 1
                    remaining.append(((*path, key.value), value))
        elif node.id == "sequence":
            for index, value in enumerate(node.value):
                lines[(*path, index)] = value.start_mark.line + 1
                remaining.append(((*path, index), value))
    return lines


def _unreadable_error(origin: str, line: int, reason: str) -> ConfigError:
    where = f"{origin}:{line}" if line else origin
    return ConfigError(
        UNREADABLE,
        f"{where}: not valid YAML: {reason}",
        help="correct the line named" if line else "correct the file",
        evidence=Evidence(path=origin, line=line),
    )
