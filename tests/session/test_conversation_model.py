"""Random sequences of calls, replies, garbage and abandoned calls, compared with a simple model.

A `Conversation` is the state of one connection: it numbers requests and matches replies with calls.
It does no I/O, but returns effects, which say for example that a call is completed. Each call must
end at most once, no id may be used twice, and no table may have an entry after the end of the
conversation.
"""

from collections import Counter
from collections.abc import Generator
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from exthost.dialects.steps import AskHost, OneRequestOrMore, Subscribe, TryRequest
from exthost.errors import CallFailed
from exthost.model.messages import Reply, Request
from exthost.session.call import Call
from exthost.session.effects import Effect, End, Failed, RunHandler, StreamAccepted, WriteFrame
from exthost.session.phase import Phase
from exthost.session.replies import GeneratorHandler, OneRequestOrMoreHandler
from tests.session.conversation_peer import (
    BY_ID_DIALECTS,
    BY_ORDER,
    StubCall,
    begin_operation,
    failure,
    frame_bytes,
    is_empty,
    line,
    notification,
    open_conversation,
    open_stream,
    reply,
    send_call,
    written_messages,
)


def send_second_request(params: Any) -> Generator[Any, Any, Any]:
    return (yield Request("more"))


def operation() -> Generator[Any, Any, Any]:
    """An operation with every kind of step."""
    yield Subscribe(Request("subscribe"))
    yield TryRequest(Request("maybe"), 1.0)
    answer_of_host = yield AskHost("config.get", None)
    second_reply = yield Request("second", answer_of_host.result)
    if not isinstance(second_reply, Reply):
        raise CallFailed("X0701", "no")
    return second_reply.result


class ConversationById(RuleBasedStateMachine):
    """A conversation whose replies have ids, with calls of every kind."""

    @initialize(dialect=st.sampled_from(BY_ID_DIALECTS), first=st.integers(0, 3))
    def begin(self, dialect: Any, first: int) -> None:
        self.conversation = open_conversation(dialect, first)
        self.calls: list[Call] = []
        self.times_ended: Counter[Call] = Counter()
        self.abandoned: set[Call] = set()
        self.requests_to_host: list[RunHandler] = []
        self.ids: list[int] = []
        self.streams_opened = 0
        self.is_closed = False

    def apply(self, effects: list[Effect]) -> None:
        """Update the model by the effects, as a session would perform them."""
        for effect in effects:
            if isinstance(effect, list):
                for call, _ in effect:
                    self.end_call(call)
            elif isinstance(effect, Failed):
                self.end_call(effect.call)
            elif isinstance(effect, WriteFrame):
                self.ids += [
                    output["id"] for output in written_messages([effect]) if "id" in output
                ]
            elif isinstance(effect, RunHandler):
                self.requests_to_host.append(effect)
            elif isinstance(effect, StreamAccepted):
                assert effect.stream.call not in self.abandoned
            else:
                assert not isinstance(effect, End), effect

    def end_call(self, call: Call) -> None:
        assert call in self.calls and call not in self.abandoned
        self.times_ended[call] += 1

    def in_flight(self) -> list[Call]:
        return [
            call for call in self.calls if not self.times_ended[call] and call not in self.abandoned
        ]

    is_open = precondition(lambda self: not self.is_closed)

    @is_open
    @rule()
    def call(self) -> None:
        call = send_call(self.conversation)
        assert isinstance(call.id, int)
        self.ids.append(call.id)
        self.calls.append(call)

    @is_open
    @rule()
    def call_with_one_request_or_more(self) -> None:
        one_request_or_more = OneRequestOrMore(
            lambda params: ("wire", params), lambda params, result: send_second_request(params)
        )
        call = StubCall("tool", None, OneRequestOrMoreHandler(one_request_or_more))
        self.calls.append(call)
        self.apply([WriteFrame(self.conversation.send(call))])

    @is_open
    @rule(method=st.sampled_from(["run", "watch"]))
    def open_stream(self, method: str) -> None:
        self.streams_opened += 1
        queue = open_stream(self.conversation, method, {"stream": self.streams_opened % 3})
        assert isinstance(queue.call.id, int)
        self.ids.append(queue.call.id)
        self.calls.append(queue.call)

    @is_open
    @rule()
    def begin_operation(self) -> None:
        call, effects = begin_operation(self.conversation, operation())
        self.calls.append(call)
        self.apply(effects)

    @is_open
    @rule(id=st.integers(-1, 40), kind=st.sampled_from([reply, failure]), repeats=st.booleans())
    def answer(self, id: int, kind: Any, repeats: bool) -> None:
        """The reply may have any id, used or not."""
        self.apply(self.conversation.receive_bytes(kind(id) * (1 + repeats)))

    @is_open
    @rule(data=st.data(), acknowledges=st.booleans())
    def answer_a_call(self, data: st.DataObject, acknowledges: bool) -> None:
        if calls := [call for call in self.in_flight() if type(call.id) is int]:
            call = data.draw(st.sampled_from(calls))
            name = call.params["stream"] if call.reply_handler.stream is not None else 0
            result = {"stream": name} if acknowledges else 1
            self.apply(self.conversation.receive_bytes(reply(call.id, result)))

    @is_open
    @rule(name=st.integers(0, 4), value=st.sampled_from([1, "done"]))
    def event(self, name: int, value: Any) -> None:
        event_of_named_stream = notification("watch.event", stream=name, event=value)
        event_of_nameless_stream = notification("run.event", n=1)
        data = event_of_named_stream + event_of_nameless_stream
        self.apply(self.conversation.receive_bytes(data))

    @is_open
    @rule(data=st.binary(max_size=30), id=st.integers(0, 9))
    def garbage(self, data: bytes, id: int) -> None:
        noise = b'{"id":%d,"result":' % id + data.replace(b"\n", b"") + b"?\n"
        long_line = line({"id": id, "result": "x" * 5000})
        self.apply(self.conversation.receive_bytes(noise + long_line))

    @is_open
    @rule(data=st.data(), repeats=st.booleans())
    def abandon(self, data: st.DataObject, repeats: bool) -> None:
        if calls := self.in_flight():
            call = data.draw(st.sampled_from(calls))
            self.abandoned.add(call)
            self.apply(self.conversation.abandon(call, "enough"))
            if repeats:
                assert self.conversation.abandon(call, "enough") == []

    @is_open
    @rule(data=st.data())
    def optional_request_times_out(self, data: st.DataObject) -> None:
        """An optional request gets no reply within its limit."""
        optional_calls = [
            call
            for call in self.in_flight()
            if isinstance(call.reply_handler, GeneratorHandler)
            and call.reply_handler.is_optional
            and call.id in self.conversation.pending
            and type(call.id) is int
        ]
        if optional_calls:
            call = data.draw(st.sampled_from(optional_calls))
            self.apply(self.conversation.continue_without_reply(call))

    @is_open
    @rule(data=st.data())
    def answer_of_host(self, data: st.DataObject) -> None:
        """The answer may be too late or repeated."""
        if self.requests_to_host:
            call, request = data.draw(st.sampled_from(self.requests_to_host))
            self.apply(self.conversation.resume(call, request.id, Reply(None, 1)))

    @is_open
    @rule()
    def end(self) -> None:
        remaining_calls = self.conversation.end()
        assert Counter(remaining_calls) == Counter(self.in_flight())
        self.is_closed = True

    @precondition(lambda self: self.is_closed)
    @rule(id=st.integers(0, 40), name=st.integers(0, 2))
    def receive_after_the_end(self, id: int, name: int) -> None:
        data = reply(id) + notification("watch.event", stream=name, event="done")
        before = sum(self.times_ended.values())
        self.apply(self.conversation.receive_bytes(data))
        assert sum(self.times_ended.values()) == before

    @invariant()
    def each_call_ends_at_most_once(self) -> None:
        assert all(times == 1 for times in self.times_ended.values())

    @invariant()
    def no_id_is_used_twice(self) -> None:
        assert len(self.ids) == len(set(self.ids)) and self.ids == sorted(self.ids)

    @invariant()
    def the_tables_have_exactly_the_calls_in_flight(self) -> None:
        if self.is_closed:
            assert is_empty(self.conversation)
            assert self.conversation.phase is Phase.CLOSED
        else:
            assert Counter(self.conversation.calls()) == Counter(self.in_flight())
            queues = {call.reply_handler.stream for call in self.in_flight()}
            assert self.conversation.streams() <= queues

    def teardown(self) -> None:
        if not self.is_closed:
            self.end()
            assert is_empty(self.conversation)


