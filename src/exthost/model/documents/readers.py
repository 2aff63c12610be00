"""Readers: functions that check a value of a config or manifest and convert it.

A reader takes the raw value and its Place. It returns the converted value, or adds a problem to the
Place and returns None, which in this package always means "not set". `read_table` reads a table
with a mapping of key → reader, and reports keys that are not in the mapping:

    read_table({"call": "10s"}, place, {"call": read_duration})    returns {"call": 10.0}
    read_table({"cal": "10s"}, place, {"call": read_duration})     returns {}, and adds the problem
                                                  "unknown key; did you mean `call`?" to the place

Messages do not contain a wrong value, because it may be a secret; they name its type instead. The
exceptions are durations, sizes, and values that must be one of a fixed set of texts.

json and difflib are imported lazily, because few configs need them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from exthost.model import names
from exthost.model.documents import units
from exthost.model.documents.problems import BAD_UNIT, UNKNOWN_KEY, WRONG_VALUE, Place

Reader: TypeAlias = Callable[[Any, Place], Any]

# How deep a JSON value may be nested: the JSON parsers of many extensions accept little more.
_MAX_DEPTH = 100

# How many values a JSON value may contain. A mapping made in Python may contain itself, so that a
# copy of it would have no end.
_MAX_VALUES = 100_000

# A key whose `SequenceMatcher` ratio to a known key is at least this value is considered a
# misspelling of the known key. The ratio of `extention` and `extensions` is 0.84, that of
# `retry_policy` and `env_policy`, which are different words, is 0.67.
_MISSPELT_RATIO = 0.8

# For resource limits, counts and depths: a larger number does not fit the kernel's types.
_MAX_COUNT = 2**31 - 1


class ValueReference(str):
    """Where the value of an environment variable is, used in place of that value.

    The host reads the value when it starts the process, so that no config contains a secret. It is
    a str, so that the variables of an extension are a mapping of str to str in any case.
    """

    __slots__ = ()


class HostEnvRef(ValueReference):
    """The name of a host environment variable."""

    __slots__ = ()


class SecretValue(ValueReference):
    """The value that a reference led to. Its `repr` does not show it. `source` is the reference."""

    __slots__ = ("source",)
    source: SecretSource

    @classmethod
    def make(cls, value: str, source: SecretSource) -> SecretValue:
        secret = cls(value)
        secret.source = source
        return secret

    def __repr__(self) -> str:
        return "'***'"


class SecretSource(ValueReference):
    """A file, a command or an entry of the keyring that has a secret. The text is JSON, such as
    `{"file": "token"}`."""

    __slots__ = ()

    @classmethod
    def make(cls, kind: str, place: str | tuple[str, ...]) -> SecretSource:
        import json

        return cls(json.dumps({kind: place}))

    @property
    def kind(self) -> str:
        """ "file", "command" or "keyring"."""
        import json

        return str(next(iter(json.loads(self))))

    @property
    def place(self) -> Any:
        """The path of the file, the command with its arguments, or "SERVICE/USER"."""
        import json

        return json.loads(self)[self.kind]


def read_table(value: Any, place: Place, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Read each key of a table with its reader. A key without a reader is a problem."""
    if not isinstance(value, Mapping):
        place.add_problem(
            WRONG_VALUE,
            f"must be a table, not {describe_type(value)}",
            _table_example(place, readers),
        )
        return {}
    values: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            place.add_problem(WRONG_VALUE, f"a key must be text, and one is {describe_type(key)}")
        elif key not in readers:
            place.at(key).add_problem(UNKNOWN_KEY, *_unknown_key_texts(key, readers))
        else:
            values[key] = readers[key](item, place.at(key))
    return values


def drop_foreign_keys(value: Any, place: Place, known: Iterable[str]) -> Any:
    """Return a table without the keys that are not in `known`, and add a note for each of them.

    This is for files that are shared with other programs. A key that looks like a misspelling of a
    known key stays in the table, so that `read_table` reports it: a typing error must not turn a
    setting off without notice. A value that is not a table is returned unchanged.
    """
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
    """Return whether this looks like a misspelling of a known key. The threshold is stricter than
    that of `find_nearest`, which only makes suggestions."""
    letters = _letters(key)
    from difflib import SequenceMatcher

    return any(
        SequenceMatcher(None, letters, _letters(other)).ratio() >= _MISSPELT_RATIO
        for other in known
    )


def _letters(key: str) -> str:
    """Return the part of a key that is compared: `max_retries` and `maxRetries` are the same."""
    return key.lower().replace("_", "").replace("-", "")


def _unknown_key_texts(key: str, known: Mapping[str, Reader]) -> tuple[str, str]:
    """Return the text and the help of a problem about an unknown key."""
    near = find_nearest(key, known)
    guess = f"; did you mean `{near}`?" if near else ""
    return f"unknown key{guess}", f"the keys here are {', '.join(sorted(known))}"


