"""Numbers and encodes the requests of one conversation, and keeps them until their replies come.

A conversation is the exchange of messages with one process. An id is never used twice in it. If a
request cannot be encoded, or is too large for a frame (the framed bytes of one message), an error
is raised and the request is not kept.
"""

from typing import Any

from exthost.dialects.codec import Codec
from exthost.dialects.steps import Subscribe
from exthost.errors import UsageError
from exthost.model.messages import Id, Message
from exthost.session.call import Call
from exthost.session.effects import Frame, join_frame
from exthost.session.observation import MessageObserver
from exthost.wire.framing import Framing

# A payload larger than this is not joined with the rest of its frame, to save a copy.
_JOIN_BYTES = 64 * 1024

# How many optional requests without a reply are remembered.
_MAX_UNANSWERED = 8


class RequestTable:
    """The requests without a reply.

    pending        the calls, by the id of the request in flight, oldest first
    subscriptions  the requests that stay open, by id; None if none was sent
    unanswered     the ids of the last optional requests that got no reply in time
    next_id        the id of the next request
    observer       sees each frame before it is written; None without an observer
    """

    __slots__ = (
        "_codec",
        "_encode_request",
        "_framing",
        "_join_bytes",
        "_suffix",
        "next_id",
        "observer",
        "pending",
        "subscriptions",
        "unanswered",
    )

    def __init__(self, codec: Codec, framing: Framing, max_message: int, first_id: int) -> None:
        self._codec = codec
        self._framing = framing
        self._encode_request = codec.request
        self._suffix = framing.suffix
        self._join_bytes = min(_JOIN_BYTES, max_message)
        self.next_id = first_id
        self.observer: MessageObserver | None = None
        self.pending: dict[Any, Call] = {}
        self.subscriptions: dict[Any, Subscribe] | None = None
        self.unanswered: tuple[Any, ...] = ()

    def send(self, call: Call) -> Frame:
        """Number the request of a call, keep the call, and return the frame. Raises UsageError if
        the request cannot be encoded."""
        # Every call runs through this method, so it calls as few functions as possible.
        handler, id, encode = call.reply_handler, self.next_id, self._encode_request
        method, params = call.method, call.params
        if handler.makes_request:
            method, params = handler.request(params)
        payload = encode(method, params, id)
        if len(payload) > self._join_bytes:
            frame: Frame = self._split_frame(payload)
        elif self._suffix is not None:  # inlined `wrap` of the framing
            frame = payload + self._suffix
        else:
            frame = self._framing.wrap(payload)
        self.next_id = id + 1
        call.id = id
        self.pending[id] = call
        if self.observer is not None:
            self.observer.sent(join_frame(frame), method, call)
        return frame

    def send_step(self, call: Call, method: str, params: Any, id: Id | None) -> Frame:
        """Return the frame of a further request of a call. `id` is an id that the dialect chose;
        None means the next id."""
        request_id = self.next_id if id is None else id
        payload = self._encode_request(method, params, request_id)
        frame = (
            self._framing.wrap(payload)
            if len(payload) <= self._join_bytes
            else self._split_frame(payload)
        )
        if id is None:
            self.next_id += 1
        call.id = request_id
        self.pending[request_id] = call
        if self.observer is not None:
            self.observer.sent(join_frame(frame), method, call)
        return frame

    def _split_frame(self, payload: bytes) -> Frame:
        """Return the frame of a large payload in three parts, without copying the payload."""
        try:
            header, trailer = self._framing.frame_parts(len(payload))
        except UsageError:
            self._codec.forget_last_request()  # a codec may keep a request to decode its reply
            raise
        return header, payload, trailer

    def encode(self, message: Message) -> bytes:
        """Return the frame of a message that has no reply, which is sent now."""
        frame = self.encode_for_later(message)
        self.report_sent(frame)
        return frame

    def encode_for_later(self, message: Message) -> bytes:
        """Return the frame of a message that has no reply. `report_sent` reports it when it is
        sent."""
        return self._framing.wrap(self._codec.encode(message))

    def report_sent(self, frame: bytes) -> None:
        """Let the observer see a frame that is sent now."""
        if self.observer is not None:
            self.observer.sent(frame, "", None)

    def subscribe(self, subscription: Subscribe) -> tuple[Id, Frame]:
        """Number and keep a request that stays open; return its id and its frame."""
        request = subscription.request
        id = self.next_id
        frame = self._framing.wrap(self._encode_request(request.method, request.params, id))
        self.next_id = id + 1
        if self.subscriptions is None:
            self.subscriptions = {}
        self.subscriptions[id] = subscription
        if self.observer is not None:
            self.observer.sent(frame, request.method, None)
        return id, frame

    def keep_without_request(self, call: Call) -> Any:
        """Keep a call that waits for the host or for a notification, not for a reply. Return
        its id, a tuple, which no child can send."""
        id: Any = (self.next_id,)
        self.next_id += 1
        call.id = id
        self.pending[id] = call
        return id

    def forget(self, call: Call) -> bool:
        """Remove a call. Return True if it was waiting for a reply."""
        return call.id is not None and self.pending.pop(call.id, None) is not None

    def forget_optional(self, call: Call) -> None:
        """Remove a call whose optional step timed out. If the step was a request, its reply may
        still come."""
        if self.forget(call) and isinstance(call.id, int | str):
            # Adds the id, and drops the oldest one if there are _MAX_UNANSWERED already.
            self.unanswered = (*self.unanswered[1 - _MAX_UNANSWERED :], call.id)

    def take_unanswered(self, id: Any) -> bool:
        """Return whether the reply with this id is the first to an optional request that got none
        in time."""
        if id not in self.unanswered:
            return False
        self.unanswered = tuple(other for other in self.unanswered if other != id)
        return True

    def take_oldest(self, id_limit: int) -> Call | None:
        """Remove and return the call that has waited longest, if its id is less than `id_limit`."""
        id = next(iter(self.pending), None)
        if type(id) is not int or id >= id_limit:
            return None
        return self.pending.pop(id)
