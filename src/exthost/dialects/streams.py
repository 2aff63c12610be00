"""Calls that are answered with a sequence of events: how the events are sent, decoded and shown.

For example, an extension of synaps answers `provider.stream`, a request to a model, with many
notifications `provider.stream.event`, each with a part of the text, and at last with the reply.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from exthost.dialects.steps import Outgoing


class StreamEvent(NamedTuple):
    """One decoded event of a stream. A terminal event ends the stream."""

    event: Any
    terminal: bool = False


class Unreadable(NamedTuple):
    """An event that cannot be decoded. `reason` names the wrong field, and contains no secret."""

    reason: str


class ProgressBar(NamedTuple):
    """The progress that an event of a stream reports, for a person.

    id       distinguishes several bars
    label    the name of the bar
    current  the number of steps that are done; None if unknown
    total    the number of all steps; None if unknown
    message  a text about the current step
    done     whether the bar is finished and can be removed
    """

    id: str
    label: str = ""
    current: float | None = None
    total: float | None = None
    message: str = ""
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamKind:
    """How the events of one method are sent. The method's request opens a stream.

    notifications  the methods of the notifications that carry events. Each maps to the field of its
                   params that has the name of the stream, or to None if the event belongs to
                   whichever call of this method is in flight
    decode         returns the event, given the method and params of its notification. None or
                   Unreadable means that the event cannot be decoded: it is logged and ignored
    key            the field of the opening request's params in which the caller names the stream.
                   Needed if a notification has a name; None if no notification has
    ends           "reply" if the reply ends the stream, "terminal" if the reply only acknowledges
                   it and a terminal event ends it
    acknowledged   for "terminal": returns whether the reply acknowledges this stream, given the
                   params and result, for example by repeating its name. If it returns False, the
                   call fails. None accepts each reply that is not an error
    cancel         returns the message that cancels a stream, given its params and the reason
    limit          returns the time limit of an acknowledged stream in seconds, given its params;
                   None for no limit
    result         converts the result of a reply that ends a stream, or raises an ExthostError
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
        """Whether events do not name their stream, and so belong to the call in flight.

        Such a call stays in flight until its reply, even if its caller stops reading: otherwise its
        remaining events would be taken for those of the next call.
        """
        return None in self.notifications.values()
