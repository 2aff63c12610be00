"""Makes records of the messages of one session.

A frame that the host sends is decoded with the codec of the extension's role, so that the record
shows what the extension receives: the host's codec may add fields to each message. Messages of the
child come decoded from the conversation.
"""

from collections.abc import Callable
from itertools import count
from time import time
from typing import Any

from exthost.dialects.base import Dialect
from exthost.dialects.codec import Positional, Role
from exthost.messages import Failure, Incoming, Noise, Notification, Reply, Request
from exthost.session.call import Call
from exthost.session.observation import Received
from exthost.trace.record import TraceRecord
from exthost.trace.secrets import SecretFilter
from exthost.wire.framing import Broken, Skipped

__all__ = ["SessionTrace"]

# How many open requests are remembered, for the method of their replies.
_REMEMBERED = 4096


class SessionTrace:
    """An observer of one session. `publish` gets the records."""

    def __init__(
        self,
        extension: str,
        pid: int,
        dialect: Dialect,
        max_message: int,
        secrets: SecretFilter,
        numbers: "count[int]",
        publish: Callable[[TraceRecord], None],
    ) -> None:
        """`numbers` are those of the calls of this extension."""
        self._extension = extension
        self._pid = pid
        self._secrets = secrets
        self._numbers = numbers
        self._publish = publish
        # With room for what the host may send although it would not accept it.
        self._framing = dialect.framing(max(max_message, 2**31 - 1))
        self._codec = dialect.codec(Role.GUEST)
        # Asked once: that costs as much as everything else about a record.
        self._positional = self._codec if isinstance(self._codec, Positional) else None
        self._methods: dict[Any, str] = {}  # of open requests, by their direction and id

    def sent(self, frame: bytes, method: str, call: Call | None) -> None:
        if method and self._positional is not None:
            self._positional.expect(method)
        for item in self._framing.feed(frame):
            if not isinstance(item, Skipped | Broken):
                message = self._codec.decode(item)
                self._record("sent", message, len(frame), call)

    def received(self, message: Received, size: int, call: Call | None) -> None:
        if isinstance(message, (Skipped, Broken)):
            text = message.head.decode("utf-8", "replace")
            self._add("skipped", "received", size, data=message.why, text=text)
        else:
            self._record("received", message, size, call)

    def _record(self, direction: Any, message: Incoming, size: int, call: Call | None) -> None:
        match message:
            case Request(method, params, id):
                if len(self._methods) >= _REMEMBERED:
                    del self._methods[next(iter(self._methods))]
                self._methods[direction, id] = method
                self._add("request", direction, size, id, call, method, params)
            case Notification(method, params):
                self._add("notification", direction, size, None, call, method, params)
            case Failure(id, text, code, data):
                error = {"code": code, "message": text}
                if data is not None:
                    error["data"] = data
                self._add(
                    "failure", direction, size, id, call, self._method(direction, id, call), error
                )
            case Noise(data, why):
                text = data.decode("utf-8", "replace")
                self._add("noise", direction, size, data=why, text=text)
            case Reply(id, result):
                self._add(
                    "reply", direction, size, id, call, self._method(direction, id, call), result
                )
            case (id, result):  # the plain form of a reply
                self._add(
                    "reply", direction, size, id, call, self._method(direction, id, call), result
                )

    def _method(self, direction: str, id: Any, call: Call | None) -> str:
        """Return the method of the request that a reply of this direction answers; that of its
        call, if the request was sent before the trace began."""
        method = self._methods.pop(("received" if direction == "sent" else "sent", id), "")
        return method or ("" if call is None else call.method)

    def _add(
        self,
        kind: Any,
        direction: Any,
        size: int,
        id: Any = None,
        call: Call | None = None,
        method: str = "",
        data: Any = None,
        text: str = "",
    ) -> None:
        number = None
        if call is not None:
            number = call.trace_number
            if number is None:
                number = call.trace_number = next(self._numbers)
        hide = self._secrets
        self._publish(
            TraceRecord(
                time(),
                self._extension,
                kind,
                direction,
                self._pid,
                size,
                id,
                number,
                method,
                hide.data(data),
                hide.text(text),
            )
        )
