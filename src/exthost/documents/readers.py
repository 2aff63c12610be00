"""Readers: functions that check single values, and tables by the list of their keys.

A reader takes a raw value and its Place. It returns the value in its final form, or records a
mistake at the Place and returns None, which in this package always means "not set". A table is read
with a mapping of key → reader, so the keys of each table are data, and the check for unknown keys
is written once.

Messages do not repeat a wrong value, because it may be a secret; they name its kind. Only a value
from a fixed set of words is repeated.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from typing import Any, TypeAlias

from exthost import names
from exthost.documents import units
from exthost.documents.problems import BAD_UNIT, UNKNOWN_KEY, WRONG_VALUE, Place
from exthost.spec import HostEnvRef

Reader: TypeAlias = Callable[[Any, Place], Any]

# The JSON parsers of extensions commonly have a limit somewhat above this.
_MAX_DEPTH = 100

# A mapping made in Python may contain itself twice, and copying it would never end.
_MAX_VALUES = 100_000

# How much of two keys is the same if one is the other with a typing error: `extention` is 0.84 of
# `extensions`, and `retry_policy` is 0.67 of `env_policy`.
_MISSPELT = 0.8

# For resource limits, counts and depths: anything larger is a mistake and does not fit the kernel's
# types.
_MAX_COUNT = 2**31 - 1


def read_table(value: Any, place: Place, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Read each key of a table with its reader. An unknown key is a mistake."""
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table, and is {describe_type(value)}")
        return {}
    read: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            place.add_problem(WRONG_VALUE, f"a key must be text, and one is {describe_type(key)}")
        elif key not in readers:
            place.at(key).add_problem(UNKNOWN_KEY, *_unknown(key, readers))
        else:
            read[key] = readers[key](item, place.at(key))
    return read


def drop_foreign_keys(value: Any, place: Place, known: Iterable[str]) -> Any:
    """Return a table without the keys that are nearly no known one, and note each of them.

    This is for files of other programs, which may have keys of their own. A key that is nearly a
    known one stays, and is a mistake: a typing error must not switch anything on or off."""
    if not isinstance(value, Mapping):
        return value
    remaining = {}
    for key, item in value.items():
        if isinstance(key, str) and key not in known and not _is_misspelt(key, known):
            place.at(key).note_ignored()
        else:
            remaining[key] = item
    return remaining


def _is_misspelt(key: str, known: Iterable[str]) -> bool:
    """Return whether this is a known key but for a typing error. `nearest` guesses more boldly."""
    own = _letters(key)
    return any(SequenceMatcher(None, own, _letters(other)).ratio() >= _MISSPELT for other in known)