class ConversationByOrder(RuleBasedStateMachine):
    """A conversation whose replies have no ids, and are in the order of the requests."""

    @initialize()
    def begin(self) -> None:
        self.conversation = open_conversation(BY_ORDER)
        self.waiting: list[Call] = []
        self.calls_made = 0
        self.is_closed = False

    is_open = precondition(lambda self: not self.is_closed)

    @is_open
    @rule()
    def call(self) -> None:
        self.calls_made += 1
        call = StubCall("say", self.calls_made)
        frame_bytes(self.conversation.send(call))
        self.waiting.append(call)

    @is_open
    @rule(fails=st.lists(st.booleans(), max_size=4), byte_by_byte=st.booleans())
    def answer(self, fails: list[bool], byte_by_byte: bool) -> None:
        payloads = [b"!no" if fail else b"7" for fail in fails]
        data = b"".join(self.conversation.framing.wrap(payload) for payload in payloads)
        chunks = [data[n : n + 1] for n in range(len(data))] if byte_by_byte else [data]
        for chunk in chunks:
            for effect in self.conversation.receive_bytes(chunk):
                if isinstance(effect, End):
                    assert not self.waiting, "only a reply without a call ends the conversation"
                    self.end()
                    return
                ended_call = effect.call if isinstance(effect, Failed) else effect[0][0]  # type: ignore[index]
                assert ended_call is self.waiting.pop(0), (
                    "the call that has waited longest ends first"
                )

    @is_open
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        if self.waiting:
            call = data.draw(st.sampled_from(self.waiting))
            (effect,) = self.conversation.abandon(call, "enough")
            assert isinstance(effect, End)
            self.waiting.remove(call)
            self.end()

    @is_open
    @rule()
    def end(self) -> None:
        assert self.conversation.end() == self.waiting
        self.waiting = []
        self.is_closed = True

    @precondition(lambda self: self.is_closed)
    @rule()
    def receive_after_the_end(self) -> None:
        data = self.conversation.framing.wrap(b"7")
        assert all(isinstance(effect, End) for effect in self.conversation.receive_bytes(data))
        self.begin()  # a new conversation

    @invariant()
    def the_table_has_exactly_the_waiting_calls(self) -> None:
        assert self.conversation.calls() == self.waiting


ConversationById.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None
)
TestConversationById = ConversationById.TestCase
ConversationByOrder.TestCase.settings = settings(
    max_examples=80, stateful_step_count=20, deadline=None
)
TestConversationByOrder = ConversationByOrder.TestCase
