"""Events as values, and the bus that delivers them to subscribers.

The host itself does not depend on the bus: logs, metrics, the command line and traces only observe.
An event without a subscriber is not created: code on a hot path checks `bus.kinds` first.

A listener is a plain function. It is called on the loop's thread at the moment of the event. If it
raises, the error is logged and the listener stays subscribed.
"""

import inspect
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args

from exthost.errors import UsageError

# A library must not write to stderr by itself: a program that wants the log attaches a handler.
logging.getLogger("exthost").addHandler(logging.NullHandler())
_log = logging.getLogger("exthost.events")


class CallStarted(NamedTuple):
    """A call was accepted. `key` is the same as in its CallEnded, and no other open call has it."""

    extension: str
    method: str
    context: Any = None
    key: int = 0


class CallEnded(NamedTuple):
    """A call ended. `outcome` is one of: result, error, timeout, cancelled, gone.

    A tool that failed is an error, however its dialect says so. There is exactly one for each
    CallStarted. `call` is its number in a trace, if its messages were traced.
    """

    extension: str
    method: str
    outcome: str
    seconds: float
    context: Any = None
    key: int = 0
    call: int | None = None


class HookFailed(NamedTuple):
    """A hook gave no answer that could be used. `outcome` is "refused", if what it was to judge did
    not happen for that reason, or "passed over". `about` names the tool, if it was one; `code` is
    that of the error."""

    extension: str
    hook: str
    outcome: str
    reason: str
    code: str = ""
    about: str = ""
    seconds: float = 0.0
    context: Any = None


class Progressed(NamedTuple):
    """A call reported its progress. `context` is the value that the caller passed."""

    extension: str
    method: str
    progress: float
    total: float | None = None
    message: str = ""
    context: Any = None


class StateChanged(NamedTuple):
    """An extension changed its state, as the life-cycle table allows.

    After a reload that changed the state, `before` and `after` may be any two states, and `reason`
    is "reloaded".
    """

    extension: str
    before: str
    after: str
    reason: str = ""


class OfferChanged(NamedTuple):
    """The tools of an extension changed.

    Each tool is named once: in `added`, in `removed`, or in `changed` if its description or a
    schema differs.
    """

    extension: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...] = ()


class ToolsChanged(NamedTuple):
    """The list `host.tools` may have changed. Sent more often than it really changes."""


class Spawned(NamedTuple):
    """A process of an extension was started. `held` says how it is confined, as `enforced` does.
    `node` is where it runs, "" for this machine."""

    extension: str
    pid: int
    argv: tuple[str, ...]
    held: Mapping[str, Any] = MappingProxyType({})
    node: str = ""


class ContainmentWeakened(NamedTuple):
    """An extension runs with less containment than is usual or was asked for. `what` is
    "lifetime" or "sandbox"."""

    extension: str
    what: str
    reason: str


class Exited(NamedTuple):
    """A process of an extension ended. `status` says in words how. `node` is where it ran, "" for
    this machine."""

    extension: str
    pid: int
    status: str
    node: str = ""


class LogLine(NamedTuple):
    """A line for a person: from stderr, a log notification, or stray text on stdout."""

    extension: str
    source: str
    level: int
    text: str


class Noticed(NamedTuple):
    """The extension sent a notification."""

    extension: str
    method: str
    params: Any


class ExtensionEvent(NamedTuple):
    """The extension published an event of its own kind."""

    extension: str
    kind: str
    schema_version: int
    payload: Any


class HostEvent(NamedTuple):
    """The program that uses the host published an event with `host.emit`, mainly for event sinks.

    `kind` is a dotted name such as `turn.started`.
    """

    kind: str
    event: Any
    source: str = ""
    context: Mapping[str, Any] = MappingProxyType({})


class SinkFailed(NamedTuple):
    """An event could not be delivered to an event sink. `lost` counts its lost events so far."""

    extension: str
    reason: str
    lost: int


class Dropped(NamedTuple):
    """Something was dropped, because it was too much to keep or matched nothing.

    `times` counts how often that happened in this session.
    """

    extension: str
    what: str
    times: int


class ManifestChanged(NamedTuple):
    """A manifest on disk changed. `change` is one of: new, changed, removed, invalid."""

    extension: str
    path: str
    change: str
    note: str = ""


Event: TypeAlias = (
    CallStarted
    | CallEnded
    | HookFailed
    | Progressed
    | StateChanged
    | OfferChanged
    | ToolsChanged
    | Spawned
    | ContainmentWeakened
    | Exited
    | LogLine
    | Noticed
    | ExtensionEvent
    | HostEvent
    | SinkFailed
    | Dropped
    | ManifestChanged
)
EVERYTHING: tuple[type[Any], ...] = get_args(Event)
"""Every kind of event, for `subscribe`."""

E = TypeVar("E", bound=tuple[Any, ...])
Listener: TypeAlias = Callable[[Any], None]


class Bus:
    """Listeners by the type of event that they subscribed to."""

    __slots__ = ("kinds",)

    def __init__(self) -> None:
        # Public, so that a hot path can check `CallEnded in bus.kinds` with one look-up.
        self.kinds: dict[type, tuple[Listener, ...]] = {}

    def subscribe(
        self, kind: type[E] | tuple[type[E], ...], listener: Callable[[E], None]
    ) -> Callable[[], None]:
        """Call `listener` for each event of this kind or these kinds.

        Return a function that ends the subscription. Raises UsageError for a kind that is not a
        class of event and for a listener that would never be called.
        """
        kinds = kind if isinstance(kind, tuple) else (kind,)
        _check_subscription(kinds, listener)
        for event_type in kinds:
            self.kinds[event_type] = (*self.kinds.get(event_type, ()), listener)

        def unsubscribe() -> None:
            for event_type in kinds:
                remaining = list(self.kinds.get(event_type, ()))
                if listener in remaining:
                    remaining.remove(listener)
                if remaining:
                    self.kinds[event_type] = tuple(remaining)
                else:
                    self.kinds.pop(event_type, None)

        return unsubscribe

    def publish(self, event: tuple[Any, ...]) -> None:
        """Call each listener for this kind of event."""
        for listener in self.kinds.get(type(event), ()):
            try:
                listener(event)
            except Exception:
                _log.exception("a listener for %s failed", type(event).__name__)


def _check_subscription(kinds: tuple[Any, ...], listener: Any) -> None:
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, tuple)):
            known = ", ".join(event.__name__ for event in EVERYTHING)
            raise UsageError(
                "X1331",
                f"{kind!r} is not a kind of event: nothing would ever come",
                help=f"pass a class of exthost.events: {known}",
            )
    if not callable(listener):
        raise UsageError(
            "X1332", f"a listener is a function, and not {listener!r}", help="pass a plain function"
        )
    if inspect.iscoroutinefunction(listener):
        raise UsageError(
            "X1332",
            "a listener is a plain function, and this one is asynchronous: nobody would await it",
            help="write `def`; start a task in it, or put the event in a queue",
        )
