"""Random sequences of calls, replies and streams: the effects are those of a simple model.

A `Conversation` gives requests their ids, matches replies with calls, and passes events to their
streams. It returns effects: values that say what happened, for example that a call is completed. It
does no I/O, so thousands of steps take a second. The state machine keeps the same state in plain
lists, predicts the effects of each step, and compares. An effect is written as a tuple, such as
("completed", call, value); `describe` makes it from the real one.
"""

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from exthost.dialects.base import Dialect
from exthost.dialects.morphir.dialect import DIALECT, MorphirHostCodec
from exthost.dialects.steps import Exchanges
from exthost.dialects.streams import StreamEvent, StreamKind
from exthost.errors import CallFailed, ExthostError
from exthost.model.messages import Failure, Reply, Request
from exthost.session.call import Call
from exthost.session.conversation import Conversation
from exthost.session.effects import (
    Count,
    DeliverEvent,
    Effect,
    End,
    Failed,
    Notified,
    StreamAccepted,
    WriteFrame,
)
from exthost.session.phase import PHASES, Phase
from exthost.session.replies import DELIVER, GeneratorHandler, StreamHandler
from exthost.session.stream_queue import StreamQueue

MAX_MESSAGE = 2**20


def decode_event(method: str, params: Any) -> StreamEvent:
    return StreamEvent(params, terminal=isinstance(params, dict) and "last" in params)


# A stream that ends with its last event, and a stream that ends with its reply.
NAMED = StreamKind(
    notifications=MappingProxyType({"event": "key", "other": "key"}),
    decode=decode_event,
    key="key",
    ends="terminal",
)
NAMELESS = StreamKind(
    notifications=MappingProxyType({"unnamed event": None}),
    decode=lambda method, params: StreamEvent(params),
)


class CodecWithoutIds(MorphirHostCodec):
    """The codec of morphir, but replies have no id."""

    decode_replies = None  # type: ignore[assignment]

    def decode(self, frame: Any) -> Any:
        message: Any = super().decode(frame)
        if type(message) is tuple:
            return Reply(None, message[1])
        return message._replace(id=None) if isinstance(message, Failure) else message


BY_ID = replace(DIALECT, streams={"named": NAMED, "nameless": NAMELESS})
BY_ORDER = replace(
    BY_ID,
    codec=lambda role: CodecWithoutIds(),
    traits=replace(DIALECT.traits, positional=True),
)


def line(**message: Any) -> bytes:
    return json.dumps(message).encode()


def request_id(frame: Any) -> int:
    """Return the id of a request in a frame."""
    id: int = json.loads(frame)["id"]
    return id


