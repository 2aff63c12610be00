"""The open streams of one conversation: finds the streams that an event or reply belongs to.

An event belongs to the streams that were opened for its method and, in dialects (protocols) that
name streams, for the key in its params. A stream ends with its reply, or with a last event after a
reply that only acknowledged it.
"""

import logging
from collections.abc import Iterable
from typing import Any

from exthost.dialects.streams import StreamEvent, StreamKind, Unreadable
from exthost.errors import ExthostError
from exthost.model.messages import Failure, Reply
from exthost.session import failures
from exthost.session.call import Call
from exthost.session.effects import (
    Count,
    DeliverEvent,
    Effect,
    Failed,
    SendInternal,
    StreamAccepted,
)
from exthost.session.stream_queue import StreamQueue

_log = logging.getLogger("exthost.session")


class StreamTable:
    """The open streams, by the notifications that carry their events."""

    __slots__ = ("_key_fields", "_streams", "count")

    def __init__(self, kinds: Iterable[StreamKind]) -> None:
        # By the method of each notification that carries events: the field of its params that names
        # the stream, or None if the events name no stream.
        self._key_fields: dict[str, str | None] = {}
        for kind in kinds:
            self._key_fields.update(kind.notifications)
        # The open streams, by the method of their events and the name of the stream.
        self._streams: dict[tuple[str, Any], list[StreamQueue]] = {}
        self.count = 0  # how many streams are open

    def open(self, stream: StreamQueue) -> None:
        self.count += 1
        for method, key_field in stream.kind.notifications.items():
            key = stream.key if key_field is not None else None
            self._streams.setdefault((method, key), []).append(stream)

    def close(self, stream: StreamQueue) -> bool:
        """Close a stream. Return True if it was open."""
        was_open = False
        for method, key_field in stream.kind.notifications.items():
            key = (method, stream.key if key_field is not None else None)
            streams = self._streams.get(key, [])
            if stream in streams:
                was_open = True
                streams.remove(stream)
                if not streams:
                    del self._streams[key]
        self.count -= was_open
        return was_open

    def find(self, method: str, params: Any) -> tuple[StreamQueue, ...] | None:
        """Return the open streams that this notification is for; None if it is not an event."""
        if method not in self._key_fields:
            return None
        key_field = self._key_fields[method]
        key = None
        if key_field is not None:
            key = params.get(key_field) if isinstance(params, dict) else None
            if not isinstance(key, str | int):
                return ()
        return tuple(self._streams.get((method, key), ()))

    def all(self) -> set[StreamQueue]:
        """Return every open stream."""
        return {stream for streams in self._streams.values() for stream in streams}

    def clear(self) -> None:
        self._streams.clear()
        self.count = 0

    def __bool__(self) -> bool:
        """Return whether a stream is open."""
        return bool(self._streams)

    # -- what the child sends ------------------------------------------------------------------

    def on_notification(self, method: str, params: Any, size: int, effects: list[Effect]) -> None:
        """Handle a notification of `size` bytes, if it is an event."""
        streams = self.find(method, params)
        if streams is None:
            return
        if not streams:
            effects.append(Count("events of no open stream"))
        for stream in streams:
            self._on_event(stream, method, params, size, effects)

    def _on_event(
        self, stream: StreamQueue, method: str, params: Any, size: int, effects: list[Effect]
    ) -> None:
        """Decode an event, and deliver it to one stream."""
        decoded: StreamEvent | Unreadable | None
        try:
            decoded = stream.kind.decode(method, params)
        except Exception:  # the dialect's code failed: only this event is lost
            _log.exception("an event of %s could not be read", method)
            decoded = None
        if decoded is None or isinstance(decoded, Unreadable):
            reason = f" ({decoded.reason})" if decoded is not None else ""
            warning = f"dropped: the event {method} could not be read{reason}"
            effects.append(Count("events that could not be read", warning, params))
            return
        effects.append(DeliverEvent(stream, decoded.event, size, decoded.terminal))
        if decoded.terminal:
            self.close(stream)
            if stream.acknowledged:
                effects.append([(stream.call, decoded.event)])
            else:  # a tuple, because the event itself may be None
                stream.early_last_event = (decoded.event,)

    def handle_reply(
        self, call: Call, stream: StreamQueue, reply: Reply | Failure, effects: list[Effect]
    ) -> None:
        """Handle the reply to the request that opened a stream."""
        kind, result = stream.kind, None
        try:
            if isinstance(reply, Failure):
                call.reply_handler.on_failure(call.method, call.params, reply)
            else:
                result = reply.result
                if kind.ends == "reply":
                    result = result if kind.result is None else kind.result(result)
                elif kind.acknowledged is not None and not kind.acknowledged(call.params, result):
                    raise failures.wrong_acknowledgement_error(call.method)
        except Exception as error:
            self.close(stream)
            if not isinstance(error, ExthostError):  # the dialect's code failed
                _log.exception("the reply to a stream could not be read")
                error = failures.not_understood_error(error)
            effects.append(Failed(call, error))
            return
        if kind.ends == "reply":
            self.close(stream)
            effects.append([(call, result)])
            return
        stream.acknowledged = True
        effects.append(StreamAccepted(stream))
        if stream.early_last_event is not None:  # the last event arrived before the acknowledgement
            effects.append([(call, stream.early_last_event[0])])

    def leave(self, stream: StreamQueue, reason: str, effects: list[Effect]) -> None:
        """Close a stream whose consumer has left, and send a cancellation if the dialect has
        one."""
        if self.close(stream) and stream.kind.cancel is not None:
            message = stream.kind.cancel(stream.params, reason)
            if message is not None:
                effects.append(SendInternal(message))
