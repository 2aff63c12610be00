"""What an extension may ask of its host, as values that every dialect is translated into.

A dialect whose extensions may ask has a table of `HostRequest`, by wire method. `read` turns the
params into one of the actions below, or raises CallFailed with the error that is sent to the
extension; it also checks permissions. The host runs the action (`host.api`) and knows no dialect.
`answer` makes the result that is sent from the outcome.

An action does not say who asks for it: the host knows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from exthost.messages import Notification
from exthost.spec import Spec


class Remember(NamedTuple):
    """Store this. The outcome is its timestamp in milliseconds."""

    content: str
    tags: tuple[str, ...] = ()
    meta: Any = None


class Recall(NamedTuple):
    """Find what was stored and matches all of this. The outcome is a list of `Memory`, newest
    first."""

    content_contains: str | None = None
    tag_prefix: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int = 50


class Memory(NamedTuple):
    """Something that was stored."""

    timestamp_ms: int
    content: str
    tags: tuple[str, ...]
    meta: Any = None


class ReadConfig(NamedTuple):
    """Read a setting. The outcome is its value, or None."""

    key: str


class WriteConfig(NamedTuple):
    """Write a setting. The outcome is None, once it is stored."""

    key: str
    value: str


class WatchConfig(NamedTuple):
    """Notify the extension when one of these settings changes, or any if `keys` is None. `changed`
    makes the notification."""

    keys: tuple[str, ...] | None
    make_notification: Callable[[str, str], Notification]


HostAction: TypeAlias = Remember | Recall | ReadConfig | WriteConfig | WatchConfig


class HostRequest(NamedTuple):
    """One method that an extension may call."""

    parse_params: Callable[[Spec, Any], HostAction]
    make_result: Callable[[Spec, Any], Any]
