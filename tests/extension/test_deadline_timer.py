"""Deadline timers fire once when they are due, and leave no descriptor open.

A timer calls a function at a time on the clock of the event loop. On Linux it is a timer of the
kernel (timerfd), of which all timers of a loop share one; elsewhere it is a timer of the loop. Most
tests run with both kinds.
"""

import asyncio
import gc
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from exthost.extension import deadline_timer as module
from exthost.extension.deadline_timer import DeadlineTimer, make_deadline_timer

MakeTimer = Callable[[Callable[[], None]], DeadlineTimer]


@pytest.fixture(params=["kernel", "loop"])
def make_timer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MakeTimer:
    """Return a function that makes timers of this kind. The timers are kept until the test ends,
    because the loop has no reference to a kernel timer."""
    if request.param == "loop":
        monkeypatch.setattr(module, "_cached_timerfd", [None])  # as on a system without timerfd
    timers: list[DeadlineTimer] = []

    def make_and_keep(on_time: Callable[[], None]) -> DeadlineTimer:
        timers.append(make_deadline_timer(asyncio.get_running_loop(), on_time))
        return timers[-1]

    return make_and_keep


async def test_timers_fire_in_order_and_not_early(make_timer: MakeTimer) -> None:
    loop, fired, all_fired = asyncio.get_running_loop(), [], asyncio.Event()
    start_time = loop.time()

    def on_time(number: int) -> Callable[[], None]:
        def fire() -> None:
            fired.append((number, loop.time() - start_time))
            if len(fired) == 3:
                all_fired.set()

        return fire

    for number in (3, 1, 2):
        make_timer(on_time(number)).set(start_time + number * 0.02)
    await asyncio.wait_for(all_fired.wait(), 120)
    assert [number for number, _ in fired] == [1, 2, 3]
    # A millisecond for rounding.
    assert all(seconds >= number * 0.02 - 0.001 for number, seconds in fired)


async def test_timers_that_are_due_together_fire_in_the_order_of_their_times(
    make_timer: MakeTimer,
) -> None:
    loop, fired, all_fired = asyncio.get_running_loop(), [], asyncio.Event()

    def on_time(number: int) -> Callable[[], None]:
        def fire() -> None:
            fired.append(number)
            if len(fired) == 50:
                all_fired.set()

        return fire

    numbers = random.Random(5).sample(range(50), 50)
    start_time = loop.time()
    for number in numbers:
        make_timer(on_time(number)).set(start_time - 50 + number)  # all of them are due
    await asyncio.wait_for(all_fired.wait(), 120)
    assert fired == list(range(50))


async def test_a_timer_does_not_fire_if_an_earlier_timer_cancels_or_moves_it(
    make_timer: MakeTimer,
) -> None:
    loop, fired, all_fired = asyncio.get_running_loop(), [], asyncio.Event()

    def on_time() -> None:
        fired.append("first")
        cancelled.cancel()
        moved_later.set(loop.time() + 60)

    cancelled = make_timer(lambda: fired.append("cancelled"))
    moved_later = make_timer(lambda: fired.append("moved later"))
    start_time = loop.time()
    make_timer(all_fired.set).set(start_time - 1)
    moved_later.set(start_time - 2)
    cancelled.set(start_time - 2)
    make_timer(on_time).set(start_time - 3)
    await asyncio.wait_for(all_fired.wait(), 120)
    moved_later.cancel()
    assert fired == ["first"]


async def test_a_timer_that_is_set_twice_fires_once_and_a_cancelled_timer_never(
    make_timer: MakeTimer,
) -> None:
    loop, fired, all_fired = asyncio.get_running_loop(), [], asyncio.Event()
    moved = make_timer(lambda: fired.append("moved"))
    cancelled = make_timer(lambda: fired.append("cancelled"))
    last = make_timer(all_fired.set)
    moved.set(loop.time() + 60)
    moved.set(loop.time() + 0.01)
    cancelled.set(loop.time() + 0.01)
    cancelled.cancel()
    cancelled.cancel()
    last.set(loop.time() + 0.05)
    await asyncio.wait_for(all_fired.wait(), 120)
    assert fired == ["moved"]


async def test_a_timer_can_be_set_again_while_it_fires(make_timer: MakeTimer) -> None:
    loop, all_fired, times = asyncio.get_running_loop(), asyncio.Event(), []

    def on_time() -> None:
        times.append(loop.time())
        if len(times) == 5:
            all_fired.set()
        else:
            timer.set(loop.time() + 0.002)

    timer = make_timer(on_time)
    timer.set(loop.time())
    await asyncio.wait_for(all_fired.wait(), 120)
    assert len(times) == 5


def open_descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def test_a_loop_that_is_dropped_with_timers_set_leaves_no_descriptor() -> None:
    timers = []

    async def set_timer() -> None:
        loop = asyncio.get_running_loop()
        timers.append(make_deadline_timer(loop, lambda: None))
        timers[0].set(loop.time() + 60)

    before = open_descriptors()
    asyncio.run(set_timer())
    assert isinstance(timers[0], module._KernelTimer)
    timers.clear()
    gc.collect()
    assert open_descriptors() == before


async def test_an_unreferenced_kernel_timer_does_not_fire() -> None:
    """The loop has no reference to a timer, so the queue of a deleted extension is freed."""
    loop, fired, all_fired = asyncio.get_running_loop(), [], asyncio.Event()
    dropped_timer = make_deadline_timer(loop, lambda: fired.append("dropped"))
    kept_timer = make_deadline_timer(loop, all_fired.set)
    dropped_timer.set(loop.time() + 0.01)
    kept_timer.set(loop.time() + 0.03)
    del dropped_timer
    gc.collect()
    await asyncio.wait_for(all_fired.wait(), 120)
    assert fired == []


async def test_a_timer_that_was_moved_does_not_fire_at_its_first_time(
    make_timer: MakeTimer,
) -> None:
    loop, all_fired, fired = asyncio.get_running_loop(), asyncio.Event(), []

    def on_time() -> None:
        fired.append(loop.time())
        all_fired.set()

    start_time = loop.time()
    moved_later = make_timer(on_time)
    moved_later.set(start_time + 0.01)
    moved_later.set(start_time + 0.05)
    await asyncio.wait_for(all_fired.wait(), 120)
    assert len(fired) == 1 and fired[0] >= start_time + 0.049


@pytest.mark.parametrize("when", [1e10, 1e19, 2.0**63, 1e300, sys.float_info.max])
async def test_a_timer_of_a_huge_time_does_not_fire_and_others_do(
    when: float, make_timer: MakeTimer
) -> None:
    loop, fired = asyncio.get_running_loop(), []
    late_timer = make_timer(lambda: fired.append("late"))
    late_timer.set(when)
    for _ in range(2):  # another timer fires, and so does one that is set after that
        has_fired = asyncio.Event()
        make_timer(has_fired.set).set(loop.time() + 0.01)
        await asyncio.wait_for(has_fired.wait(), 120)
    assert not fired
    late_timer.cancel()


async def test_a_timer_fires_although_an_earlier_one_raises(make_timer: MakeTimer) -> None:
    loop, has_fired = asyncio.get_running_loop(), asyncio.Event()
    errors: list[object] = []
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    error = ValueError("of this timer")

    def fail() -> None:
        raise error

    start_time = loop.time()
    make_timer(fail).set(start_time - 2)
    make_timer(has_fired.set).set(start_time - 1)
    await asyncio.wait_for(has_fired.wait(), 120)
    assert errors == [error]
