"""`options`: checked by what the dialect says of its own.

A slip here would be silent otherwise: a dialect looks for the options it knows. In `[defaults]` and
`[overrides.<id>]` it is not known which dialect will read them, so only kinds are checked there,
and names when an extension is about to be started.
"""

from collections.abc import Mapping
from typing import Any

from exthost.dialects import find
from exthost.dialects.options import EVERYWHERE, Option
from exthost.documents.problems import WRONG_VALUE, Place
from exthost.documents.readers import Reader, kind, table
from exthost.errors import ConfigError

__all__ = ["check_options"]


def check_options(options: Mapping[str, Any] | None, place: Place, dialect: str = "") -> None:
    """Note what is wrong with these options; `dialect` is "" where it is not known yet."""
    if not options:
        return
    own = _own(dialect) if dialect else [one for name in _names() for one in _own(name)]
    known = {name: _reader(option) for name, option in (*EVERYWHERE.items(), *own)}
    if dialect and not own and dialect not in find.BUILT_IN:
        return  # another package's dialect, which does not say what its options are
    said = options if dialect else {name: one for name, one in options.items() if name in known}
    table(said, place, known)


def _names() -> list[str]:
    return [package.name for package in find.packages()]


def _own(dialect: str) -> list[tuple[str, Option]]:
    try:
        return [*find.find_dialect(dialect).options.items()]
    except ConfigError:  # not here or broken, which is reported where it is used
        return []


def _reader(option: Option) -> Reader:
    def read(value: Any, place: Place) -> Any:
        if not option.fits(value):
            place.wrong(WRONG_VALUE, f"must be {option.words}, and is {kind(value)}")
        return value

    return read
