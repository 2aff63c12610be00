"""What an extension may ask of its host, in the words that every dialect is read into.

A dialect that lets its extensions ask has a table of `Question`s, by wire method. `read` turns the
params into one of the wishes below, or raises CallFailed with what the extension is to be told;
it is where the dialect checks permissions. Whoever serves wishes (`host.api`) knows no
dialect. `answer` words the outcome.

Values only; a wish says nothing of who has it: that is known where it is served.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from exthost.messages import Notification
from exthost.model import Spec


class Remember(NamedTuple):
    """Keep this. Comes to its time in milliseconds."""

    content: str
    tags: tuple[str, ...] = ()
    meta: Any = None


class Recall(NamedTuple):
    """What was kept, newest first, as far as all of this holds. Comes to a list of `Memory`."""

    content_contains: str | None = None
    tag_prefix: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int = 50


class Memory(NamedTuple):
    """Something that was kept."""

    timestamp_ms: int
    content: str
    tags: tuple[str, ...]
    meta: Any = None


class ReadConfig(NamedTuple):
    """Comes to the value, or None."""

    key: str


class WriteConfig(NamedTuple):
    """Comes to None when it is safe."""

    key: str
    value: str


class WatchConfig(NamedTuple):
    """Tell me when one of these changes, or any (None). `changed` words the notice."""

    keys: tuple[str, ...] | None
    changed: Callable[[str, str], Notification]


HostAction: TypeAlias = Remember | Recall | ReadConfig | WriteConfig | WatchConfig


class HostRequest(NamedTuple):
    """One method that an extension may ask for."""

    read: Callable[[Spec, Any], HostAction]
    answer: Callable[[Spec, Any], Any]