class ConversationModel(RuleBasedStateMachine):
    """Calls are sent, answered or abandoned; streams open and end; the conversation ends."""

    @initialize(dialect=st.sampled_from([BY_ID, BY_ORDER]), first=st.integers(0, 5))
    def begin(self, dialect: Dialect, first: int) -> None:
        self.conversation = Conversation(dialect, MAX_MESSAGE, first)
        self.by_order = dialect is BY_ORDER
        self.next_id = first
        self.calls: list[tuple[int, Call]] = []  # in flight, the oldest first
        self.streams: list[StreamQueue] = []  # open
        # The last events that came before the acknowledgement of their stream.
        self.last_events: dict[StreamQueue, Any] = {}
        self.phase = Phase.HANDSHAKE

    # -- sending -------------------------------------------------------------------------------

    def _add_call(self, call: Call, frame: Any) -> None:
        assert call.id == request_id(frame) == self.next_id  # never used before
        self.calls.append((self.next_id, call))
        self.next_id += 1

    @rule()
    def send(self) -> None:
        call = Call("echo", self.next_id, DELIVER, 5.0, 0.0)
        self._add_call(call, self.conversation.send(call))

    @rule(reason=st.sampled_from(["no JSON", "too long"]), is_stream=st.booleans())
    def send_unwritable_request(self, reason: str, is_stream: bool) -> None:
        params: Any = object() if reason == "no JSON" else "x" * (MAX_MESSAGE + 1)
        handler = StreamHandler(StreamQueue(NAMED, "a")) if is_stream else DELIVER
        call = Call("echo", params, handler, 5.0, 0.0)
        try:
            if is_stream:
                self.conversation.begin(call)
            else:
                self.conversation.send(call)
        except ExthostError:
            return  # the invariant checks that the conversation does not remember the call
        raise AssertionError("the request was sent")

    @rule(kind=st.sampled_from([NAMED, NAMELESS]), key=st.sampled_from(["a", "b", 1]))
    def open_stream(self, kind: StreamKind, key: Any) -> None:
        stream = StreamQueue(kind, key)
        call = Call("open", {"key": key}, StreamHandler(stream), 5.0, 0.0)
        stream.call, stream.params = call, call.params
        (write,) = self.conversation.begin(call)
        assert isinstance(write, WriteFrame)
        self._add_call(call, write.frame)
        self.streams.append(stream)

    # -- receiving -----------------------------------------------------------------------------

    def _pop_call(self, id: int) -> Call | None:
        """Remove and return the call that a reply with this id answers."""
        if self.by_order:
            return self.calls.pop(0)[1] if self.calls else None
        answered = next((call for number, call in self.calls if number == id), None)
        self.calls = [(number, call) for number, call in self.calls if number != id]
        return answered

    def _expect_reply(self, id: int, is_error: bool) -> list[tuple[Any, ...]]:
        """Handle a reply in the model, and return the effects that it must have."""
        call = self._pop_call(id)
        if call is None:
            if self.by_order:
                return [("end",)]
            counter_name = (
                "late or repeated replies" if id < self.next_id else "replies without a request"
            )
            return [("count", counter_name)]
        stream = call.reply_handler.stream
        if is_error:
            if stream in self.streams:
                self.streams.remove(stream)
            return [("failed", call)]
        if stream is None or stream.kind is NAMELESS:
            if stream in self.streams:
                self.streams.remove(stream)
            return [("completed", call, id)]
        expected: list[tuple[Any, ...]] = [("acknowledged", stream)]
        if stream in self.last_events:
            expected.append(("completed", call, self.last_events[stream]))
        return expected

    def _expect_event(self, method: str, params: Any) -> list[tuple[Any, ...]]:
        """Handle an event in the model, and return the effects that it must have."""
        if method == "unnamed event":
            streams = [item for item in self.streams if item.kind is NAMELESS]
        else:
            key = params.get("key") if isinstance(params, dict) else None
            named = [item for item in self.streams if item.kind is NAMED]
            streams = [item for item in named if type(key) in (str, int) and item.key == key]
        expected: list[tuple[Any, ...]] = []
        for stream in streams:
            is_last = stream.kind is NAMED and "last" in params
            expected.append(("event", stream, params, is_last))
            if is_last:
                self.streams.remove(stream)
                if stream.acknowledged:
                    expected.append(("completed", stream.call, params))
                else:
                    self.last_events[stream] = params
        return (expected or [("count", "events of no open stream")]) + [("notified", method)]

    @precondition(lambda self: self.phase is not Phase.CLOSED)
    @rule(
        replies=st.lists(st.tuples(st.integers(-6, 3), st.booleans()), min_size=1, max_size=6),
        in_two_reads=st.booleans(),
    )
    def receive_replies(self, replies: list[tuple[int, bool]], in_two_reads: bool) -> None:
        """Receive replies to calls in flight, to ended calls and to unknown ids."""
        frames, expected = [], []
        for difference, is_error in replies:  # an id is drawn by its distance from the next id
            id = max(0, self.next_id + difference)
            frames.append(line(id=id, error="no") if is_error else line(id=id, result=id))
            expected += self._expect_reply(id, is_error)
            if expected[-1] == ("end",):
                break
        assert self._receive(frames, in_two_reads) == expected

    @precondition(lambda self: self.phase is not Phase.CLOSED)
    @rule(
        method=st.sampled_from(["event", "other", "unnamed event"]),
        params=st.sampled_from(
            [
                {"key": "a"},
                {"key": 1},
                {"key": "b", "last": True},
                {"key": 1, "last": True},
                {"key": ["a"]},
                {"key": None},
                {},
                7,
            ]
        ),
    )
    def receive_event(self, method: str, params: Any) -> None:
        expected = self._expect_event(method, params)
        assert self._receive([line(method=method, params=params)], in_two_reads=False) == expected

    def _receive(self, frames: list[bytes], in_two_reads: bool) -> list[tuple[Any, ...]]:
        data = b"".join(frame + b"\n" for frame in frames)
        parts = [data[: len(data) // 2], data[len(data) // 2 :]] if in_two_reads else [data]
        effects: list[Effect] = []
        for part in parts:
            effects += self.conversation.receive_bytes(part)
        descriptions = [item for effect in effects for item in describe(effect)]
        if ("end",) in descriptions:  # a session ends the conversation after this effect
            self.end()
        return descriptions

    # -- abandoning and ending ---------------------------------------------------------------------

    @precondition(lambda self: self.calls and self.phase is not Phase.CLOSED)
    @rule(data=st.data(), repeats=st.booleans())
    def abandon(self, data: st.DataObject, repeats: bool) -> None:
        number, call = data.draw(st.sampled_from(self.calls))
        self.calls.remove((number, call))
        if call.reply_handler.stream in self.streams:
            self.streams.remove(call.reply_handler.stream)
        effects = self.conversation.abandon(call, "enough")
        if repeats:
            assert self.conversation.abandon(call, "enough") == []
        if self.by_order:  # a late reply could not be recognised
            (effect,) = effects
            assert isinstance(effect, End)
            self.end()
        else:
            assert effects == []

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def leave_stream(self, data: st.DataObject) -> None:
        """The consumer of a stream leaves; a reply to its request still belongs to its call."""
        stream = data.draw(st.sampled_from(self.streams))
        self.streams.remove(stream)
        assert self.conversation.leave(stream, "enough") == []

    @rule(event=st.sampled_from(["open", "drain"]))
    def move(self, event: str) -> None:
        try:
            self.conversation.move(event)
        except KeyError:
            assert (self.phase, event) not in PHASES
        else:
            self.phase = PHASES[self.phase, event]

    @precondition(lambda self: self.phase is not Phase.CLOSED)
    @rule()
    def end(self) -> None:
        in_flight = [call for _, call in self.calls]
        acknowledged = {stream.call for stream in self.streams if stream.acknowledged}
        calls = self.conversation.end()
        # First the calls in flight in their order, then those of the open streams in any order.
        assert calls[: len(in_flight)] == in_flight
        assert set(calls[len(in_flight) :]) == acknowledged
        assert len(calls) == len(in_flight) + len(acknowledged)
        self.calls, self.streams = [], []
        self.phase = Phase.CLOSED

    @invariant()
    def conversation_equals_model(self) -> None:
        if not hasattr(self, "conversation"):
            return
        conversation = self.conversation
        assert list(conversation.pending.items()) == self.calls
        assert conversation.requests.next_id == self.next_id
        assert conversation.streams() == set(self.streams)
        assert conversation.phase is self.phase
        acknowledged = [stream.call for stream in self.streams if stream.acknowledged]
        assert len(conversation.calls()) == len(self.calls) + len(acknowledged)
        assert conversation.is_idle == (not self.calls and not self.streams)


def describe(effect: Effect) -> list[tuple[Any, ...]]:
    """Return an effect in the notation of the model."""
    match effect:
        case list():
            return [("completed", call, value) for call, value in effect]
        case Failed(call, error):
            assert isinstance(error, CallFailed) and error.error_message == "no"
            return [("failed", call)]
        case StreamAccepted(stream):
            return [("acknowledged", stream)]
        case DeliverEvent(stream, event, size, is_last):
            assert size > 0
            return [("event", stream, event, is_last)]
        case Count(reason):
            return [("count", reason)]
        case Notified(notification, None, None):
            return [("notified", notification.method)]
        case End():
            return [("end",)]
        case _:
            raise AssertionError(effect)


TestConversation = ConversationModel.TestCase
TestConversation.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def send_two_requests() -> Exchanges:
    first = yield Request("first", None)
    assert isinstance(first, Reply)
    second = yield Request("second", None)
    assert isinstance(second, Reply)
    return first.result, second.result


def test_by_order_a_reply_does_not_answer_a_request_that_was_sent_after_it_was_read() -> None:
    """The first reply causes the second request, so the next reply of that read is too early."""
    conversation = Conversation(BY_ORDER, MAX_MESSAGE)
    call = Call("both", None, GeneratorHandler(send_two_requests()), 5.0, 0.0)
    conversation.begin(call)
    replies = [line(id=0, result="one"), line(id=0, result="too early")]
    second, end = conversation.receive(list(replies))
    assert isinstance(second, WriteFrame) and isinstance(second.frame, bytes)
    assert json.loads(second.frame)["method"] == "second"
    assert isinstance(end, End) and conversation.end() == [call]


def test_by_order_the_same_replies_in_two_reads_answer_both_requests() -> None:
    conversation = Conversation(BY_ORDER, MAX_MESSAGE)
    call = Call("both", None, GeneratorHandler(send_two_requests()), 5.0, 0.0)
    conversation.begin(call)
    conversation.receive([line(id=0, result="one")])
    (completed,) = conversation.receive([line(id=0, result="two")])
    assert completed == [(call, ("one", "two"))]
    assert conversation.is_idle
