"""Lets an observer see each message of one conversation, in both directions. Traces use it.

A conversation without an observer pays nothing. An observation replaces the functions by which the
conversation encodes a call and decodes a frame (the framed bytes of one message). Its end restores
them. Only the rarer ways of sending (notifications, further requests of an operation) check for an
observer.

Exceptions of an observer are logged and dropped, because they would break the conversation.
"""

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from exthost.dialects.meanings import Progress
from exthost.model.messages import Batch, Incoming, Notification
from exthost.session.call import Call
from exthost.session.conversation import Conversation
from exthost.session.effects import Frame
from exthost.wire.framing import Broken, Bytes, Item, Skipped

_log = logging.getLogger("exthost.session")

Received: TypeAlias = Incoming | Skipped | Broken


class MessageObserver(Protocol):
    """Sees the messages of one conversation.

    `call` is the call that a message belongs to, or None if that is not known. `sent` is called on
    the thread that calls the extension, `received` on the loop's thread.
    """

    def sent(self, frame: bytes, method: str, call: Call | None) -> None:
        """Handle a frame that is about to be written. `method` is "" unless it is a request."""

    def received(self, message: Received, size: int, call: Call | None) -> None:
        """Handle a message that was decoded from a frame of `size` bytes, or bytes that are not a
        frame."""


class Observation:
    """The observation of one conversation by one observer, until `end`."""

    __slots__ = (
        "_conversation", "_decode", "_decode_replies", "_handle_items", "_observer", "_send",
    )  # fmt: skip

    def __init__(
        self,
        conversation: Conversation,
        observer: MessageObserver,
        handle_items: Callable[[list[Item]], None],
    ) -> None:
        """`handle_items` is the session's function that handles the items of a read."""
        self._handle_items = handle_items
        self._conversation = conversation
        self._observer = observer
        self._decode = conversation.decode
        self._decode_replies = conversation.decode_replies
        self._send = conversation.send
        conversation.decode = self._observed_decode
        conversation.decode_replies = None  # frame by frame, so that each is seen
        conversation.send = self.send
        conversation.requests.on_sent = self._on_sent

    def end(self) -> None:
        """Restore the functions that the observation replaced."""
        conversation = self._conversation
        conversation.decode = self._decode
        conversation.decode_replies = self._decode_replies
        conversation.send = self._send
        conversation.requests.on_sent = None

    def send(self, call: Call) -> Frame:
        """Do what `Conversation.send` does, and report the frame to the observer."""
        frame = self._send(call)
        handler = call.reply_handler
        method = handler.request(call.params)[0] if handler.makes_request else call.method
        self._on_sent(frame, method, call)
        return frame

    def on_items(self, items: list[Item]) -> None:
        """Report the items of one read that are not frames, and let the session handle all items.
        The frames are reported when they are decoded."""
        for item in items:
            if isinstance(item, Skipped | Broken):
                self._report(item, item.size if isinstance(item, Skipped) else 0, None)
        self._handle_items(items)

    def _on_sent(self, frame: Frame, method: str, call: Call | None) -> None:
        try:
            frame_bytes = frame if isinstance(frame, bytes) else b"".join(frame)
            self._observer.sent(frame_bytes, method, call)
        except Exception:
            _log.exception("an observer of messages failed")

    def _observed_decode(self, frame: Bytes) -> Incoming:
        size = len(frame)
        message = self._decode(frame)
        if isinstance(message, Batch):
            for part in message.messages:
                self._report(part, size, self._find_call(part))
        else:
            self._report(message, size, self._find_call(message))
        return message

    def _report(self, message: Received, size: int, call: Call | None) -> None:
        try:
            self._observer.received(message, size, call)
        except Exception:
            _log.exception("an observer of messages failed")

    def _find_call(self, message: Incoming) -> Call | None:
        """Return the call that a message of the child belongs to, before the message is handled."""
        pending = self._conversation.pending
        if type(message) is Notification:
            return self._find_call_of_notification(message)
        if type(message) is tuple or (isinstance(message, tuple) and hasattr(message, "id")):
            if hasattr(message, "method"):  # a request of the child
                return None
            id: Any = message[0]
            if id is None:  # a positional dialect: the reply is for the call that waited longest
                return next(iter(pending.values()), None)
            return pending.get(id)
        return None

    def _find_call_of_notification(self, notification: Notification) -> Call | None:
        method, params = notification
        for stream in self._conversation.streams():
            # The field of the params that names the stream: None if the events name no stream, ""
            # if this notification is no event of the stream.
            key_field = stream.kind.notifications.get(method, "")
            if key_field is None or (key_field and _get_field(params, key_field) == stream.key):
                call: Call = stream.call
                return call
        read_meaning = self._conversation.dialect.notifications.get(method)
        meaning = read_meaning(params) if read_meaning is not None else None
        if type(meaning) is Progress and type(meaning.id) in (int, str):
            return self._conversation.pending.get(meaning.id)
        return None


def _get_field(params: Any, name: str) -> Any:
    return params.get(name) if isinstance(params, dict) else None
