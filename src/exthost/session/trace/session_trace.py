"""Makes records of the messages of one session (the host's end of one process), for a trace.

A frame that the host sends is decoded again, with the codec of the extension's role. So the record
shows the message that the extension receives, including the fields that the host's codec adds.
Messages of the extension have already been decoded by the session.
"""

from collections.abc import Callable
from itertools import count
from time import time
from typing import Any

from exthost.dialects.base import Dialect
from exthost.dialects.codec import Positional, Role
from exthost.model.messages import Failure, Incoming, Noise, Notification, Reply, Request
from exthost.session.call import Call
from exthost.session.inbound import request_key
from exthost.session.observation import Received
from exthost.session.trace.record import TraceRecord
from exthost.session.trace.secrets import SecretFilter
from exthost.wire.framing import Broken, Item, Skipped

# How many open requests are remembered, so that the record of a reply can name the
# method. Beyond this number, the oldest request is forgotten.
_MAX_OPEN_REQUESTS = 4096


class SessionTrace:
    """Observes one session, and passes a record of each message to `publish`."""

    def __init__(
        self,
        extension: str,
        pid: int,
        node: str,
        dialect: Dialect,
        max_message: int,
        secrets: SecretFilter,
        numbers: "count[int]",
        publish: Callable[[TraceRecord], None],
    ) -> None:
        """`node` is the machine of the process, "" for this one. `max_message` is the maximum size
        of a message of the extension in bytes. `secrets` hides secrets. `numbers` yields the
        numbers of the calls of this extension."""
        self._extension = extension
        self._pid = pid
        self._node = node
        self._secrets = secrets
        self._numbers = numbers
        self._publish = publish
        # The host may send messages that are larger than those it accepts from the extension.
        self._framing = dialect.framing(max(max_message, 2**31 - 1))
        self._codec = dialect.codec(Role.GUEST)
        # In a positional dialect a frame does not name its method, so the codec must know it first.
        # Checked once, because `isinstance` with a Protocol takes as long as the rest of a record.
        self._positional = self._codec if isinstance(self._codec, Positional) else None
        self._methods: dict[Any, str] = {}  # the methods of open requests, by direction and id

    def sent(self, frame: bytes, method: str, call: Call | None) -> None:
        if method and self._positional is not None:
            self._positional.expect(method)
        for item in self._framing.feed(frame):
            if not isinstance(item, Skipped | Broken):
                message = self._codec.decode(item)
                self._record("sent", message, len(frame), call)

    def received(self, message: Received, item: Item, call: Call | None) -> None:
        size = getattr(item, "size", 0) if isinstance(item, Skipped | Broken) else len(item)
        if isinstance(message, (Skipped, Broken)):
            text = message.head.decode("utf-8", "replace")
            self._add("skipped", "received", size, data=message.reason, text=text)
        else:
            self._record("received", message, size, call)

    def _record(self, direction: Any, message: Incoming, size: int, call: Call | None) -> None:
        """Publish the record of a message."""
        match message:
            case Request(method, params, id):
                if (key := request_key(id)) is not None:  # else the host does not answer it
                    if len(self._methods) >= _MAX_OPEN_REQUESTS:
                        del self._methods[next(iter(self._methods))]
                    self._methods[direction, key] = method
                self._add("request", direction, size, id, call, method, params)
            case Notification(method, params):
                self._add("notification", direction, size, None, call, method, params)
            case Failure(id, text, code, data):
                error = {"code": code, "message": text}
                if data is not None:
                    error["data"] = data
                method = self._find_method(direction, id, call)
                self._add("failure", direction, size, id, call, method, error)
            case Noise(data, reason):
                text = data.decode("utf-8", "replace")
                self._add("noise", direction, size, data=reason, text=text)
            case Reply(id, result):
                method = self._find_method(direction, id, call)
                self._add("reply", direction, size, id, call, method, result)
            case (id, result):  # a codec returns most replies as plain tuples, which is faster
                method = self._find_method(direction, id, call)
                self._add("reply", direction, size, id, call, method, result)

    def _find_method(self, direction: str, id: Any, call: Call | None) -> str:
        """Return the method of the request that a reply answers. `direction` is that of the reply.
        If the request was sent before the trace began, return the method of the call, or ""
        if the call is unknown."""
        direction = "received" if direction == "sent" else "sent"
        id = request_key(id)
        method = self._methods.pop((direction, id), "")
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
        """Publish a record. A call gets its number with its first record."""
        number = None
        if call is not None:
            number = call.trace_number
            if number is None:
                number = call.trace_number = next(self._numbers)
        hide = self._secrets
        # The extension chooses the methods and ids of its own messages.
        self._publish(
            TraceRecord(
                time(),
                self._extension,
                kind,
                direction,
                self._pid,
                size,
                hide.data(id),
                number,
                hide.text(method),
                hide.data(data),
                hide.text(text),
                self._node,
            )
        )
