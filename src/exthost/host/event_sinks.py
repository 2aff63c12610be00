"""Forwards the events of the host to event sinks, which are extensions that subscribe to events.

`EventSinks` subscribes to the event bus. Each sink has a filter: a list of prefixes. It gets the
events whose public name, such as `call.ended`, begins with one of them. A sink without prefixes
gets no events. The first event that passes the filter starts the extension.

An event is written at once to an extension that is ready and reads its input. Otherwise the event
waits in a queue of the sink, from which a task of the sink sends. So a slow sink does not delay the
others. If the queue is full, the event is dropped and counted as lost. An event is sent as an
envelope: a mapping with its number, time, source, name and contents.

An event that is not delivered is reported in the log, and as `SinkFailed` on the bus.

Some events are never forwarded, because two sinks that cannot start would otherwise start each
other again and again:

- an event about an extension is not sent to that extension;
- state changes, offers and exits of any extension that is a sink are sent to no sink;
- `SinkFailed` is sent to no sink.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from exthost import events
from exthost.errors import ExthostError

if TYPE_CHECKING:
    from exthost.dialects.calls import EventSink

_log = logging.getLogger("exthost.eventsinks")

# How many events may wait for one sink.
QUEUE_EVENTS = 256

# The public name of each event type that can be forwarded. Log lines and notifications are not
# forwarded, because they contain text of the extensions. Neither is `Spawned`, because its command
# line may contain secrets.
KINDS: Mapping[type, str] = {
    events.StateChanged: "extension.state_changed",
    events.OfferChanged: "extension.offer_changed",
    events.Exited: "process.exited",
    events.CallStarted: "call.started",
    events.CallEnded: "call.ended",
}

# Events about the life of an extension: not forwarded if the extension is a sink itself.
_LIFE_EVENTS = (events.StateChanged, events.OfferChanged, events.Exited)


class _Internals(Protocol):
    """The part of `Extension.internals` that is used here."""

    @property
    def serves(self) -> bool: ...
    def try_notify(self, method: str, params: Any = None) -> bool: ...


class SinkExtension(Protocol):
    """The methods of an extension that are used to send events to it."""

    @property
    def id(self) -> str: ...
    @property
    def internals(self) -> _Internals: ...
    async def start(self) -> Any: ...
    async def notify(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> None: ...


class EventSinks:
    """The event sinks of one host, by the id of their extension."""

    def __init__(self, bus: events.Bus) -> None:
        self._bus = bus
        self._sinks: dict[str, _Sink] = {}
        self._new_sinks: set[str] = set()  # ids of extensions that become sinks when they are ready
        self._last_seq = 0  # the number of the last event that was forwarded
        self._unsubscribe: Callable[[], None] | None = None

    def add(self, extension: SinkExtension, sink: EventSink) -> None:
        """Send events to this extension from now on."""
        self._sinks[extension.id] = _Sink(extension, sink, self._bus)
        self._subscribe()

    @contextmanager
    def expect(self, extension: str) -> Iterator[None]:
        """Treat the extension with this id as a sink for the length of the block: events about its
        life are not forwarded, and no events are sent to it. `add` follows inside the block."""
        self._new_sinks.add(extension)
        try:
            yield
        finally:
            self._new_sinks.discard(extension)

    async def remove(self, extension: str) -> None:
        """Stop sending events to the extension with this id. Queued events are discarded."""
        sink = self._sinks.pop(extension, None)
        if sink is not None:
            self._subscribe()
            await sink.close()

    async def flush(self) -> None:
        """Wait until each event that was published so far is sent to its sinks, or dropped."""
        await asyncio.gather(*[sink.flush() for sink in self._sinks.values()])

    async def close(self) -> None:
        """Remove every sink."""
        for extension in list(self._sinks):
            await self.remove(extension)

    def lost(self, extension: str) -> int:
        """Return how many events this sink has missed, because they were dropped or could not be
        sent."""
        return self._sinks[extension].lost if extension in self._sinks else 0

    def _subscribe(self) -> None:
        """Subscribe to the event types that pass the filter of some sink. Other types are not
        subscribed to, because an event without a subscriber is not created, which saves time."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        prefixes = [prefix for sink in self._sinks.values() for prefix in sink.kinds]
        types = [cls for cls, name in KINDS.items() if name.startswith(tuple(prefixes))]
        if prefixes:
            # The public names of these two types are in the events themselves, so `_on_event`
            # filters them.
            all_types: Any = (events.HostEvent, events.ExtensionEvent, *types)
            self._unsubscribe = self._bus.subscribe(all_types, self._on_event)

    def _on_event(self, event: Any) -> None:
        """Forward an event of the bus to the sinks whose filters it passes."""
        extension_id = getattr(event, "extension", "")
        is_of_sink = extension_id in self._sinks or extension_id in self._new_sinks
        if is_of_sink and isinstance(event, _LIFE_EVENTS):
            return
        kind = KINDS.get(type(event)) or event.kind
        sinks = [
            sink
            for sink in self._sinks.values()
            if sink.extension.id != extension_id
            and kind.startswith(sink.kinds)
            # An event does not start a refused or stopped extension.
            and sink.extension.internals.serves
        ]
        if sinks:
            envelope = self._make_envelope(kind, extension_id, event)
            for sink in sinks:
                sink.put(envelope)

    def _make_envelope(self, kind: str, extension_id: str, event: Any) -> Mapping[str, Any]:
        """Return the event as data, with its number, time and source (see `EventSink`)."""
        self._last_seq += 1
        context = getattr(event, "context", None)
        import uuid
        from datetime import UTC, datetime

        envelope = {
            "event_id": str(uuid.uuid4()),
            "seq": self._last_seq,
            "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "source": extension_id or "exthost",
            "is_of_extension": bool(extension_id),
            "kind": kind,
            "context": dict(context) if isinstance(context, Mapping) else {},
        }
        match event:
            case events.HostEvent():
                envelope |= {"source": event.source or "exthost", "event": event.event}
            case events.ExtensionEvent():
                envelope["event"] = {
                    "schema_version": event.schema_version,
                    "payload": event.payload,
                }
            case _:
                body = event._asdict()
                body.pop("context", None)  # it is in the envelope
                body.pop("key", None)  # it has a meaning only in this process
                body.pop("call", None)  # it has a meaning only in a trace
                envelope["event"] = body
        return envelope