def _letters(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


def _unknown(key: str, known: Mapping[str, Reader]) -> tuple[str, str]:
    near = find_nearest(key, known)
    guess = f"; did you mean `{near}`?" if near else ""
    return f"unknown key{guess}", f"the keys here are {', '.join(sorted(known))}"


def find_nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that `word` is a misspelling of, or ""."""
    return names.nearest(word, sorted(known)) or ""


def read_text(value: Any, place: Place) -> str | None:
    """Read text that is not blank and that the operating system accepts."""
    if not isinstance(value, str):
        place.add_problem(WRONG_VALUE, f"must be text, and is {describe_type(value)}")
        return None
    if not value.strip():
        place.add_problem(WRONG_VALUE, "must not be blank")
        return None
    return _passable(value, place)


def read_any_text(value: Any, place: Place) -> str | None:
    """Read text that a process can be given. It may be empty."""
    if not isinstance(value, str):
        place.add_problem(WRONG_VALUE, f"must be text, and is {describe_type(value)}")
        return None
    return _passable(value, place)


def _passable(value: str, place: Place) -> str | None:
    if "\0" in value:
        place.add_problem(WRONG_VALUE, "must not contain a NUL character")
        return None
    try:
        # As Python encodes text for the operating system: file names that are not UTF-8 may pass.
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        place.add_problem(
            WRONG_VALUE, "contains half of a surrogate pair, which is not a character"
        )
        return None
    return value


def read_flag(value: Any, place: Place) -> bool | None:
    """Read true or false; 0, 1 and text are mistakes."""
    if not isinstance(value, bool):
        place.add_problem(WRONG_VALUE, f"must be true or false, and is {describe_type(value)}")
        return None
    return value


def integer_reader(least: int) -> Reader:
    """Return a reader of whole numbers that are at least `least`."""

    def read(value: Any, place: Place) -> int | None:
        if not isinstance(value, int) or isinstance(value, bool):
            place.add_problem(WRONG_VALUE, f"must be a whole number, and is {describe_type(value)}")
            return None
        if not least <= value <= _MAX_COUNT:
            place.add_problem(WRONG_VALUE, f"must be between {least} and {_MAX_COUNT}")
            return None
        return int(value)

    return read


def read_duration(value: Any, place: Place) -> float | None:
    """Read a duration in seconds, which may be 0."""
    try:
        return units.parse_seconds(value)
    except units.UnitError as error:
        place.add_problem(BAD_UNIT, str(error))
        return None


def read_positive_duration(value: Any, place: Place) -> float | None:
    """Read a duration above 0: a time limit of 0 could never be met."""
    read = read_duration(value, place)
    if read == 0:
        place.add_problem(BAD_UNIT, "must be longer than 0; leave the key out for the default")
        return None
    return read


def read_size(value: Any, place: Place) -> int | None:
    """Read a size in bytes, at least 1."""
    try:
        read = units.parse_size(value)
    except units.UnitError as error:
        place.add_problem(BAD_UNIT, str(error))
        return None
    if read == 0:
        place.add_problem(BAD_UNIT, "must be more than 0; leave the key out for the default")
        return None
    return read


def choice_reader(*known: str) -> Reader:
    """Return a reader that accepts only these words. It reads `on_demand` as `on-demand`."""

    def read(value: Any, place: Place) -> str | None:
        accepted = ", ".join(f'"{word}"' for word in known)
        if not isinstance(value, str):
            place.add_problem(
                WRONG_VALUE, f"must be one of {accepted}, and is {describe_type(value)}"
            )
            return None
        plain = value.replace("_", "-")
        if plain not in known:
            near = find_nearest(plain, frozenset(known))
            guess = f'; did you mean "{near}"?' if near else ""
            place.add_problem(
                WRONG_VALUE, f"must be one of {accepted}, and is {quote_text(value)}{guess}"
            )
            return None
        return plain

    return read


def read_any_text_list(value: Any, place: Place) -> tuple[str, ...] | None:
    """Read a list of text that a process can be given."""
    return _list(value, place, read_any_text)


def read_text_list(value: Any, place: Place) -> tuple[str, ...] | None:
    """Read a list of text that is not blank."""
    return _list(value, place, read_text)


def _list(value: Any, place: Place, read_item: Reader) -> tuple[str, ...] | None:
    if not isinstance(value, list | tuple):
        hint = "put it in [ ]" if isinstance(value, str) else ""
        place.add_problem(
            WRONG_VALUE, f"must be a list of text, and is {describe_type(value)}", hint
        )
        return None
    read = [read_item(item, place.at(index)) for index, item in enumerate(value)]
    return tuple(item for item in read if item is not None)


def read_variables(value: Any, place: Place) -> dict[str, str] | None:
    """Read environment variables: a table of text."""
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table of text, and is {describe_type(value)}")
        return None
    read: dict[str, str] = {}
    for name, item in value.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            place.add_problem(WRONG_VALUE, "a variable's name must be text without = in it")
            continue
        if not isinstance(item, str):
            help = "put the value in quotes" if isinstance(item, int | float) else ""
            place.at(name).add_problem(
                WRONG_VALUE, f"must be text, and is {describe_type(item)}", help
            )
            continue
        passable = _passable(item, place.at(name))
        if passable is not None and _passable(name, place.at(name)) is not None:
            read[name] = passable
    return read


def read_variables_or_references(value: Any, place: Place) -> dict[str, str] | None:
    """Read environment variables that may name one of the host's own: { from = "NAME" }.

    Only for configs: a manifest must not read the host's variables.
    """
    if not isinstance(value, Mapping):
        return read_variables(value, place)
    named = {
        key: item
        for key, item in value.items()
        if isinstance(key, str) and isinstance(item, Mapping)
    }
    read = read_variables({key: item for key, item in value.items() if key not in named}, place)
    assert read is not None
    for key, item in named.items():
        host_name = read_table(item, place.at(key), {"from": read_text}).get("from")
        if "from" not in item:
            place.at(key).add_problem(WRONG_VALUE, 'must be text, or { from = "NAME" }')
        elif host_name is not None and read_variables({key: host_name}, place):
            read[key] = HostEnvRef(host_name)
    return read


def read_json_value(value: Any, place: Place) -> Any:
    """Read any JSON value. Return a copy, which later changes to the original do not affect."""
    return _Copy().of(value, place, _MAX_DEPTH)


def read_json_table(value: Any, place: Place) -> dict[str, Any] | None:
    """Read a table of JSON values."""
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table, and is {describe_type(value)}")
        return None
    read = read_json_value(value, place)
    return read if isinstance(read, dict) else None


class _Copy:
    """Copies one JSON value and counts the values that it may still copy."""

    def __init__(self) -> None:
        self.left = _MAX_VALUES

    def of(self, value: Any, place: Place, depth: int) -> Any:
        if self.left == 0:
            return None
        self.left -= 1
        if self.left == 0 or depth == 0:
            self.left = 0  # ends the copy, so that the mistake is reported once
            limits = f"more than {_MAX_DEPTH} deep or {_MAX_VALUES} values large"
            place.add_problem(WRONG_VALUE, f"is {limits}, or contains itself")
            return None
        if isinstance(value, Mapping):
            return self._table(value, place, depth)
        if isinstance(value, list | tuple):
            return [self.of(item, place.at(i), depth - 1) for i, item in enumerate(value)]
        if isinstance(value, float) and not math.isfinite(value):
            place.add_problem(WRONG_VALUE, "is a number that JSON cannot express")
            return None
        if value is None or isinstance(value, str | int | float):
            return value
        place.add_problem(
            WRONG_VALUE, f"is {describe_type(value)}, which JSON does not have", "put it in quotes"
        )
        return None

    def _table(self, value: Mapping[Any, Any], place: Place, depth: int) -> dict[str, Any]:
        read = {}
        for key, item in value.items():
            if isinstance(key, str):
                read[key] = self.of(item, place.at(key), depth - 1)
            else:
                place.add_problem(
                    WRONG_VALUE, f"a key must be text, and one is {describe_type(key)}"
                )
        return read


def quote_text(value: str) -> str:
    """Return text in quotes for a message, cut if it is long."""
    return repr(value) if len(value) <= 60 else f"{value[:60]!r}…"


def describe_type(value: Any) -> str:
    """Return the kind of a value in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "a decimal number"
    if isinstance(value, int):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    return f"a {type(value).__name__}"
