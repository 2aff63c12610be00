"""The interface by which an observer sees each message of one conversation, in both directions.

A conversation is the exchange of messages with one process. Traces, `exthost check` and replays
observe it. A conversation without an observer pays one comparison for each read and each frame that
it sends.
"""

import logging
from typing import Protocol, TypeAlias

from exthost.model.messages import Incoming
from exthost.session.call import Call
from exthost.wire.framing import Broken, Item, Skipped

_log = logging.getLogger("exthost.session")

Received: TypeAlias = Incoming | Skipped | Broken


class MessageObserver(Protocol):
    """Sees the messages of one conversation, before the conversation handles them.

    `call` is the call that a message belongs to, or None if it belongs to no call. In a session,
    `sent` is called on the thread that calls the extension, `received` on the loop's thread.
    """

    def sent(self, frame: bytes, method: str, call: Call | None) -> None:
        """Handle a frame that is about to be written. `method` is "" unless it is a request."""

    def received(self, message: Received, item: Item, call: Call | None) -> None:
        """Handle a message that was decoded from the frame `item`, or an item that is not a frame.
        The messages of a batch come one by one."""


class SafeObserver:
    """Passes messages on to an observer. Exceptions of the observer are logged and dropped, because
    they would break the conversation."""

    __slots__ = ("_observer",)

    def __init__(self, observer: MessageObserver) -> None:
        self._observer = observer

    def sent(self, frame: bytes, method: str, call: Call | None) -> None:
        try:
            self._observer.sent(frame, method, call)
        except Exception:
            _log.exception("an observer of messages failed")

    def received(self, message: Received, item: Item, call: Call | None) -> None:
        try:
            self._observer.received(message, item, call)
        except Exception:
            _log.exception("an observer of messages failed")
