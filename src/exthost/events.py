"""What happens, as values, and the bus that carries them to whoever looks on.

Nothing in the host works *through* the bus: log, metrics, command line and trace only watch.
An event that nobody subscribed to is not built: a hot path looks into `bus.kinds` first.

A subscriber is a plain function, called in the step in which the event happens, on the loop's
thread. One that raises is logged and kept: an onlooker cannot harm what it looks at.
"""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args

# A library never writes to stderr by itself: whoever wants to read its log attaches a handler.
logging.getLogger("exthost").addHandler(logging.NullHandler())
_log = logging.getLogger("exthost.events")


class CallStarted(NamedTuple):
    """A call was accepted."""

    extension: str
    method: str
    context: Any = None


class CallEnded(NamedTuple):
    """A call ended, exactly once, in one of: result, error, timeout, cancelled, gone."""

    extension: str
    method: str
    outcome: str
    seconds: float
    context: Any = None


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
    """A call reported how far it has come; `context` is the caller's own."""

    extension: str
    method: str
    progress: float
    total: float | None = None
    message: str = ""
    context: Any = None


class StateChanged(NamedTuple):
    """An extension moved in the life-cycle table. After a reload that changed its state, `before`
    and `after` may be any two states, and `reason` is "reloaded"."""

    extension: str
    before: str
    after: str
    reason: str = ""


class OfferChanged(NamedTuple):
    """The tools of an extension changed. Each tool is named once: in `added`, in `removed`, or in
    `changed` if it was and is offered and its description or a schema differs."""

    extension: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...] = ()


class ToolsChanged(NamedTuple):
    """What can be called may not be what it was: `host.tools` tells. Comes more often than they
    really change."""


class Spawned(NamedTuple):
    """A process was started for an extension; `held` says what holds it, as `enforced` does."""

    extension: str
    pid: int
    argv: tuple[str, ...]
    held: Mapping[str, Any] = MappingProxyType({})


class ContainmentWeakened(NamedTuple):
    """An extension runs with less containment than is usual or was asked for. `what` is
    "lifetime" or "sandbox"."""

    extension: str
    what: str
    reason: str


class Exited(NamedTuple):
    """A process of an extension is gone; `status` says how in words."""

    extension: str
    pid: int
    status: str


class LogLine(NamedTuple):
    """Something the extension said for a person: its stderr, its log notices, its stray prints."""

    extension: str
    source: str
    level: int
    text: str


class Noticed(NamedTuple):
    """A notification that the extension sent."""

    extension: str
    method: str
    params: Any


class ExtensionEvent(NamedTuple):
    """An event of an extension's own, under its own kind."""

    extension: str
    kind: str
    schema_version: int
    payload: Any


class HostEvent(NamedTuple):
    """Something that the program around the host told it (`host.emit`), for event sinks above
    all: `kind` is a dotted name, as `turn.started`."""

    kind: str
    event: Any
    source: str = ""
    context: Mapping[str, Any] = MappingProxyType({})


class SinkFailed(NamedTuple):
    """An event sink could not be told of an event; how many it has lost so far."""

    extension: str
    reason: str
    lost: int


class Dropped(NamedTuple):
    """Something that could not be kept or placed, and how often so far in this session."""

    extension: str
    what: str
    times: int


class ManifestChanged(NamedTuple):
    """A manifest on disk is `new`, `changed`, `removed` or `invalid`; `note` says more."""

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
    """Listeners by the type of event they asked for."""

    __slots__ = ("kinds",)

    def __init__(self) -> None:
        # Also the hot path's question, `if CallEnded in bus.kinds`, at the price of a look-up.
        self.kinds: dict[type, tuple[Listener, ...]] = {}

    def subscribe(
        self, kind: type[E] | tuple[type[E], ...], listener: Callable[[E], None]
    ) -> Callable[[], None]:
        """Call `listener` for each event of this kind, or these; returns what ends it."""
        kinds = kind if isinstance(kind, tuple) else (kind,)
        for one in kinds:
            self.kinds[one] = (*self.kinds.get(one, ()), listener)

        def unsubscribe() -> None:
            for one in kinds:
                kept = list(self.kinds.get(one, ()))
                if listener in kept:
                    kept.remove(listener)
                if kept:
                    self.kinds[one] = tuple(kept)
                else:
                    self.kinds.pop(one, None)

        return unsubscribe

    def publish(self, event: tuple[Any, ...]) -> None:
        """Hand the event to those who asked for its kind."""
        for listener in self.kinds.get(type(event), ()):
            try:
                listener(event)
            except Exception:
                _log.exception("a listener for %s failed", type(event).__name__)
