"""Checks the settings `options` and `limits` against the declarations of the dialect.

Dialects (protocols of extensions) ignore unknown options, so without this check a misspelt option
would have no effect and cause no error.

In `[defaults]` and `[overrides.<id>]` the dialect is not known, so less is checked. The value of an
option is checked if a dialect has an option of this name. The names, and whether a limit is too
high for the dialect, are known when an extension is started: then an unknown name is an error, and
such a limit is lowered.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from exthost.dialects import find
from exthost.dialects.options import COMMON_OPTIONS, Option
from exthost.errors import ConfigError
from exthost.model.documents.problems import WRONG_VALUE, Place
from exthost.model.documents.readers import Reader, describe_type, read_table
from exthost.model.spec import Limits


def check_options(options: Mapping[str, Any] | None, place: Place, dialect: str = "") -> None:
    """Add a problem at `place` for each wrong option. `dialect` is "" if it is not known; then
    options that no dialect has are not reported."""
    if not options:
        return
    dialects = [dialect] if dialect else [package.name for package in find.iter_packages()]
    declared = [item for name in dialects for item in _declared_options(name)]
    if dialect and not declared and dialect not in find.BUILT_IN:
        return  # an installed dialect that does not declare its options
    by_name: dict[str, list[Option]] = {}  # several dialects may have an option of one name
    for name, option in (*COMMON_OPTIONS.items(), *declared):
        by_name.setdefault(name, []).append(option)
    readers = {name: _make_reader(same_name) for name, same_name in by_name.items()}
    if not dialect:  # the options that no dialect has are reported when an extension is started
        options = {name: value for name, value in options.items() if name in readers}
    read_table(options, place, readers)


def check_limits(limits: Limits, place: Place, dialect: str) -> None:
    """Add a problem at `place` if `max_message` exceeds the largest message of the dialect."""
    if limits.max_message is None or not dialect:
        return
    try:
        max_bytes = find.find_dialect(dialect).traits.largest_message
    except ConfigError:  # missing or broken, which is reported when an extension uses it
        return
    if max_bytes is not None and limits.max_message > max_bytes:
        text = f"must be at most {max_bytes:,} bytes, because {dialect} allows no larger message"
        place.at("max_message").add_problem(WRONG_VALUE, text, "remove it, or lower it")


def _declared_options(dialect: str) -> list[tuple[str, Option]]:
    try:
        return [*find.find_dialect(dialect).options.items()]
    except ConfigError:  # missing or broken, which is reported when an extension uses it
        return []


def _make_reader(options: Sequence[Option]) -> Reader:
    """Return a reader that accepts a value if it fits one of these options of the same name."""

    def read(value: Any, place: Place) -> Any:
        if not any(option.fits(value) for option in options):
            expected = " or ".join(dict.fromkeys(option.expected for option in options))
            place.add_problem(WRONG_VALUE, f"must be {expected}, not {describe_type(value)}")
        return value

    return read
