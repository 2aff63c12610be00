"""The error catalog: an explanation of each error code, for `exthost explain CODE`.

The texts are data in `errors.toml`. Importing exthost does not read the file, because raising an
error does not need the texts. A dialect (a protocol of extensions) with its own codes passes a
table of the same form to `load`.

    [X1205]
    kind = "NotFound"
    title = "there is no such extension"
    meaning = "…"
    fix = "…"
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from exthost import errors
from exthost.errors import ExthostError, UsageError
from exthost.model.package_tables import read_tables

# By error code: a mapping with the keys kind, title, meaning and fix.
ErrorTable = Mapping[str, Mapping[str, str]]


class ErrorEntry(NamedTuple):
    """The explanation of one error code.

    kind     the name of the error's class in `exthost.errors`
    title    a short name of the error
    meaning  what the error means
    fix      what to do about it
    """

    kind: str
    title: str
    meaning: str
    fix: str


def read_table(package: str) -> ErrorTable:
    """Return the table in the `errors.toml` of an importable package."""
    return read_tables(package, "errors.toml")


def load(*dialect_tables: ErrorTable) -> dict[str, ErrorEntry]:
    """Return every entry by its code: the entries of exthost, then those of the dialects.

    Raises UsageError if a table has a code of another table, an incomplete entry, or a kind that
    does not exist.
    """
    entries = dict(_load_built_in())
    for table in dialect_tables:
        for code, fields in table.items():
            if code in entries:
                raise _unusable_entry_error(code, "this code has an explanation already")
            entries[code] = _parse_entry(code, fields)
    return entries


@cache
def _load_built_in() -> Mapping[str, ErrorEntry]:
    return {code: _parse_entry(code, fields) for code, fields in read_table("exthost").items()}


def _parse_entry(code: str, fields: Mapping[str, str]) -> ErrorEntry:
    """Return an entry of a table, whose texts must all be there. Raises UsageError."""
    if set(fields) != set(ErrorEntry._fields) or not all(
        isinstance(text, str) and text for text in fields.values()
    ):
        raise _unusable_entry_error(code, f"an entry has the texts {', '.join(ErrorEntry._fields)}")
    error_class = getattr(errors, fields["kind"], None)
    if not (isinstance(error_class, type) and issubclass(error_class, ExthostError)):
        raise _unusable_entry_error(code, f"there is no kind of error {fields['kind']!r}")
    return ErrorEntry(**fields)


def _unusable_entry_error(code: str, reason: str) -> UsageError:
    return UsageError(
        "X1390",
        f"the explanation of error {code} cannot be used: {reason}",
        help="correct the table of error codes of the dialect that brings it",
    )
