"""The session and its call queue are compared with a simple model. For events in any order, each
call ends exactly once, with the outcome of the model, and the requests in the pipe are those of the
model, in the same order.

The queue of an extension sends calls to a session, the connection to a process, up to
`max_in_flight` at once, and lets the others wait. If the process ends, its calls fail, or, with
`retry_once`, are sent once more to the next session.

The session and its pipes are real. A `FakeChild` replaces the process. No test waits: a rule
expires a call directly.
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
class ModelCall:
    """A call in the model."""

    n: int
    call: Call
    future: "asyncio.Future[Any]"
    place: str = "waiting"  # waiting, sent, ended
    outcome: str = ""
    retried: bool = False
    id: int = -1  # of its request in the current session; -1 if it was not sent


class CallQueueModel(RuleBasedStateMachine):
    """Makes, answers, cancels and expires calls, starts and ends sessions, and closes the queue."""

    calls = Bundle("calls")

    @initialize(max_in_flight=st.integers(1, 4), retry=st.booleans(), watched=st.booleans())
    def open_the_queue(self, max_in_flight: int, retry: bool, watched: bool) -> None:
        self.loop = asyncio.new_event_loop()
        self.bus = Bus()
        self.event_counts = [0, 0]
        if watched:  # a queue with listeners runs other code
            self.bus.subscribe(CallStarted, lambda _: self._count_event(0))
            self.bus.subscribe(CallEnded, lambda _: self._count_event(1))
        self.max_in_flight, self.retry, self.watched = max_in_flight, retry, watched
        self.queue = CallQueue(
            "x", max_in_flight=max_in_flight, retry_once=retry, bus=self.bus, loop=self.loop
        )
        self.session: Session | None = None
        self.fake_child: FakeChild | None = None
        self.closed = False
        self.calls_made: list[ModelCall] = []
        self.waiting: list[ModelCall] = []  # calls that wait, in order
        self.sent: list[ModelCall] = []  # requests of the current session, in order
        self.stray_replies = 0

    def _count_event(self, which: int) -> None:
        self.event_counts[which] += 1

    def _run(self) -> None:
        """Run everything that is due in the loop now."""

        async def run_iterations() -> None:
            for _ in range(8):
                await asyncio.sleep(0)

        self.loop.run_until_complete(run_iterations())

    # -- the model -----------------------------------------------------------------------------

    def _calls_in_flight(self) -> list[ModelCall]:
        return [item for item in self.sent if item.place == "sent"]

    def _model_send(self) -> None:
        """Send waiting calls in the model, as many as the limit allows."""
        while (
            self.session is not None
            and self.waiting
            and len(self._calls_in_flight()) < self.max_in_flight
        ):
            model_call = self.waiting.pop(0)
            model_call.place, model_call.id = "sent", len(self.sent)
            self.sent.append(model_call)

    def _model_end(self, model_call: ModelCall, outcome: str) -> None:
        assert model_call.place != "ended"
        if model_call in self.waiting:
            self.waiting.remove(model_call)
        model_call.place, model_call.outcome = "ended", outcome
        self._model_send()

    # -- the rules ----------------------------------------------------------------------

    @rule(target=calls, count=st.integers(1, 6), in_one_tick=st.booleans())
    def call(self, count: int, in_one_tick: bool) -> Any:
        new_calls = []
        for _ in range(count):
            future: asyncio.Future[Any] = self.loop.create_future()
            number = len(self.calls_made)
            call = FutureCall("echo", number, DELIVER, 1000.0, self.queue.now(), future)
            model_call = ModelCall(number, call, future)
            if self.closed:
                try:
                    self.queue.submit(call)
                except ExtensionGone:
                    continue
                raise AssertionError("a closed queue accepted a call")
            self.queue.submit(call)
            self.calls_made.append(model_call)
            self.waiting.append(model_call)
            self._model_send()
            new_calls.append(model_call)
            if not in_one_tick:
                self._run()
        self._run()
        return multiple(*new_calls)

    @precondition(lambda self: self.session is not None)
    @rule(model_call=calls, refused=st.booleans(), twice=st.booleans())
    def answer(self, model_call: ModelCall, refused: bool, twice: bool) -> None:
        """Answer a call of this session, also if its caller no longer waits."""
        if model_call not in self.sent:
            return
        assert self.fake_child is not None
        output = {"error": f"no {model_call.n}"} if refused else {"result": model_call.n}
        for _ in range(1 + twice):
            self.fake_child.send_to_host(id=model_call.id, **output)
        self.stray_replies += twice + (model_call.place == "ended")
        if model_call.place == "sent":
            self._model_end(model_call, "error" if refused else "result")
        self._run()

    @precondition(lambda self: self.session is not None)
    @rule(ahead=st.integers(0, 5))
    def answer_unknown_request(self, ahead: int) -> None:
        assert self.fake_child is not None
        self.fake_child.send_to_host(id=len(self.sent) + ahead, result="to nobody")
        self.stray_replies += 1
        self._run()

    @rule(model_call=consumes(calls), answered_before=st.booleans())
    def cancel(self, model_call: ModelCall, answered_before: bool) -> None:
        """Cancel the future first and then the call in the queue, as a cancelled task does."""
        if answered_before and model_call.place == "sent" and self.fake_child is not None:
            # Not read yet when the caller cancels.
            self.fake_child.send_to_host(id=model_call.id, result=model_call.n)
            self.stray_replies += 1
        model_call.future.cancel()
        self.queue.cancel(model_call.call)
        if model_call.place != "ended":
            self._model_end(model_call, "cancelled")
        self._run()

    @rule(model_call=calls)
    def time_out(self, model_call: ModelCall) -> None:
        self.queue.expire(model_call.call)
        if model_call.place != "ended":
            self._model_end(model_call, "timeout")
        self._run()

    @precondition(lambda self: self.session is None and not self.closed)
    @rule()
    def start_session(self) -> None:
        self.fake_child = FakeChild()
        self.session = session_with(self.fake_child, self.queue)
        self.sent, self.stray_replies = [], 0
        self.queue.attach(self.session)
        self._model_send()
        self._run()

    @precondition(lambda self: self.session is not None)
    @rule(answer_before=st.booleans())
    def end_session(self, answer_before: bool) -> None:
        assert self.fake_child is not None and self.session is not None
        in_flight = self._calls_in_flight()
        if answer_before and in_flight:  # the answer is in the pipe when the process ends
            model_call = in_flight.pop(0)
            self.fake_child.send_to_host(id=model_call.id, result=model_call.n)
            sent_before = len(self.sent)
            self._model_end(model_call, "result")
            in_flight += self.sent[sent_before:]  # calls that the answer made room for
        retried_calls = [
            model_call for model_call in in_flight if self.retry and not model_call.retried
        ]
        session, self.session = self.session, None
        for model_call in in_flight:
            if model_call in retried_calls:
                model_call.place, model_call.retried = "waiting", True
            else:
                self._model_end(model_call, "gone")
        self.waiting[:0] = retried_calls
        self.fake_child.exit()
        self._run()
        assert session.conversation.phase is Phase.CLOSED and not session.pending
        self.fake_child = None

    @precondition(lambda self: self.session is None and not self.closed)
    @rule()
    def close_queue(self) -> None:
        self.closed = True
        self.queue.close(lambda method: ExtensionGone("X1006", "closed"))
        for call in list(self.waiting):
            self._model_end(call, "gone")
        self._run()

    @precondition(lambda self: self.closed)
    @rule()
    def open_queue_again(self) -> None:
        self.closed = False
        self.queue.make_closed_error = None

    # -- the invariants -----------------------------------------------------------------------

    @invariant()
    def each_call_is_in_the_state_of_the_model(self) -> None:
        for item in self.calls_made:
            assert item.call.ended == (item.place == "ended"), item
            if item.place != "ended":
                assert not item.future.done(), item
            elif item.future.cancelled():
                assert item.outcome in OUTCOMES
            else:
                assert outcome_of(item.future, item.n) == item.outcome, item

    @invariant()
    def the_counts_are_those_of_the_model(self) -> None:
        ended = [item.outcome for item in self.calls_made if item.place == "ended"]
        assert self.queue.outcomes.results == ended.count("result")
        for outcome in OUTCOMES[1:]:
            assert self.queue.outcomes.unsuccessful[outcome] == ended.count(outcome)
        assert self.queue.outcomes.error_replies == ended.count("error")
        assert [call.params for call in self.queue.waiting] == [item.n for item in self.waiting]
        if self.watched:
            assert self.event_counts == [len(self.calls_made), len(ended)]

    @invariant()
    def the_pipe_has_the_requests_of_the_model(self) -> None:
        if self.session is None or self.fake_child is None:
            assert self.queue.live_sessions == self.queue.sessions == []
            return
        received = [(request["id"], request["params"]) for request in self.fake_child.received()]
        assert received == [(item.id, item.n) for item in self.sent]
        assert set(self.session.pending) == {item.id for item in self._calls_in_flight()}
        assert sum(self.session.diagnostics.counts.values()) == self.stray_replies

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        if self.fake_child is not None:
            self.fake_child.exit()
            self._run()
        self.queue.close(lambda method: ExtensionGone("X1006", "closed"))
        self.queue.deadlines.stop()
        self._run()
        for item in self.calls_made:
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
    outcomes_by_class = {CallFailed: "error", CallTimeout: "timeout", ExtensionGone: "gone"}
    if isinstance(error, CallFailed):
        assert error.error_message == f"no {n}"
    return outcomes_by_class[type(error)]


TestCallQueue = CallQueueModel.TestCase
TestCallQueue.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
