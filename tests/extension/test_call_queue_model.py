"""The session and its call queue against a simple model: whatever happens, in whatever order, each
call ends exactly once, with its own outcome; the pipe carries what the model says, in order.

The session is the real one, on real pipes; in place of the process stands a child that does what
the test tells it to. Time is told, not waited for.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from exthost.errors import CallFailed, CallTimeout, ExtensionGone, ExthostError
from exthost.events import Bus, CallEnded, CallStarted
from exthost.extension.call_queue import CallQueue
from exthost.session.call import Call, FutureCall
from exthost.session.phase import Phase
from exthost.session.replies import DELIVER
from exthost.session.session import Session
from tests.extensions.fake_child import FakeChild, session_with


@dataclass(eq=False)
class Expected:
    """One call as the model sees it."""

    n: int
    call: Call
    future: "asyncio.Future[Any]"
    place: str = "waiting"  # waiting, sent, ended
    outcome: str = ""
    retried: bool = False
    id: int = -1


class Accounting(RuleBasedStateMachine):
    """Calls come, are answered, refused, given up; sessions come and die; the queue closes."""

    calls = Bundle("calls")

    @initialize(most=st.integers(1, 4), retry=st.booleans(), watched=st.booleans())
    def open_the_queue(self, most: int, retry: bool, watched: bool) -> None:
        self.loop = asyncio.new_event_loop()
        self.bus = Bus()
        self.event_counts = [0, 0]
        if watched:  # a queue that somebody listens to takes another way through the code
            self.bus.subscribe(CallStarted, lambda _: self._count_event(0))
            self.bus.subscribe(CallEnded, lambda _: self._count_event(1))
        self.most, self.retry, self.watched = most, retry, watched
        self.queue = CallQueue(
            "x", max_in_flight=most, retry_once=retry, bus=self.bus, loop=self.loop
        )
        self.session: Session | None = None
        self.fake_child: FakeChild | None = None
        self.closed = False
        self.made: list[Expected] = []
        self.waiting: list[Expected] = []  # those who wait, in order
        self.sent: list[Expected] = []  # everything the present session was asked, in order
        self.stray = 0

    def _count_event(self, which: int) -> None:
        self.event_counts[which] += 1

    def _run(self) -> None:
        """Let the loop do all that there is to do now."""

        async def some_ticks() -> None:
            for _ in range(8):
                await asyncio.sleep(0)

        self.loop.run_until_complete(some_ticks())

    # -- the model -----------------------------------------------------------------------------

    def _under_way(self) -> list[Expected]:
        return [item for item in self.sent if item.place == "sent"]

    def _model_pump(self) -> None:
        while self.session is not None and self.waiting and len(self._under_way()) < self.most:
            one = self.waiting.pop(0)
            one.place, one.id = "sent", len(self.sent)
            self.sent.append(one)

    def _model_end(self, one: Expected, outcome: str) -> None:
        assert one.place != "ended"
        if one in self.waiting:
            self.waiting.remove(one)
        one.place, one.outcome = "ended", outcome
        self._model_pump()

    # -- what can happen -----------------------------------------------------------------------

    @rule(target=calls, several=st.integers(1, 6), in_one_tick=st.booleans())
    def call(self, several: int, in_one_tick: bool) -> Any:
        made = []
        for _ in range(several):
            future: asyncio.Future[Any] = self.loop.create_future()
            number = len(self.made)
            call = FutureCall("echo", number, DELIVER, 1000.0, self.queue.now(), future)
            one = Expected(number, call, future)
            if self.closed:
                try:
                    self.queue.submit(call)
                except ExtensionGone:
                    continue
                raise AssertionError("a closed queue accepted a call")
            self.queue.submit(call)
            self.made.append(one)
            self.waiting.append(one)
            self._model_pump()
            made.append(one)
            if not in_one_tick:
                self._run()
        self._run()
        return multiple(*made)

    @precondition(lambda self: self.session is not None)
    @rule(one=calls, refused=st.booleans(), twice=st.booleans())
    def answer(self, one: Expected, refused: bool, twice: bool) -> None:
        """To a call of this session, whether or not anyone still waits for it."""
        if one.id < 0 or one.id >= len(self.sent) or self.sent[one.id] is not one:
            return
        assert self.fake_child is not None
        output = {"error": f"no {one.n}"} if refused else {"result": one.n}
        for _ in range(1 + twice):
            self.fake_child.say(id=one.id, **output)
        self.stray += twice + (one.place == "ended")
        if one.place == "sent":
            self._model_end(one, "error" if refused else "result")
        self._run()

    @precondition(lambda self: self.session is not None)
    @rule(ahead=st.integers(0, 5))
    def answer_unknown_request(self, ahead: int) -> None:
        assert self.fake_child is not None
        self.fake_child.say(id=len(self.sent) + ahead, result="to nobody")
        self.stray += 1
        self._run()

    @rule(one=consumes(calls), same_tick=st.booleans())
    def cancel(self, one: Expected, same_tick: bool) -> None:
        """As a cancelled caller does: its future first, then the queue."""
        if same_tick and one.place == "sent" and self.fake_child is not None:
            self.fake_child.say(id=one.id, result=one.n)  # unread when the caller gives up
            self.stray += 1
        one.future.cancel()
        self.queue.cancel(one.call)
        if one.place != "ended":
            self._model_end(one, "cancelled")
        self._run()

    @rule(one=calls)
    def time_out(self, one: Expected) -> None:
        self.queue.expire(one.call)
        if one.place != "ended":
            self._model_end(one, "timeout")
        self._run()

    @precondition(lambda self: self.session is None and not self.closed)
    @rule()
    def a_session_comes(self) -> None:
        self.fake_child = FakeChild()
        self.session = session_with(self.fake_child, self.queue)
        self.sent, self.stray = [], 0
        self.queue.attach(self.session)
        self._model_pump()
        self._run()

    @precondition(lambda self: self.session is not None)
    @rule(last_words=st.booleans())
    def the_session_dies(self, last_words: bool) -> None:
        assert self.fake_child is not None and self.session is not None
        under_way = self._under_way()
        if last_words and under_way:  # still in the pipe when it died: an answer all the same
            one = under_way.pop(0)
            self.fake_child.say(id=one.id, result=one.n)
            queued = len(self.waiting)
            self._model_end(one, "result")
            under_way += self.sent[len(self.sent) - (queued - len(self.waiting)) :]
        again = [one for one in under_way if self.retry and not one.retried]
        session, self.session = self.session, None
        for one in under_way:
            if one in again:
                one.place, one.retried = "waiting", True
            else:
                self._model_end(one, "gone")
        self.waiting[:0] = again
        self.fake_child.die()
        self._run()
        assert session.conversation.phase is Phase.CLOSED and not session.pending
        self.fake_child = None

    @precondition(lambda self: self.session is None and not self.closed)
    @rule()
    def no_call_comes(self) -> None:
        self.closed = True
        self.queue.close(lambda method: ExtensionGone("X1006", "closed"))
        for call in list(self.waiting):
            self._model_end(call, "gone")
        self._run()

    @precondition(lambda self: self.closed)
    @rule()
    def somebody_comes_again(self) -> None:
        self.closed = False
        self.queue.make_closed_error = None

    # -- what must hold ------------------------------------------------------------------------

    @invariant()
    def each_call_is_where_the_model_says(self) -> None:
        for item in self.made:
            assert item.call.ended == (item.place == "ended"), item
            if item.place != "ended":
                assert not item.future.done(), item
            elif item.future.cancelled():
                assert item.outcome in OUTCOMES
            else:
                assert outcome_of(item.future, item.n) == item.outcome, item

    @invariant()
    def the_books_balance(self) -> None:
        ended = [item.outcome for item in self.made if item.place == "ended"]
        assert self.queue.outcomes.results == ended.count("result")
        for outcome in OUTCOMES[1:]:
            assert self.queue.outcomes.unsuccessful[outcome] == ended.count(outcome)
        assert self.queue.outcomes.error_replies == ended.count("error")
        assert [call.params for call in self.queue.waiting] == [item.n for item in self.waiting]
        if self.watched:
            assert self.event_counts == [len(self.made), len(ended)]

    @invariant()
    def the_pipe_carried_the_requests_of_the_model(self) -> None:
        if self.session is None or self.fake_child is None:
            assert self.queue.live_sessions == self.queue.sessions == []
            return
        received = [(request["id"], request["params"]) for request in self.fake_child.heard()]
        assert received == [(item.id, item.n) for item in self.sent]
        assert set(self.session.pending) == {item.id for item in self._under_way()}
        assert sum(self.session.diagnostics.counts.values()) == self.stray

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        if self.fake_child is not None:
            self.fake_child.die()
            self._run()
        self.queue.close(lambda method: ExtensionGone("X1006", "closed"))
        self.queue.deadlines.stop()
        self._run()
        for item in self.made:
            assert item.call.ended
            if not item.future.cancelled():
                item.future.exception()
        self.loop.close()


OUTCOMES = ("result", "error", "timeout", "cancelled", "gone")


def outcome_of(future: "asyncio.Future[Any]", n: int) -> str:
    error = future.exception()
    if error is None:
        assert future.result() == n
        return "result"
    assert isinstance(error, ExthostError)
    kinds = {CallFailed: "error", CallTimeout: "timeout", ExtensionGone: "gone"}
    if isinstance(error, CallFailed):
        assert error.error_message == f"no {n}"
    return kinds[type(error)]


TestAccounting = Accounting.TestCase
TestAccounting.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
