"""One timer of the event loop serves the deadlines of all calls of a `CallQueue`.

The queue of an extension sends calls, up to `max_in_flight` at once, and lets the others wait. A
call that is still open at its deadline expires: it ends with a timeout error. The event loop, the
time and the session (the connection to the process) are simulated, so that a test of hours takes
milliseconds.
"""

import gc
import weakref
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

# How far from its deadline a call may expire. The timer waits at least 5 ms between two checks,
# and the clock of a loop has a resolution of about 1 ms.
TOLERANCE_SECONDS = 0.007


class FakeTimer:
    """Stands for the `TimerHandle` that `call_at` of a loop returns."""

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when, self.callback, self.cancelled = when, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    """The part of an event loop that a call queue needs. `advance` moves its time."""

    def __init__(self) -> None:
        self.now = 1000.0  # any time; the time of a loop does not begin at 0 either
        self.timers: list[FakeTimer] = []

    def time(self) -> float:
        return self.now

    def create_future(self) -> Future[None]:
        return Future()

    def call_at(self, when: float, callback: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(when, callback))
        return self.timers[-1]

    def call_soon_threadsafe(self, callback: Callable[..., None], *args: Any) -> None:
        callback(*args)

    def active_timers(self) -> list[FakeTimer]:
        self.timers = [timer for timer in self.timers if not timer.cancelled]
        return self.timers

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [timer for timer in self.active_timers() if timer.when <= until]:
            first = min(due, key=lambda timer: timer.when)
            self.timers.remove(first)
            self.now = max(self.now, first.when)
            first.callback()
        self.now = until


class FakeSession:
    """Keeps each call until the test removes it.

    The same object stands for the two parts of a session that a queue uses: `conversation`, which
    has the open calls, and `diagnostics`, which adds stderr and the exit status to errors.
    """

    cause = None
    unnamed_error_at = -1.0

    def __init__(self) -> None:
        self.pending: dict[int, Call] = {}
        self.conversation = self
        self.diagnostics = self
        self.counts: dict[str, int] = {}
        self.abandoned: list[Call] = []

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

    def abandon(self, call: Call, reason: str) -> None:
        del self.pending[call.params]
        self.abandoned.append(call)


class TimedCall(Call):
    """Records when it ended, and with which error. It ends at most once."""

    def __init__(self, n: int, timeout: float, loop: FakeLoop) -> None:
        super().__init__("echo", n, DELIVER, timeout, loop.now)
        self._loop = loop
        self.ended_at: float | None = None
        self.error: BaseException | None = None

    def deliver(self, value: Any) -> None:
        assert self.ended_at is None
        self.ended_at = self._loop.now

    def reject(self, error: BaseException) -> None:
        self.deliver(None)
        self.error = error


def queue_with(max_in_flight: int) -> tuple[FakeLoop, FakeSession, CallQueue]:
    loop, session = FakeLoop(), FakeSession()
    queue = CallQueue("x", max_in_flight=max_in_flight, bus=Bus(), loop=loop)  # type: ignore[arg-type]
    queue.session_began(session)  # type: ignore[arg-type]
    queue.attach(session)  # type: ignore[arg-type]
    return loop, session, queue


# What happens to the queue. The number of "call" is its timeout and that of "advance" the time that
# passes, in seconds; for "answer" and "extend" it chooses one of the calls made so far.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.sampled_from([0.0, 0.001, 0.05, 1.0, 30.0, 3600.0])),
        # 4 ms is less than the shortest interval of the timer, 29.99 s just before a deadline.
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
    for step, value in steps:
        if step == "call":
            call = TimedCall(len(calls), value, loop)
            calls.append(call)
            queue.submit(call)
        elif step == "advance":
            loop.advance(value)
        elif calls and not (call := calls[value % len(calls)]).ended:
            if step == "extend":
                call.deadline += 10.0
            elif session.pending.pop(call.params, None) is not None:  # only a sent call is answered
                queue.complete([(call, "answer")])
        for call in calls:
            assert call.ended == (call.ended_at is not None)
            if not call.ended:
                assert loop.now < call.deadline + TOLERANCE_SECONDS
            elif call.error is not None:
                assert call.ended_at is not None
                assert abs(call.ended_at - call.deadline) <= TOLERANCE_SECONDS
        assert len(loop.active_timers()) <= 1  # one timer for all calls
        assert len(session.pending) <= max_in_flight
        open_calls = [call for call in calls if not call.ended]
        assert set(session.pending.values()) | set(queue.waiting) == set(open_calls)
    loop.advance(10_000)  # longer than every timeout
    assert all(call.ended for call in calls)
    assert queue.outcomes.results + queue.outcomes.unsuccessful["timeout"] == len(calls)
    assert loop.active_timers() == [] and not queue.waiting and not session.pending


def test_the_queue_does_not_keep_ended_calls() -> None:
    """An answered call is freed at once, not when its deadline, 5 or 30 seconds later, passes."""
    loop, session, queue = queue_with(10)
    references: list[weakref.ref[Call]] = []
    for n in range(2000):
        call = TimedCall(n, 30.0 if n % 2 else 5.0, loop)
        queue.submit(call)
        references.append(weakref.ref(call))
        session.pending.pop(n)
        queue.complete([(call, "answer")])
        del call  # the variable would keep the last call
        loop.advance(0.0001)
    gc.collect()
    assert all(reference() is None for reference in references)
    assert len(loop.active_timers()) <= 1


def test_a_stopped_timer_starts_again_with_the_next_call() -> None:
    loop, session, queue = queue_with(10)
    queue.submit(TimedCall(1, 5, loop))
    queue.deadlines.stop()
    assert loop.active_timers() == []
    queue.submit(TimedCall(2, 5, loop))
    loop.advance(6)
    assert [call.params for call in session.abandoned] == [1, 2]
