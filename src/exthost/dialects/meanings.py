"""What a notification of the child means to the host.

A dialect has a table from the method of a notification to a function. The function reads the params
and returns one of the values below, or None if the notification means nothing to the host.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias


class Log(NamedTuple):
    """A line for the log. `level` is a number of the logging module."""

    level: int
    text: str


class OfferStale(NamedTuple):
    """The offer has changed: request it again."""


class Emitted(NamedTuple):
    """An event of the extension's own, for the bus. `by` is the name that the extension gives
    itself; an event in the name of another extension is dropped."""

    by: str
    kind: str
    schema_version: int
    payload: Any


class DialectEvent(NamedTuple):
    """An event of the dialect, for subscribers of its kind. The dialect has a type for the
    payload."""

    kind: str
    payload: Any


class Unusable(NamedTuple):
    """A notification that cannot be used. `why` names the kind of fault and never the content."""

    why: str


class Progress(NamedTuple):
    """How far a call has come. `id` is the id of its request."""

    id: Any
    progress: float
    total: float | None = None
    message: str = ""


Meaning: TypeAlias = Log | OfferStale | Emitted | DialectEvent | Unusable | Progress | None

OnProgress: TypeAlias = Callable[[Progress], None]
"""A callback of the caller's. It runs on the loop's thread, when the notification is read."""
