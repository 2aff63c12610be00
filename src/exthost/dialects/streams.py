"""Calls that are answered in events: how the events travel, and how a person sees them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from exthost.dialects.steps import Outgoing


class StreamEvent(NamedTuple):
    """One decoded event of a stream. A terminal event ends the stream."""

    event: Any
    terminal: bool = False


class Unreadable(NamedTuple):
    """An event that cannot be read. `why` names the member that is wrong, and never a secret."""

    why: str


class ProgressBar(NamedTuple):
    """The progress that an event of a stream reports, for a person who watches. `id` tells several
    bars apart. `current` of `total` steps are done, where that is known."""

    id: str
    label: str = ""
    current: float | None = None
    total: float | None = None
    message: str = ""
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamKind:
    """How the events of one opening method travel.

    notifications  the notification methods that carry events. Each maps to the member that names
                   the stream, or to None if the event belongs to the call of this kind in flight
    decode         returns the event; None or Unreadable for one that cannot be read: it is logged
                   and skipped
    key            the member of the opening request's params that carries the name of the stream
    ends           "reply" if the reply ends the stream, "terminal" if the reply acknowledges it
                   and a terminal event ends it
    acknowledged   tells from the params and the result whether the reply acknowledges the stream
    cancel         returns the message that cancels a stream, given its params and the reason
    limit          returns the time limit in seconds of an acknowledged stream, given its params;
                   None for no limit
    result         maps the result of a reply that ends a stream, or raises one of our errors
    """

    notifications: Mapping[str, str | None]
    decode: Callable[[str, Any], StreamEvent | Unreadable | None]
    key: str | None = None
    ends: Literal["reply", "terminal"] = "reply"
    acknowledged: Callable[[Any, Any], bool] | None = None
    cancel: Callable[[Any, str], Outgoing | None] | None = None
    limit: Callable[[Any], float | None] | None = None
    result: Callable[[Any], Any] | None = None

    @property
    def nameless(self) -> bool:
        """Whether its events belong to the call in flight. Such a call keeps its place when its
        consumer leaves: the events it still sends would be taken for those of the next call."""
        return None in self.notifications.values()
