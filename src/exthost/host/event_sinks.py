"""Event sinks: extensions that receive the events of the host.

Subscribes to the bus and forwards the events that pass the filter of an extension: a kind that
begins with one of its prefixes; without prefixes, no events. An event is sent at once to a sink
that serves. Other sinks have their own queue of 256 and their own task, so a slow sink delays no
other; events that do not fit are dropped and counted. The first event that passes the filter starts
the extension, as any use does.

A sink that fails is reported, in the log and as `SinkFailed` on the bus. A sink never gets events
about itself, `SinkFailed` goes to no sink, and neither do state changes of extensions that are
sinks: two sinks that cannot start would otherwise keep starting each other.
"""

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from exthost.dialects.calls import EventSink
from exthost.errors import ExthostError
from exthost.events import (
    Bus,
    CallEnded,
    CallStarted,
    Exited,
    ExtensionEvent,
    HostEvent,
    OfferChanged,
    SinkFailed,
    StateChanged,
)
from exthost.wire import jsontext

_log = logging.getLogger("exthost.eventsinks")

QUEUE_EVENTS = 256

# The public name of each kind of event. Log lines and notifications are texts of the extensions and
# are not forwarded; neither are command lines, which may contain secrets.
KINDS: Mapping[type, str] = {
    StateChanged: "extension.state_changed",
    OfferChanged: "extension.offer_changed",
    Exited: "process.exited",
    CallStarted: "call.started",
    CallEnded: "call.ended",
}

_LIVES = (StateChanged, OfferChanged, Exited)


class Listener(Protocol):
    """The part of an extension that sending events to it needs."""

    @property
    def id(self) -> str: ...
    @property
    def serves(self) -> bool: ...
    async def start(self) -> Any: ...
    def try_notify(self, method: str, params: Any = None) -> bool: ...
    async def notify(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> None: ...


class EventSinks:
    """Every sink of one host."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._sinks: dict[str, _Sink] = {}
        self._seq = 0
        self._unsubscribe: Callable[[], None] | None = None

    def add(self, extension: Listener, sink: EventSink) -> None:
        """Send events to this extension from now on."""
        self._sinks[extension.id] = _Sink(extension, sink, self._bus)
        self._subscribe()

    async def remove(self, extension: str) -> None:
        """Send it no more events."""
        sink = self._sinks.pop(extension, None)
        if sink is not None:
            self._subscribe()
            await sink.close()

    async def flush(self) -> None:
        """Wait until each event that was published so far is sent to its sinks, or lost."""
        await asyncio.gather(*[sink.flush() for sink in self._sinks.values()])

    async def close(self) -> None:
        for extension in list(self._sinks):
            await self.remove(extension)

    def lost(self, extension: str) -> int:
        """Return how many events this sink has lost."""
        return self._sinks[extension].lost if extension in self._sinks else 0

    def _subscribe(self) -> None:
        """Subscribe to the kinds that a sink wants and to no others, so that no unread event is
        built."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        prefixes = [prefix for sink in self._sinks.values() for prefix in sink.kinds]
        wanted = [kind for kind, name in KINDS.items() if name.startswith(tuple(prefixes))]
        if prefixes:
            kinds: Any = (HostEvent, ExtensionEvent, *wanted)
            self._unsubscribe = self._bus.subscribe(kinds, self._on_event)

    def _on_event(self, event: Any) -> None:
        about = getattr(event, "extension", "")
        if isinstance(event, _LIVES) and about in self._sinks:
            return
        kind = KINDS.get(type(event)) or event.kind
        sinks = [
            sink
            for sink in self._sinks.values()
            if sink.extension.id != about
            and kind.startswith(sink.kinds)
            and sink.extension.serves  # a refused or stopped extension is not started
        ]
        if sinks:
            envelope = self._envelope(kind, about, event)
            for sink in sinks:
                sink.put(envelope)

    def _envelope(self, kind: str, about: str, event: Any) -> Mapping[str, Any]:
        self._seq += 1
        context = getattr(event, "context", None)
        passed = context if isinstance(context, Mapping) else {}
        envelope = {
            "event_id": str(uuid.uuid4()),
            "seq": self._seq,
            "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "source": about or "exthost",
            "kind": kind,
            "context": dict(passed),
        }
        match event:
            case HostEvent():
                envelope |= {"source": event.source or "exthost", "event": event.event}
            case ExtensionEvent():
                envelope["event"] = {
                    "schema_version": event.schema_version,
                    "payload": event.payload,
                }
            case _:
                body = event._asdict()
                body.pop("context", None)
                body.pop("key", None)
                body.pop("call", None)
                envelope["event"] = body
        return envelope


class _Sink:
    """One extension, its queue, and the task that sends from the queue."""

    def __init__(self, extension: Listener, sink: EventSink, bus: Bus) -> None:
        self.extension = extension
        self.kinds = sink.kinds
        self.lost = 0
        self._sink = sink
        self._bus = bus
        self._queue: deque[Mapping[str, Any]] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, envelope: Mapping[str, Any]) -> None:
        """Send the event now if the extension can take it, so that it arrives before later calls;
        otherwise as soon as possible."""
        if self._task is None and self._try_send(envelope):
            return
        if len(self._queue) >= QUEUE_EVENTS:
            self._lose("its queue is full")
            return
        self._queue.append(envelope)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._forward(), name=f"events for {self.extension.id}"
            )

    def _try_send(self, envelope: Mapping[str, Any]) -> bool:
        try:
            return self.extension.try_notify(*self._sink.notification(envelope))
        except ExthostError as error:
            self._lose(error.message)
            return True

    async def flush(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _forward(self) -> None:
        try:
            while self._queue:
                await self._tell(self._queue.popleft())
        finally:
            self._task = None

    async def _tell(self, envelope: Mapping[str, Any]) -> None:
        method, params = self._sink.notification(envelope)
        try:
            jsontext.encode(params)  # an event that cannot be encoded must not start a process
            await self.extension.start()
            await self.extension.notify(method, params, timeout=self._sink.limit)
        except ExthostError as error:
            self._lose(error.message)

    def _lose(self, reason: str) -> None:
        self.lost += 1
        if (
            self.lost & (self.lost - 1) == 0
        ):  # 1, 2, 4, 8 …: a flood of events must not flood the log
            message = "%d events were not forwarded so far, the last because: %s"
            _log.warning(f"[%s] {message}", self.extension.id, self.lost, reason)
        if SinkFailed in self._bus.kinds:
            self._bus.publish(SinkFailed(self.extension.id, reason, self.lost))

    async def close(self) -> None:
        self._queue.clear()
        if self._task is not None:
            task = self._task
            task.cancel()
            await asyncio.wait([task])
