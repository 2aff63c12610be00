"""`options`: checked by what the dialect says of its own.

A slip here would be silent otherwise: a dialect looks for the options it knows. In `[defaults]` and
`[overrides.<id>]` it is not known which dialect will read them, so only kinds are checked there,
and names when an extension is about to be started.
"""

from collections.abc import Mapping
from typing import Any

from exthost.config.problems import WRONG_VALUE, Place
from exthost.config.readers import Reader, kind, table
from exthost.dialects import find
from exthost.dialects.options import EVERYWHERE, Option
from exthost.errors import ConfigError

__all__ = ["check_options"]


def check_options(options: Mapping[str, Any] | None, place: Place, dialect: str = "") -> None:
    """Note what is wrong with them; "" where the dialect is not known yet."""
    if not options:
        return
    known = {name: _reader(option) for name, option in (*EVERYWHERE.items(), *_own(dialect))}
    if dialect and len(known) == len(EVERYWHERE) and dialect not in find.BUILT_IN:
        return  # somebody else's, who says nothing of them
    said = options if dialect else {name: one for name, one in options.items() if name in known}
    table(said, place, known)


def _own(dialect: str) -> list[tuple[str, Option]]:
    names = (dialect,) if dialect else find.BUILT_IN
    found: list[tuple[str, Option]] = []
    for name in names:
        try:
            found += find.find_dialect(name).options.items()
        except (ImportError, ConfigError):  # not here, which is told where it is used
            pass
    return found


def _reader(option: Option) -> Reader:
    def read(value: Any, place: Place) -> Any:
        if not option.fits(value):
            place.wrong(WRONG_VALUE, f"must be {option.words}, and is {kind(value)}")
        return value

    return read
