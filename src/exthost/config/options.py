"""Checks `options` and `limits` against what the dialect declares.

Without this a misspelt option would have no effect and no error, because a dialect ignores
the options that it does not know. In `[defaults]` and `[overrides.<id>]` the dialect is not known,
so only the kinds of values are checked there; the names are checked before an extension is started,
and a limit that is too high for the dialect is lowered.
"""

from collections.abc import Mapping
from typing import Any

from exthost.dialects import find
from exthost.dialects.options import COMMON_OPTIONS, Option
from exthost.documents.problems import WRONG_VALUE, Place
from exthost.documents.readers import Reader, describe_type, read_table
from exthost.errors import ConfigError
from exthost.spec import Limits

__all__ = ["check_limits", "check_options"]


def check_options(options: Mapping[str, Any] | None, place: Place, dialect: str = "") -> None:
    """Record the mistakes in these options. `dialect` is "" if it is not known yet."""
    if not options:
        return
    dialects = [dialect] if dialect else [package.name for package in find.iter_packages()]
    declared = [item for name in dialects for item in _declared(name)]
    known = {name: _reader(option) for name, option in (*COMMON_OPTIONS.items(), *declared)}
    if dialect and not declared and dialect not in find.BUILT_IN:
        return  # an installed dialect that does not declare its options
    if not dialect:
        options = {name: value for name, value in options.items() if name in known}
    read_table(options, place, known)


def check_limits(limits: Limits, place: Place, dialect: str) -> None:
    """Record a limit that is higher than the dialect's framing allows."""
    if limits.max_message is None or not dialect:
        return
    try:
        most = find.find_dialect(dialect).traits.largest_message
    except ConfigError:  # missing or broken, which is reported where the dialect is used
        return
    if most is not None and limits.max_message > most:
        text = f"must be at most {most:,} bytes, because {dialect} allows no larger message"
        place.at("max_message").add_problem(WRONG_VALUE, text, "leave it out, or lower it")


def _declared(dialect: str) -> list[tuple[str, Option]]:
    try:
        return [*find.find_dialect(dialect).options.items()]
    except ConfigError:  # missing or broken, which is reported where the dialect is used
        return []


def _reader(option: Option) -> Reader:
    def read(value: Any, place: Place) -> Any:
        if not option.fits(value):
            place.add_problem(
                WRONG_VALUE, f"must be {option.expected}, and is {describe_type(value)}"
            )
        return value

    return read