class _Sink:
    """One extension, the queue of events for it, and the task that sends the events.

    kinds  the extension gets the events whose public names begin with one of these prefixes
    lost   how many events the extension has missed
    """

    def __init__(self, extension: SinkExtension, sink: EventSink, bus: events.Bus) -> None:
        self.extension = extension
        self.kinds = sink.kinds
        self.lost = 0
        self._sink = sink
        self._bus = bus
        self._queue: deque[Mapping[str, Any]] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, envelope: Mapping[str, Any]) -> None:
        """Send the event now if the extension is ready and reads its input, so that the event
        arrives before later calls. Otherwise queue it."""
        if self._task is None and self._try_send(envelope):
            return
        if len(self._queue) >= QUEUE_EVENTS:
            self._report_loss("its queue is full")
            return
        self._queue.append(envelope)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._send_queued(), name=f"events for {self.extension.id}"
            )

    def _try_send(self, envelope: Mapping[str, Any]) -> bool:
        """Send the event without waiting. Return False if it has to be queued."""
        try:
            return self.extension.internals.try_notify(*self._sink.notification(envelope))
        except ExthostError as error:
            self._report_loss(error.message)
            return True

    async def flush(self) -> None:
        """Wait until the queue is empty."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _send_queued(self) -> None:
        try:
            while self._queue:
                await self._send(self._queue.popleft())
        finally:
            self._task = None

    async def _send(self, envelope: Mapping[str, Any]) -> None:
        """Send the event, after starting the extension if needed."""
        method, params = self._sink.notification(envelope)
        from exthost.wire import jsontext

        try:
            jsontext.encode(params)  # an event that cannot be encoded must not start a process
            await self.extension.start()
            await self.extension.notify(method, params, timeout=self._sink.limit)
        except ExthostError as error:
            self._report_loss(error.message)

    def _report_loss(self, reason: str) -> None:
        """Count and report an event that cannot be sent to the extension."""
        self.lost += 1
        # Only the counts 1, 2, 4, 8 … are logged, so that many lost events do not flood the log.
        if self.lost & (self.lost - 1) == 0:
            message = "%d events were not forwarded so far, the last because: %s"
            _log.warning(f"[%s] {message}", self.extension.id, self.lost, reason)
        if events.SinkFailed in self._bus.listeners:
            self._bus.publish(events.SinkFailed(self.extension.id, reason, self.lost))

    async def close(self) -> None:
        """Discard the queue and end the task."""
        self._queue.clear()
        if self._task is not None:
            task = self._task
            task.cancel()
            await asyncio.wait([task])
