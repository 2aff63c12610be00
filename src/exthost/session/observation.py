"""An observer of one conversation: it sees each message in either direction, and changes nothing.

A conversation without an observer does no work for this: starting an observation replaces the
functions by which the conversation encodes a call and decodes a frame, and ending it puts them
back. Only the rarer ways of sending check for an observer.

An observer that raises would break the conversation, so its errors are logged and dropped.
"""

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from exthost.dialects.meanings import Progress
from exthost.messages import Batch, Incoming, Notification
from exthost.session.call import Call
from exthost.session.conversation import Conversation
from exthost.session.effects import Frame
from exthost.wire.framing import Broken, Bytes, Item, Skipped

__all__ = ["MessageObserver", "Observation", "Received"]

_log = logging.getLogger("exthost.session")

Received: TypeAlias = Incoming | Skipped | Broken


class MessageObserver(Protocol):
    """Looks at the messages of one conversation.

    `call` is the call that a message belongs to, where that is known. `sent` may be called on any
    thread that calls the extension; the other method is called on the loop's thread.
    """

    def sent(self, frame: bytes, method: str, call: Call | None) -> None:
        """A frame is about to be written; `method` is that of a request."""

    def received(self, message: Received, size: int, call: Call | None) -> None:
        """A frame of `size` bytes was decoded, or bytes that are no frame were skipped."""


class Observation:
    """One observer at one conversation, until `end`."""

    __slots__ = (
        "_conversation", "_decode", "_decode_replies", "_observer", "_pass_on", "_send",
    )  # fmt: skip

    def __init__(
        self,
        conversation: Conversation,
        observer: MessageObserver,
        pass_on: Callable[[list[Item]], None],
    ) -> None:
        """`pass_on` handles what was read."""
        self._pass_on = pass_on
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
        """Put back what was replaced."""
        conversation = self._conversation
        conversation.decode = self._decode
        conversation.decode_replies = self._decode_replies
        conversation.send = self._send
        conversation.requests.on_sent = None

    def send(self, call: Call) -> Frame:
        """Do what `Conversation.send` does, and show the frame."""
        frame = self._send(call)
        handler = call.on_reply
        method = handler.request(call.params)[0] if handler.words_request else call.method
        self._on_sent(frame, method, call)
        return frame

    def on_items(self, items: list[Item]) -> None:
        """Show what of one read is not decoded, and pass it all on."""
        for item in items:
            if isinstance(item, Skipped | Broken):
                self._show(item, item.size if isinstance(item, Skipped) else 0, None)
        self._pass_on(items)

    def _on_sent(self, frame: Frame, method: str, call: Call | None) -> None:
        try:
            whole = frame if isinstance(frame, bytes) else b"".join(frame)
            self._observer.sent(whole, method, call)
        except Exception:
            _log.exception("an observer of messages failed")

    def _observed_decode(self, frame: Bytes) -> Incoming:
        size = len(frame)
        message = self._decode(frame)
        if isinstance(message, Batch):
            for part in message.messages:
                self._show(part, size, self._call_of(part))
        else:
            self._show(message, size, self._call_of(message))
        return message

    def _show(self, message: Received, size: int, call: Call | None) -> None:
        try:
            self._observer.received(message, size, call)
        except Exception:
            _log.exception("an observer of messages failed")

    def _call_of(self, message: Incoming) -> Call | None:
        """Return the call that a message of the child belongs to, before that is handled."""
        pending = self._conversation.pending
        if type(message) is Notification:
            return self._call_of_notification(message)
        if type(message) is tuple or (isinstance(message, tuple) and hasattr(message, "id")):
            if hasattr(message, "method"):  # a request of the child
                return None
            id: Any = message[0]
            if id is None:  # by order: the call that has waited longest
                return next(iter(pending.values()), None)
            return pending.get(id)
        return None

    def _call_of_notification(self, notification: Notification) -> Call | None:
        method, params = notification
        for stream in self._conversation.streams():
            member = stream.kind.notifications.get(method, "")
            if member is None or (member and _member(params, member) == stream.key):
                call: Call = stream.call
                return call
        read = self._conversation.dialect.notifications.get(method)
        meaning = read(params) if read is not None else None
        if type(meaning) is Progress and type(meaning.id) in (int, str):
            return self._conversation.pending.get(meaning.id)
        return None


def _member(params: Any, name: str) -> Any:
    return params.get(name) if isinstance(params, dict) else None
