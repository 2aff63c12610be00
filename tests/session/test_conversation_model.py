"""The conversation against a model: calls, replies, garbage, giving up, and the end, in any order.

The model keeps plain sets. Each call ends at most once, no id is used twice, and nothing is left in
any table after the end.
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
    BOTH,
    BY_ORDER,
    StubCall,
    failure,
    generator,
    is_empty,
    line,
    notification,
    opened,
    reply,
    sent,
    stream,
    whole,
    written,
)


def more(params: Any) -> Generator[Any, Any, Any]:
    return (yield Request("more"))


def operation() -> Generator[Any, Any, Any]:
    """Every kind of step."""
    yield Subscribe(Request("subscribe"))
    yield TryRequest(Request("maybe"), 1.0)
    received = yield AskHost("config.get", None)
    second = yield Request("second", received.result)
    if not isinstance(second, Reply):
        raise CallFailed("X0701", "no")
    return second.result


class Talk(RuleBasedStateMachine):
    """One conversation by id, with calls of every kind."""

    @initialize(dialect=st.sampled_from(BOTH), first=st.integers(0, 3))
    def begin(self, dialect: Any, first: int) -> None:
        self.conversation = opened(dialect, first)
        self.made: list[Call] = []
        self.ends: Counter[Call] = Counter()
        self.given_up: set[Call] = set()
        self.asking: list[RunHandler] = []
        self.ids: list[int] = []
        self.names = 0
        self.is_over = False

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, list):
                for call, _ in effect:
                    self.end_call(call)
            elif isinstance(effect, Failed):
                self.end_call(effect.call)
            elif isinstance(effect, WriteFrame):
                self.ids += [output["id"] for output in written([effect]) if "id" in output]
            elif isinstance(effect, RunHandler):
                self.asking.append(effect)
            elif isinstance(effect, StreamAccepted):
                assert effect.stream.call not in self.given_up
            else:
                assert not isinstance(effect, End), effect

    def end_call(self, call: Call) -> None:
        assert call in self.made and call not in self.given_up
        self.ends[call] += 1

    def in_flight(self) -> list[Call]:
        return [call for call in self.made if not self.ends[call] and call not in self.given_up]

    is_open = precondition(lambda self: not self.is_over)

    @is_open
    @rule()
    def call(self) -> None:
        call = sent(self.conversation)
        assert isinstance(call.id, int)
        self.ids.append(call.id)
        self.made.append(call)

    @is_open
    @rule()
    def call_that_may_ask_for_more(self) -> None:
        once = OneRequestOrMore(
            lambda params: ("wire", params), lambda params, result: more(params)
        )
        call = StubCall("tool", None, OneRequestOrMoreHandler(once))
        self.made.append(call)
        self.perform([WriteFrame(self.conversation.send(call))])

    @is_open
    @rule(method=st.sampled_from(["run", "watch"]))
    def open_stream(self, method: str) -> None:
        self.names += 1
        queue = stream(self.conversation, method, {"stream": self.names % 3})
        assert isinstance(queue.call.id, int)
        self.ids.append(queue.call.id)
        self.made.append(queue.call)

    @is_open
    @rule()
    def operate(self) -> None:
        call, effects = generator(self.conversation, operation())
        self.made.append(call)
        self.perform(effects)

    @is_open
    @rule(id=st.integers(-1, 40), kind=st.sampled_from([reply, failure]), twice=st.booleans())
    def answer(self, id: int, kind: Any, twice: bool) -> None:
        """To any id, used or not."""
        self.perform(self.conversation.receive_bytes(kind(id) * (1 + twice)))

    @is_open
    @rule(data=st.data(), acknowledges=st.booleans())
    def answer_a_call(self, data: st.DataObject, acknowledges: bool) -> None:
        if calls := [call for call in self.in_flight() if type(call.id) is int]:
            call = data.draw(st.sampled_from(calls))
            name = call.params["stream"] if call.reply_handler.stream is not None else 0
            result = {"stream": name} if acknowledges else 1
            self.perform(self.conversation.receive_bytes(reply(call.id, result)))

    @is_open
    @rule(name=st.integers(0, 4), word=st.sampled_from([1, "done"]))
    def event(self, name: int, word: Any) -> None:
        data = notification("watch.event", stream=name, event=word) + notification("run.event", n=1)
        self.perform(self.conversation.receive_bytes(data))

    @is_open
    @rule(data=st.binary(max_size=30), id=st.integers(0, 9))
    def garbage(self, data: bytes, id: int) -> None:
        noise = b'{"id":%d,"result":' % id + data.replace(b"\n", b"") + b"?\n"
        long = line({"id": id, "result": "x" * 5000})
        self.perform(self.conversation.receive_bytes(noise + long))

    @is_open
    @rule(data=st.data(), twice=st.booleans())
    def give_up(self, data: st.DataObject, twice: bool) -> None:
        if calls := self.in_flight():
            call = data.draw(st.sampled_from(calls))
            self.given_up.add(call)
            self.perform(self.conversation.abandon(call, "enough"))
            if twice:
                assert self.conversation.abandon(call, "enough") == []

    @is_open
    @rule(data=st.data())
    def let_time_pass(self, data: st.DataObject) -> None:
        """A request that may stay unanswered is not answered in its time."""
        waiting = [
            call
            for call in self.in_flight()
            if isinstance(call.reply_handler, GeneratorHandler)
            and call.reply_handler.is_optional
            and call.id in self.conversation.pending
            and type(call.id) is int
        ]
        if waiting:
            call = data.draw(st.sampled_from(waiting))
            self.perform(self.conversation.continue_without_reply(call))

    @is_open
    @rule(data=st.data())
    def host_answers(self, data: st.DataObject) -> None:
        """Perhaps too late, perhaps twice."""
        if self.asking:
            call, request = data.draw(st.sampled_from(self.asking))
            self.perform(self.conversation.resume(call, request.id, Reply(None, 1)))

    @is_open
    @rule()
    def end(self) -> None:
        left = self.conversation.end()
        assert Counter(left) == Counter(self.in_flight())
        self.is_over = True

    @precondition(lambda self: self.is_over)
    @rule(id=st.integers(0, 40), name=st.integers(0, 2))
    def hear_more_after_the_end(self, id: int, name: int) -> None:
        data = reply(id) + notification("watch.event", stream=name, event="done")
        before = sum(self.ends.values())
        self.perform(self.conversation.receive_bytes(data))
        assert sum(self.ends.values()) == before

    @invariant()
    def each_call_ends_at_most_once(self) -> None:
        assert all(times == 1 for times in self.ends.values())

    @invariant()
    def no_id_is_used_twice(self) -> None:
        assert len(self.ids) == len(set(self.ids)) and self.ids == sorted(self.ids)

    @invariant()
    def the_tables_have_exactly_the_calls_in_flight(self) -> None:
        if self.is_over:
            assert is_empty(self.conversation)
            assert self.conversation.phase is Phase.CLOSED
        else:
            assert Counter(self.conversation.calls()) == Counter(self.in_flight())
            queues = {call.reply_handler.stream for call in self.in_flight()}
            assert self.conversation.streams() <= queues

    def teardown(self) -> None:
        if not self.is_over:
            self.end()
            assert is_empty(self.conversation)


class TalkByOrder(RuleBasedStateMachine):
    """One conversation in which the order of replies is all there is."""

    @initialize()
    def begin(self) -> None:
        self.conversation = opened(BY_ORDER)
        self.waiting: list[Call] = []
        self.numbers = 0
        self.is_over = False

    is_open = precondition(lambda self: not self.is_over)

    @is_open
    @rule()
    def call(self) -> None:
        self.numbers += 1
        call = StubCall("say", self.numbers)
        whole(self.conversation.send(call))
        self.waiting.append(call)

    @is_open
    @rule(fails=st.lists(st.booleans(), max_size=4), byte_by_byte=st.booleans())
    def answer(self, fails: list[bool], byte_by_byte: bool) -> None:
        payloads = [b"!no" if fail else b"7" for fail in fails]
        data = b"".join(self.conversation.framing.wrap(payload) for payload in payloads)
        chunks = [data[at : at + 1] for at in range(len(data))] if byte_by_byte else [data]
        for chunk in chunks:
            for effect in self.conversation.receive_bytes(chunk):
                if isinstance(effect, End):
                    assert not self.waiting, "only a reply that nobody waits for ends it"
                    self.end()
                    return
                ended = effect.call if isinstance(effect, Failed) else effect[0][0]  # type: ignore[index]
                assert ended is self.waiting.pop(0), "the one that has waited longest"

    @is_open
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
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
        self.is_over = True

    @precondition(lambda self: self.is_over)
    @rule()
    def hear_more_after_the_end(self) -> None:
        data = self.conversation.framing.wrap(b"7")
        assert all(isinstance(byte, End) for byte in self.conversation.receive_bytes(data))
        self.begin()

    @invariant()
    def the_table_has_exactly_the_waiting_calls(self) -> None:
        assert self.conversation.calls() == self.waiting


Talk.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestTalk = Talk.TestCase
TalkByOrder.TestCase.settings = settings(max_examples=80, stateful_step_count=20, deadline=None)
TestTalkByOrder = TalkByOrder.TestCase
