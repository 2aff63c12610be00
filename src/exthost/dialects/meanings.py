"""The meaning of a notification of an extension for the host.

A dialect has a table that maps the method of a notification to a function. The function parses the
params and returns one of the values below, or None if the host ignores the notification. For
example, mcp's function for `notifications/message` returns `Log(logging.INFO, "started")` for the
params `{"level": "info", "data": "started"}`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias


class Log(NamedTuple):
    """A line for the log. `level` is a level of the logging module."""

    level: int
    text: str


class OfferStale(NamedTuple):
    """The tools of the extension have changed, and the host must request them again."""


class Emitted(NamedTuple):
    """An event that the extension publishes on the host's event bus.

    by              the id that the extension uses for itself in its messages; the host ignores an
                    event that names another extension
    kind            the name of the event
    schema_version  the version of the payload's format
    payload         any JSON value
    """

    by: str
    kind: str
    schema_version: int
    payload: Any


class DialectEvent(NamedTuple):
    """An event that only this dialect has, for subscribers of its kind. The dialect defines the
    type of the payload."""

    kind: str
    payload: Any


class Unusable(NamedTuple):
    """A notification that cannot be parsed. `reason` describes the mistake without the contents."""

    reason: str


class Progress(NamedTuple):
    """The progress of a call.

    id        the id of the call's request
    progress  how much is done, in the unit of `total`
    total     the value of `progress` at the end; None if unknown
    message   a text for the user
    """

    id: Any
    progress: float
    total: float | None = None
    message: str = ""


class RequestCancelled(NamedTuple):
    """The extension no longer waits for the answer to its request with this id."""

    id: Any


Meaning: TypeAlias = (
    Log | OfferStale | Emitted | DialectEvent | Unusable | Progress | RequestCancelled | None
)

OnProgress: TypeAlias = Callable[[Progress], None]
"""A callback of the caller. It runs on the event loop's thread when the notification arrives."""
