"""Checked reading of single values, and of tables by a list of their keys.

A reader takes a raw value and the Place it stands at. It returns the value in its final form, or
notes a mistake there and returns None, which everywhere in this room means "not said". A table is
read by a mapping of key → reader, so that the keys of each table are data, and the check for
unknown keys with the nearest known one is written once.

Messages never repeat a wrong value of free form (it may be a secret); they name its kind.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from exthost.documents import units
from exthost.documents.problems import BAD_UNIT, UNKNOWN_KEY, WRONG_VALUE, Place
from exthost.model import HostEnvRef

Reader: TypeAlias = Callable[[Any, Place], Any]

# JSON readers on the other side commonly stop somewhere above this.
_MAX_DEPTH = 100

# A mapping made in Python may hold itself twice, and would then be copied for ever.
_MAX_VALUES = 100_000

# rlimits, counts and depths: anything larger is a slip, and does not fit the kernel's types.
_MAX_COUNT = 2**31 - 1


def table(value: Any, place: Place, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The keys that were said, each through its reader; unknown keys are mistakes."""
    if not isinstance(value, Mapping):
        place.wrong(WRONG_VALUE, f"must be a table, and is {kind(value)}")
        return {}
    read: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            place.wrong(WRONG_VALUE, f"a key must be text, and one is {kind(key)}")
        elif key not in readers:
            place.at(key).wrong(UNKNOWN_KEY, *_unknown(key, readers))
        else:
            read[key] = readers[key](item, place.at(key))
    return read


def _unknown(key: str, known: Mapping[str, Reader]) -> tuple[str, str]:
    near = nearest(key, known)
    guess = f"; did you mean `{near}`?" if near else ""
    return f"unknown key{guess}", f"the keys here are {', '.join(sorted(known))}"


def nearest(word: str, known: Mapping[str, Any] | frozenset[str]) -> str:
    """The known word that `word` was most likely meant to be, or ""."""
    import difflib  # only a mistake needs it

    close = difflib.get_close_matches(word[:100].lower(), sorted(known), n=1, cutoff=0.6)
    return close[0] if close else ""


def text(value: Any, place: Place) -> str | None:
    """Text that says something, and that an operating system can be given."""
    if not isinstance(value, str):
        place.wrong(WRONG_VALUE, f"must be text, and is {kind(value)}")
        return None
    if not value.strip():
        place.wrong(WRONG_VALUE, "must not be blank")
        return None
    return _passable(value, place)


def word(value: Any, place: Place) -> str | None:
    """Text for a child process: may be empty, must not hold what no process can be given."""
    if not isinstance(value, str):
        place.wrong(WRONG_VALUE, f"must be text, and is {kind(value)}")
        return None
    return _passable(value, place)


def _passable(value: str, place: Place) -> str | None:
    if "\0" in value:
        place.wrong(WRONG_VALUE, "must not hold a NUL character")
        return None
    try:
        # As the operating system's interface will: file names that were not UTF-8 may pass.
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        place.wrong(WRONG_VALUE, "holds half of a surrogate pair, which is no character")
        return None
    return value


def flag(value: Any, place: Place) -> bool | None:
    """true or false, and nothing that merely looks like it."""
    if not isinstance(value, bool):
        place.wrong(WRONG_VALUE, f"must be true or false, and is {kind(value)}")
        return None
    return value


def count(least: int) -> Reader:
    """A reader of whole numbers from `least` on."""

    def read(value: Any, place: Place) -> int | None:
        if not isinstance(value, int) or isinstance(value, bool):
            place.wrong(WRONG_VALUE, f"must be a whole number, and is {kind(value)}")
            return None
        if not least <= value <= _MAX_COUNT:
            place.wrong(WRONG_VALUE, f"must be between {least} and {_MAX_COUNT}")
            return None
        return int(value)

    return read


def duration(value: Any, place: Place) -> float | None:
    """Seconds; none at all (0) included."""
    try:
        return units.seconds(value)
    except units.UnitError as error:
        place.wrong(BAD_UNIT, str(error))
        return None


def some_duration(value: Any, place: Place) -> float | None:
    """Seconds, more than none: a time limit of 0 could never be kept."""
    read = duration(value, place)
    if read == 0:
        place.wrong(BAD_UNIT, "must be longer than 0; leave the key out for the default")
        return None
    return read


def size(value: Any, place: Place) -> int | None:
    """Bytes, at least one."""
    try:
        read = units.size(value)
    except units.UnitError as error:
        place.wrong(BAD_UNIT, str(error))
        return None
    if read == 0:
        place.wrong(BAD_UNIT, "must be more than 0; leave the key out for the default")
        return None
    return read


