"""The one timer against a naive list: each open call expires at its deadline, none earlier, in a
made-up time that moves as the test says."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from exthost.errors import Evidence, ExthostError
from exthost.events import Bus
from exthost.extension.call_queue import CallQueue
from exthost.session.call import Call
from exthost.session.replies import DELIVER

# A deadline is kept to within this: the queue's shortest interval, and the loop's clock.
TOLERANCE = 0.007


class Timer:
    def __init__(self, when: float, what: Callable[[], None]) -> None:
        self.when, self.what, self.cancelled = when, what, False

    def cancel(self) -> None:
        self.cancelled = True


class MadeUpLoop:
    """The part of a loop that a call queue needs, with a clock of its own."""

    def __init__(self) -> None:
        self.clock = 1000.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.clock

    def create_future(self) -> Future[None]:
        return Future()

    def call_at(self, when: float, what: Callable[[], None]) -> Timer:
        self.timers.append(Timer(when, what))
        return self.timers[-1]

    def call_soon_threadsafe(self, what: Callable[..., None], *args: Any) -> None:
        what(*args)

    def armed(self) -> list[Timer]:
        self.timers = [timer for timer in self.timers if not timer.cancelled]
        return self.timers

    def advance(self, seconds: float) -> None:
        until = self.clock + seconds
        while due := [timer for timer in self.armed() if timer.when <= until]:
            first = min(due, key=lambda timer: timer.when)
            self.timers.remove(first)
            self.clock = max(self.clock, first.when)
            first.what()
        self.clock = until


class MadeUpSession:
    """Keeps each call until the test removes it. It is its own conversation and diagnostics."""

    cause = None
    unnamed_error_at = -1.0

    def __init__(self) -> None:
        self.pending: dict[int, Call] = {}
        self.conversation = self
        self.diagnostics = self
        self.counts: dict[str, int] = {}
        self.given_up: list[Call] = []

    def calls(self) -> list[Call]:
        return list(self.pending.values())

    def evidence_since(self, began: float, shown: bytes) -> Evidence:
        return Evidence()

    def with_evidence(self, error: ExthostError) -> ExthostError:
        return error

    def resume_reading(self) -> None:
        pass

    def send_call(self, call: Call) -> None:
        call.session = self
        self.pending[call.params] = call

    def abandon(self, call: Call, why: str) -> None:
        del self.pending[call.params]
        self.given_up.append(call)


class TimedCall(Call):
    """Records when it ended, and with which error. It ends at most once."""

    def __init__(self, n: int, timeout: float, loop: MadeUpLoop) -> None:
        super().__init__("echo", n, DELIVER, timeout, loop.clock)
        self._clock = loop
        self.ended_at: float | None = None
        self.error: BaseException | None = None

    def deliver(self, value: Any) -> None:
        assert self.ended_at is None
        self.ended_at = self._clock.clock

    def reject(self, error: BaseException) -> None:
        self.deliver(None)
        self.error = error


def queue_with(max_in_flight: int) -> tuple[MadeUpLoop, MadeUpSession, CallQueue]:
    loop, session = MadeUpLoop(), MadeUpSession()
    queue = CallQueue("x", max_in_flight=max_in_flight, bus=Bus(), loop=loop)  # type: ignore[arg-type]
    queue.session_began(session)  # type: ignore[arg-type]
    queue.attach(session)  # type: ignore[arg-type]
    return loop, session, queue


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.sampled_from([0.0, 0.001, 0.05, 1.0, 30.0, 3600.0])),
        st.tuples(st.just("advance"), st.sampled_from([0.0, 0.004, 0.05, 1.0, 29.99, 4000.0])),
        st.tuples(st.just("answer"), st.integers(0, 50)),
        st.tuples(st.just("extend"), st.integers(0, 50)),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(1, 5))
def test_each_open_call_expires_at_its_deadline_and_not_earlier(
    steps: list[tuple[str, Any]], max_in_flight: int
) -> None:
    loop, session, queue = queue_with(max_in_flight)
    calls: list[TimedCall] = []
    for what, value in steps:
        if what == "call":
            call = TimedCall(len(calls), value, loop)
            calls.append(call)
            queue.submit(call)
        elif what == "advance":
            loop.advance(value)
        elif calls and not calls[value % len(calls)].ended:
            call = calls[value % len(calls)]
            if what == "extend":
                call.deadline += 10.0
            elif session.pending.pop(call.params, None) is not None:
                queue.complete([(call, "answer")])
        for call in calls:
            assert call.ended == (call.ended_at is not None)
            if not call.ended:
                assert loop.clock < call.deadline + TOLERANCE
            elif call.error is not None:
                assert call.ended_at is not None
                assert abs(call.ended_at - call.deadline) <= TOLERANCE
        assert len(loop.armed()) <= 1  # one timer, however many calls
        assert len(session.pending) <= max_in_flight
        open_calls = [call for call in calls if not call.ended]
        assert set(session.pending.values()) | set(queue.waiting) == set(open_calls)
    loop.advance(10_000)
    assert all(call.ended for call in calls)
    assert queue.outcomes.results + queue.outcomes.unsuccessful["timeout"] == len(calls)
    assert loop.armed() == [] and not queue.waiting and not session.pending


def test_the_queue_keeps_nothing_of_calls_that_have_ended() -> None:
    """Memory follows the calls that are open, not those of the last minute."""
    import gc
    import weakref

    loop, session, queue = queue_with(10)
    ended: list[weakref.ref[Call]] = []
    for n in range(2000):
        call = TimedCall(n, 30.0 if n % 2 else 5.0, loop)
        queue.submit(call)
        ended.append(weakref.ref(call))
        session.pending.pop(n)
        queue.complete([(call, "answer")])
        del call
        loop.advance(0.0001)
    gc.collect()
    assert sum(ref() is not None for ref in ended) == 0
    assert len(loop.armed()) <= 1


def test_a_stopped_timer_leaves_nothing_and_starts_again_with_the_next_call() -> None:
    loop, session, queue = queue_with(10)
    queue.submit(TimedCall(1, 5, loop))
    queue.deadlines.stop()
    assert loop.armed() == []
    queue.submit(TimedCall(2, 5, loop))
    loop.advance(6)
    assert [call.params for call in session.given_up] == [1, 2]