def find_nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that `name` is probably a misspelling of, or ""."""
    return names.nearest(name, sorted(known)) or ""


def read_text(value: Any, place: Place) -> str | None:
    """Read text that is not blank and that the operating system accepts."""
    if not isinstance(value, str):
        is_single = isinstance(value, int | float)
        help = "write the value in quotes" if is_single else ""
        place.add_problem(WRONG_VALUE, f"must be text, not {describe_type(value)}", help)
        return None
    if not value.strip():
        place.add_problem(WRONG_VALUE, "must not be blank", "write a text in the quotes")
        return None
    return _check_text(value, place)


def read_any_text(value: Any, place: Place) -> str | None:
    """Read text that can be an argument or a variable of a process. It may be empty or blank."""
    if not isinstance(value, str):
        place.add_problem(WRONG_VALUE, f"must be text, not {describe_type(value)}")
        return None
    return _check_text(value, place)


def _check_text(value: str, place: Place) -> str | None:
    """Return text that the operating system accepts as an argument or a variable."""
    if "\0" in value:
        place.add_problem(WRONG_VALUE, "must not contain a NUL character")
        return None
    try:
        # Python encodes text for the operating system like this. "surrogateescape" allows file
        # names that are not UTF-8.
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        place.add_problem(
            WRONG_VALUE, "contains half of a surrogate pair, which is not a character"
        )
        return None
    return value


def read_flag(value: Any, place: Place) -> bool | None:
    """Read true or false. 0, 1 and text are not accepted."""
    if not isinstance(value, bool):
        place.add_problem(WRONG_VALUE, f"must be true or false, not {describe_type(value)}")
        return None
    return value


def integer_reader(minimum: int) -> Reader:
    """Return a reader of whole numbers that are at least `minimum`."""

    def read(value: Any, place: Place) -> int | None:
        if not isinstance(value, int) or isinstance(value, bool):
            place.add_problem(WRONG_VALUE, f"must be a whole number, not {describe_type(value)}")
            return None
        if not minimum <= value <= _MAX_COUNT:
            place.add_problem(WRONG_VALUE, f"must be between {minimum} and {_MAX_COUNT}")
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
    seconds = read_duration(value, place)
    if seconds == 0:
        place.add_problem(BAD_UNIT, "must be longer than 0; remove the key for the default")
        return None
    return seconds


def read_size(value: Any, place: Place) -> int | None:
    """Read a size in bytes, at least 1."""
    try:
        size = units.parse_size(value)
    except units.UnitError as error:
        place.add_problem(BAD_UNIT, str(error))
        return None
    if size == 0:
        place.add_problem(BAD_UNIT, "must be more than 0; remove the key for the default")
        return None
    return size


def choice_reader(*choices: str) -> Reader:
    """Return a reader that accepts only these texts. It reads `on_demand` as `on-demand`."""

    def read(value: Any, place: Place) -> str | None:
        accepted = ", ".join(f'"{choice}"' for choice in choices)
        if not isinstance(value, str):
            place.add_problem(WRONG_VALUE, f"must be one of {accepted}, not {describe_type(value)}")
            return None
        plain = value.replace("_", "-")
        if plain not in choices:
            near = find_nearest(plain, frozenset(choices))
            guess = f'; did you mean "{near}"?' if near else ""
            place.add_problem(
                WRONG_VALUE, f"must be one of {accepted}, not {quote_text(value)}{guess}"
            )
            return None
        return plain

    return read


def read_any_text_list(value: Any, place: Place) -> tuple[str, ...] | None:
    """Read a list of texts, each as `read_any_text` does."""
    return _read_list(value, place, read_any_text)


def read_text_list(value: Any, place: Place) -> tuple[str, ...] | None:
    """Read a list of texts that are not blank."""
    return _read_list(value, place, read_text)


def _read_list(value: Any, place: Place, read_item: Reader) -> tuple[str, ...] | None:
    if not isinstance(value, list | tuple):
        hint = "put it in [ ]" if isinstance(value, str) else ""
        place.add_problem(WRONG_VALUE, f"must be a list of text, not {describe_type(value)}", hint)
        return None
    items = [read_item(item, place.at(index)) for index, item in enumerate(value)]
    return tuple(item for item in items if item is not None)


def read_variables(value: Any, place: Place) -> dict[str, str] | None:
    """Read environment variables: a table of name → text."""
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table of text, not {describe_type(value)}")
        return None
    variables: dict[str, str] = {}
    for name, item in value.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            place.add_problem(WRONG_VALUE, "a variable's name must be text without = in it")
            continue
        if not isinstance(item, str):
            help = "put the value in quotes" if isinstance(item, int | float) else ""
            place.at(name).add_problem(
                WRONG_VALUE, f"must be text, not {describe_type(item)}", help
            )
            continue
        checked = _check_text(item, place.at(name))
        if checked is not None and _check_text(name, place.at(name)) is not None:
            variables[name] = checked
    return variables


def read_variables_or_references(value: Any, place: Place) -> dict[str, str] | None:
    """Read environment variables: a table of name → text, or name → a reference, whose value is
    read when a process starts. `{ from = "NAME" }` is a variable of the host, and `file`, `command`
    and `keyring` are other places of a secret.

    This is for configs. A manifest is read with `read_variables`, because an extension must not be
    able to get any variable of the host that it names.
    """
    if not isinstance(value, Mapping):
        return read_variables(value, place)
    references = {
        name: item
        for name, item in value.items()
        if isinstance(name, str) and isinstance(item, Mapping)
    }
    variables = read_variables(
        {name: item for name, item in value.items() if name not in references}, place
    )
    assert variables is not None
    for name, item in references.items():
        reference = read_table(item, place.at(name), _REFERENCE_READERS)
        if len(item) != 1 or not item.keys() <= _REFERENCE_READERS.keys():
            forms = " or ".join(f"{{ {kind} = … }}" for kind in _REFERENCE_READERS)
            place.at(name).add_problem(WRONG_VALUE, f"must be text, or one of {forms}")
            continue
        ((kind, target),) = reference.items()
        # `read_variables` is called only to check the name of the variable.
        if target is None or not read_variables({name: ""}, place):
            continue
        variables[name] = HostEnvRef(target) if kind == "from" else SecretSource.make(kind, target)
    return variables


def _read_command(value: Any, place: Place) -> tuple[str, ...] | None:
    """Read a command that prints a secret: a list of texts, of which the first is a program."""
    command = read_any_text_list(value, place)
    if command is not None and not (command and command[0]):
        place.add_problem(WRONG_VALUE, "must name a program")
        return None
    return command


def _read_keyring_entry(value: Any, place: Place) -> str | None:
    """Read the name of an entry of the keyring: "SERVICE/USER"."""
    text = read_text(value, place)
    # No part may be empty: not the service, not the slash, not the user.
    if text is not None and not all(text.rpartition("/")):
        place.add_problem(WRONG_VALUE, 'must be "SERVICE/USER"')
        return None
    return text


# The readers of a reference, by its only key: `{ from = "NAME" }`.
_REFERENCE_READERS: Mapping[str, Reader] = {
    "from": read_text,
    "file": read_text,
    "command": _read_command,
    "keyring": _read_keyring_entry,
}


def _table_example(place: Place, readers: Mapping[str, Reader]) -> str:
    """Return how to write this table, with one of its keys; "" if none of them has an example."""
    for key, reader in readers.items():
        example = getattr(reader, "example", "")  # a `Key` has one
        if example and place.path:
            return f"write {place.path[-1]} = {{ {key} = {example} }}"
    return ""


def read_json_value(value: Any, place: Place) -> Any:
    """Read any JSON value. Return a copy, which later changes to the original do not affect."""
    return _JsonCopier().copy(value, place, _MAX_DEPTH)


def read_json_table(value: Any, place: Place) -> dict[str, Any] | None:
    """Read a table of JSON values."""
    if not isinstance(value, Mapping):
        place.add_problem(WRONG_VALUE, f"must be a table, not {describe_type(value)}")
        return None
    table = read_json_value(value, place)
    return table if isinstance(table, dict) else None


class _JsonCopier:
    """Copies one JSON value, and limits how deep and how large it may be."""

    def __init__(self) -> None:
        self.remaining = _MAX_VALUES  # how many values may still be copied; 0 stops the copy

    def copy(self, value: Any, place: Place, depth: int) -> Any:
        """Return a copy. `depth` is how many more levels may be nested. If a limit is exceeded, add
        a problem and return None."""
        if self.remaining == 0:  # a limit was exceeded, which is reported already
            return None
        self.remaining -= 1
        if self.remaining == 0 or depth == 0:
            self.remaining = 0  # stops the copy, so that the problem is reported once
            limits = f"more than {_MAX_DEPTH} deep or {_MAX_VALUES} values large"
            place.add_problem(WRONG_VALUE, f"is {limits}, or contains itself")
            return None
        if isinstance(value, Mapping):
            return self._copy_table(value, place, depth)
        if isinstance(value, list | tuple):
            return [self.copy(item, place.at(i), depth - 1) for i, item in enumerate(value)]
        if isinstance(value, float) and not math.isfinite(value):
            place.add_problem(WRONG_VALUE, "is a number that JSON cannot express")
            return None
        if value is None or isinstance(value, str | int | float):
            return value
        place.add_problem(
            WRONG_VALUE, f"is {describe_type(value)}, which JSON does not have", "put it in quotes"
        )
        return None

    def _copy_table(self, value: Mapping[Any, Any], place: Place, depth: int) -> dict[str, Any]:
        table = {}
        for key, item in value.items():
            if isinstance(key, str):
                table[key] = self.copy(item, place.at(key), depth - 1)
            else:
                place.add_problem(
                    WRONG_VALUE, f"a key must be text, and one is {describe_type(key)}"
                )
        return table


def quote_text(value: str) -> str:
    """Return text in quotes for a message, shortened if it is long."""
    return repr(value) if len(value) <= 60 else f"{value[:60]!r}…"


def describe_type(value: Any) -> str:
    """Return the type of a value in words that people use for configs, such as "a table"."""
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
