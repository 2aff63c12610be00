"""The search for calls whose deadline has passed, with fake calls.

`Deadlines` has one timer for all calls of a queue. When the timer fires, it ends the calls that are
due, and sets the timer for the earliest deadline of the others. Deadlines are seconds on the clock
of the event loop.
"""

import asyncio
import math
from collections.abc import Callable
from typing import cast

import pytest

from exthost.extension import deadlines
from exthost.extension.deadlines import _CLOCK_RESOLUTION_SECONDS, _MIN_PAUSE_SECONDS, Deadlines
from exthost.session.call import Call

NOW = 100.0


class FakeCall:
    """The fields of a call that the search reads."""

    def __init__(self, deadline: float, ended: bool = False, has_own_timer: bool = False) -> None:
        self.deadline = deadline
        self.ended = ended
        self.has_own_timer = has_own_timer


class FakeQueue:
    """Open calls, and the deadlines of those that were ended by the search."""

    def __init__(self, *calls: FakeCall) -> None:
        self.loop = cast(asyncio.AbstractEventLoop, None)
        self.calls = calls
        self.expired: list[float] = []
        self.now: Callable[[], float] = lambda: NOW

    def open_calls(self) -> list[Call]:
        return cast(list[Call], list(self.calls))

    def expire(self, call: Call) -> None:
        cast(FakeCall, call).ended = True
        self.expired.append(call.deadline)


class FakeTimer:
    """Records the times that it is set for."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.is_cancelled = False

    def set(self, when: float) -> None:
        self.times.append(when)

    def cancel(self) -> None:
        self.is_cancelled = True


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> FakeTimer:
    timer = FakeTimer()
    monkeypatch.setattr(deadlines, "make_deadline_timer", lambda loop, callback: timer)
    return timer


@pytest.mark.parametrize(
    ("calls", "expired", "next_times"),
    [
        ((), [], []),
        ((FakeCall(NOW),), [NOW], []),
        # A timer may fire a little early.
        ((FakeCall(NOW + _CLOCK_RESOLUTION_SECONDS),), [NOW + _CLOCK_RESOLUTION_SECONDS], []),
        ((FakeCall(NOW - 1), FakeCall(NOW - 2)), [NOW - 2, NOW - 1], []),
        ((FakeCall(NOW + 5), FakeCall(NOW + 3)), [], [NOW + 3]),
        # The timer does not fire again immediately.
        ((FakeCall(NOW + 0.002),), [], [NOW + _MIN_PAUSE_SECONDS]),
        # A call with a timer of its own is not searched.
        ((FakeCall(NOW - 1, has_own_timer=True), FakeCall(NOW + 1, has_own_timer=True)), [], []),
        # The deadline of a call that has ended is still watched.
        ((FakeCall(NOW + 1, ended=True),), [], [NOW + 1]),
    ],
)
def test_due_calls_are_ended_and_the_timer_is_set_for_the_next(
    calls: tuple[FakeCall, ...], expired: list[float], next_times: list[float], timer: FakeTimer
) -> None:
    # Copies, because the search changes the calls, and the test runs more than once in a process.
    queue = FakeQueue(*(FakeCall(call.deadline, call.ended, call.has_own_timer) for call in calls))
    search = Deadlines(queue)
    search._on_time()
    assert queue.expired == expired and timer.times == next_times
    assert search.next_at == (next_times[0] if next_times else math.inf)


def test_a_stopped_search_has_no_timer(timer: FakeTimer) -> None:
    search = Deadlines(FakeQueue())
    search.stop()  # without a timer
    search.set(NOW + 1)
    search.set(NOW)
    assert timer.times == [NOW + 1, NOW] and search.next_at == NOW
    search.stop()
    assert timer.is_cancelled and search.next_at == math.inf