def choice(*known: str) -> Reader:
    """A reader of one word of a few. `on_demand` is taken for `on-demand`."""

    def read(value: Any, place: Place) -> str | None:
        accepted = ", ".join(f'"{one}"' for one in known)
        if not isinstance(value, str):
            place.wrong(WRONG_VALUE, f"must be one of {accepted}, and is {kind(value)}")
            return None
        plain = value.replace("_", "-")
        if plain not in known:
            near = nearest(plain, frozenset(known))
            guess = f'; did you mean "{near}"?' if near else ""
            place.wrong(WRONG_VALUE, f"must be one of {accepted}, and is {cut(value)}{guess}")
            return None
        return plain

    return read


def words(value: Any, place: Place) -> tuple[str, ...] | None:
    """A list of text."""
    return _list(value, place, word)


def texts(value: Any, place: Place) -> tuple[str, ...] | None:
    """A list of text, none of it blank."""
    return _list(value, place, text)


def _list(value: Any, place: Place, item: Reader) -> tuple[str, ...] | None:
    if not isinstance(value, list | tuple):
        hint = "put it in [ ]" if isinstance(value, str) else ""
        place.wrong(WRONG_VALUE, f"must be a list of text, and is {kind(value)}", hint)
        return None
    read = [item(one, place.at(index)) for index, one in enumerate(value)]
    return tuple(one for one in read if one is not None)


def variables(value: Any, place: Place) -> dict[str, str] | None:
    """Environment variables: a table of text."""
    if not isinstance(value, Mapping):
        place.wrong(WRONG_VALUE, f"must be a table of text, and is {kind(value)}")
        return None
    read: dict[str, str] = {}
    for name, item in value.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            place.wrong(WRONG_VALUE, "a variable's name must be text without = in it")
            continue
        if not isinstance(item, str):
            help = "put the value in quotes" if isinstance(item, int | float) else ""
            place.at(name).wrong(WRONG_VALUE, f"must be text, and is {kind(item)}", help)
            continue
        said = _passable(item, place.at(name))
        if said is not None and _passable(name, place.at(name)) is not None:
            read[name] = said
    return read


def variables_or_names(value: Any, place: Place) -> dict[str, str] | None:
    """The same, of an operator, who may name a variable of the host's: { from = "NAME" }."""
    if not isinstance(value, Mapping):
        return variables(value, place)
    named = {
        key: item
        for key, item in value.items()
        if isinstance(key, str) and isinstance(item, Mapping)
    }
    read = variables({key: item for key, item in value.items() if key not in named}, place)
    assert read is not None
    for key, item in named.items():
        said = table(item, place.at(key), {"from": text}).get("from")
        if "from" not in item:
            place.at(key).wrong(WRONG_VALUE, 'must be text, or { from = "NAME" }')
        elif said is not None and variables({key: said}, place):
            read[key] = HostEnvRef(said)
    return read


def json_value(value: Any, place: Place) -> Any:
    """Anything JSON can say, copied, so that what the caller does to it later changes nothing."""
    return _Copy().of(value, place, _MAX_DEPTH)


def json_table(value: Any, place: Place) -> dict[str, Any] | None:
    """A table of anything JSON can say."""
    if not isinstance(value, Mapping):
        place.wrong(WRONG_VALUE, f"must be a table, and is {kind(value)}")
        return None
    read = json_value(value, place)
    return read if isinstance(read, dict) else None


class _Copy:
    """One copy in the making, which knows how much it may still copy."""

    def __init__(self) -> None:
        self.left = _MAX_VALUES

    def of(self, value: Any, place: Place, depth: int) -> Any:
        if self.left == 0:
            return None
        self.left -= 1
        if self.left == 0 or depth == 0:
            self.left = 0  # said once: nothing more is copied on the way back
            limits = f"more than {_MAX_DEPTH} deep or {_MAX_VALUES} values large"
            place.wrong(WRONG_VALUE, f"is {limits}, or holds itself")
            return None
        if isinstance(value, Mapping):
            return self._table(value, place, depth)
        if isinstance(value, list | tuple):
            return [self.of(item, place.at(i), depth - 1) for i, item in enumerate(value)]
        if isinstance(value, float) and not math.isfinite(value):
            place.wrong(WRONG_VALUE, "is not a number that JSON can say")
            return None
        if value is None or isinstance(value, str | int | float):
            return value
        place.wrong(WRONG_VALUE, f"is {kind(value)}, which JSON cannot say", "put it in quotes")
        return None

    def _table(self, value: Mapping[Any, Any], place: Place, depth: int) -> dict[str, Any]:
        read = {}
        for key, item in value.items():
            if isinstance(key, str):
                read[key] = self.of(item, place.at(key), depth - 1)
            else:
                place.wrong(WRONG_VALUE, f"a key must be text, and one is {kind(key)}")
        return read


def cut(value: str) -> str:
    """Text for a message, in quotes and not too long."""
    return repr(value) if len(value) <= 60 else f"{value[:60]!r}…"


def kind(value: Any) -> str:
    """What a value is, in words."""
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
