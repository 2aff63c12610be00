"""The one timer against a naive list: each open call expires at its deadline, none earlier, in a
made-up time that moves as the test says."""

from collections.abc import Callable
from typing import Any

from exthost.session.desk import Desk
from exthost.session.state import Call
from hypothesis import given, settings
from hypothesis import strategies as st

from exthost.errors import Evidence
from exthost.events import Bus

# A deadline is kept to within this: how often the desk looks at most, and a loop's clock.
TOLERANCE = 0.007


class Timer:
    def __init__(self, when: float, what: Callable[[], None]) -> None:
        self.when, self.what, self.cancelled = when, what, False

    def cancel(self) -> None:
        self.cancelled = True


class MadeUpLoop:
    """As much of a loop as a desk needs of it, with a clock of its own."""

    def __init__(self) -> None:
        self.clock = 1000.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.clock

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
    """Keeps what it is given until the test takes it away."""

    def __init__(self) -> None:
        self.pending: dict[int, Call] = {}
        self.state = self
        self.witness = self
        self.given_up: list[Call] = []
        self.counts: dict[str, int] = {}

    def evidence(self) -> Evidence:
        return Evidence()

    def hurry(self) -> None:
        pass

    def launch(self, call: Call) -> None:
        call.session = self
        self.pending[call.params] = call

    def abandon(self, call: Call, why: str) -> None:
        del self.pending[call.params]
        self.given_up.append(call)


class Sink:
    """Notes when its call ended."""

    def __init__(self, loop: MadeUpLoop) -> None:
        self._loop = loop
        self.at: float | None = None
        self.error: BaseException | None = None

    def done(self) -> bool:
        return self.at is not None

    def set_result(self, result: Any, /) -> None:
        assert self.at is None
        self.at = self._loop.clock

    def set_exception(self, exception: BaseException, /) -> None:
        self.set_result(None)
        self.error = exception


def desk_with(most: int) -> tuple[MadeUpLoop, MadeUpSession, Desk]:
    loop, session = MadeUpLoop(), MadeUpSession()
    desk = Desk("x", max_in_flight=most, bus=Bus(), loop=loop)  # type: ignore[arg-type]
    desk.session = session  # type: ignore[assignment]
    desk.live.append(session)  # type: ignore[arg-type]
    return loop, session, desk


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.sampled_from([0.0, 0.001, 0.05, 1.0, 30.0, 3600.0])),
        st.tuples(st.just("advance"), st.sampled_from([0.0, 0.004, 0.05, 1.0, 29.99, 4000.0])),
        st.tuples(st.just("answer"), st.integers(0, 50)),
        st.tuples(st.just("extend"), st.integers(0, 50)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(STEPS, st.integers(1, 5))
def test_each_open_call_expires_at_its_deadline_and_none_earlier(
    steps: list[tuple[str, Any]], most: int
) -> None:
    loop, session, desk = desk_with(most)
    calls: list[Call] = []
    for what, value in steps:
        if what == "call":
            call = Call.of("echo", len(calls), Sink(loop), value, loop.clock)
            calls.append(call)
            desk.take(call)
        elif what == "advance":
            loop.advance(value)
        elif calls and not calls[value % len(calls)].ended:
            call = calls[value % len(calls)]
            if what == "extend":
                call.deadline += 10.0
            elif session.pending.pop(call.params, None) is not None:
                desk.settle(call, "answer")
        for call in calls:
            sink = call.sink
            assert isinstance(sink, Sink)
            if not call.ended:
                assert loop.clock < call.deadline + TOLERANCE
            elif sink.error is not None:
                assert sink.at is not None
                assert call.deadline - TOLERANCE <= sink.at <= call.deadline + TOLERANCE
        assert len(loop.armed()) <= 1  # one timer, however many calls
        assert len(session.pending) <= most
        open_calls = [call for call in calls if not call.ended]
        assert set(session.pending.values()) | set(desk.waiting) == set(open_calls)
    loop.advance(10_000)
    assert all(call.ended for call in calls)
    assert desk.results + desk.losses["timeout"] == len(calls)
    assert loop.armed() == [] and not desk.waiting and not session.pending


def test_the_desk_keeps_nothing_of_calls_that_have_ended() -> None:
    """Memory follows the calls that are open, not those of the last minute."""
    import gc
    import weakref

    loop, session, desk = desk_with(10)
    ended: list[weakref.ref[Call]] = []
    for n in range(2000):
        call = Call.of("echo", n, Sink(loop), 30.0 if n % 2 else 5.0, loop.clock)
        desk.take(call)
        ended.append(weakref.ref(call))
        session.pending.pop(n)
        desk.settle(call, "answer")
        del call
        loop.advance(0.0001)
    gc.collect()
    assert sum(ref() is not None for ref in ended) == 0
    assert len(loop.armed()) <= 1


def test_a_stopped_clock_leaves_no_timer_and_starts_again_with_the_next_call() -> None:
    loop, session, desk = desk_with(10)
    desk.take(Call.of("echo", 1, Sink(loop), 5, loop.clock))
    desk.stop_clock()
    assert loop.armed() == []
    desk.take(Call.of("echo", 2, Sink(loop), 5, loop.clock))
    loop.advance(6)
    assert [call.params for call in session.given_up] == [1, 2]
