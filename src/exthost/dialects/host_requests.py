"""Requests that an extension may send to its host, in a form that is the same in every dialect.

A dialect whose extensions send requests has a table of `HostRequest`, by method. The host
handles a request in three steps:

1. `HostRequest.parse_params` checks the params and the permissions of the extension, and returns
   one of the actions below. It raises CallFailed to refuse the request.
2. The host runs the action (`host.api`), which yields an outcome.
3. `HostRequest.make_result` converts the outcome to the result that the extension receives.

An action does not contain the id of the extension, because the host knows which extension sent the
request. For example, an extension of synaps sends `config.get` with `{"key": "theme"}`; the action
is `ReadConfig("theme")`, its outcome is "dark", and the result is `{"value": "dark"}`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from exthost.model.messages import Notification
from exthost.model.spec import Spec


class Remember(NamedTuple):
    """Store a memory. The outcome is its timestamp, in milliseconds since 1970.

    `meta` is any JSON value; None for no value.
    """

    content: str
    tags: tuple[str, ...] = ()
    meta: Any = None


class Recall(NamedTuple):
    """Find the memories that match every filter. The outcome is a list of `Memory`, newest first.

    A filter that is None matches every memory. Both `since_ms` and `until_ms` are inclusive, in
    milliseconds since 1970. `limit` is the maximum number of memories in the outcome.
    """

    content_contains: str | None = None
    tag_prefix: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int = 50


class Memory(NamedTuple):
    """A stored memory. `timestamp_ms` is in milliseconds since 1970."""

    timestamp_ms: int
    content: str
    tags: tuple[str, ...]
    meta: Any = None


class ReadConfig(NamedTuple):
    """Read a setting. The outcome is its value, or None if it is not set."""

    key: str


class WriteConfig(NamedTuple):
    """Write a setting. The outcome is None, after the value is stored."""

    key: str
    value: str


class WatchConfig(NamedTuple):
    """Notify the extension when one of the settings `keys` changes. If `keys` is None, notify it
    of a change of any setting.

    `make_notification` returns the message, given the key and the new value. The outcome is None.
    """

    keys: tuple[str, ...] | None
    make_notification: Callable[[str, str], Notification]


HostAction: TypeAlias = Remember | Recall | ReadConfig | WriteConfig | WatchConfig


class HostRequest(NamedTuple):
    """One method that an extension may call. `parse_params` takes the spec of the extension (its
    configuration) and the params, `make_result` the spec and the outcome."""

    parse_params: Callable[[Spec, Any], HostAction]
    make_result: Callable[[Spec, Any], Any]
