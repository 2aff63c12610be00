"""Deadline timers fire when they are due, once, and leave nothing behind; with and without a kernel
timer."""

import asyncio
import gc
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from exthost.extension import deadline_timer as module
from exthost.extension.deadline_timer import DeadlineTimer, make_deadline_timer

Make = Callable[[Callable[[], None]], DeadlineTimer]


@pytest.fixture(params=["kernel", "loop"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make timers of this kind. They are kept until the test ends, as a call queue keeps its own:
    the loop does not keep a kernel timer."""
    if request.param == "loop":
        monkeypatch.setattr(module, "_cached_timerfd", [None])
    timers: list[DeadlineTimer] = []

    def make_timer(on_time: Callable[[], None]) -> DeadlineTimer:
        timers.append(make_deadline_timer(asyncio.get_running_loop(), on_time))
        return timers[-1]

    return make_timer


async def test_timers_fire_in_their_order_and_never_early(make: Make) -> None:
    loop, fired, done = asyncio.get_running_loop(), [], asyncio.Event()
    began = loop.time()

    def on_time(number: int) -> Callable[[], None]:
        def fire() -> None:
            fired.append((number, loop.time() - began))
            if len(fired) == 3:
                done.set()

        return fire

    for number in (3, 1, 2):
        make(on_time(number)).set(began + number * 0.02)
    await asyncio.wait_for(done.wait(), 120)
    assert [number for number, _ in fired] == [1, 2, 3]
    assert all(at >= number * 0.02 - 0.001 for number, at in fired)


async def test_timers_that_are_due_together_fire_in_the_order_of_their_times(make: Make) -> None:
    loop, fired, done = asyncio.get_running_loop(), [], asyncio.Event()

    def on_time(number: int) -> Callable[[], None]:
        def fire() -> None:
            fired.append(number)
            if len(fired) == 50:
                done.set()

        return fire

    numbers = random.Random(5).sample(range(50), 50)
    began = loop.time()
    for number in numbers:
        make(on_time(number)).set(began - 50 + number)
    await asyncio.wait_for(done.wait(), 120)
    assert fired == list(range(50))


async def test_a_timer_that_an_earlier_one_cancels_or_moves_does_not_fire(
    make: Make,
) -> None:
    loop, fired, done = asyncio.get_running_loop(), [], asyncio.Event()

    def on_time() -> None:
        fired.append("first")
        cancelled.cancel()
        moved_later.set(loop.time() + 60)

    cancelled, moved_later = (
        make(lambda: fired.append("cancelled")),
        make(lambda: fired.append("moved later")),
    )
    began = loop.time()
    make(done.set).set(began - 1)
    moved_later.set(began - 2)
    cancelled.set(began - 2)
    make(on_time).set(began - 3)
    await asyncio.wait_for(done.wait(), 120)
    moved_later.cancel()
    assert fired == ["first"]


async def test_a_timer_that_is_set_again_fires_once_and_a_cancelled_one_never(
    make: Make,
) -> None:
    loop, fired, done = asyncio.get_running_loop(), [], asyncio.Event()
    moved, cancelled = make(lambda: fired.append("moved")), make(lambda: fired.append("cancelled"))
    last = make(done.set)
    moved.set(loop.time() + 60)
    moved.set(loop.time() + 0.01)
    cancelled.set(loop.time() + 0.01)
    cancelled.cancel()
    cancelled.cancel()
    last.set(loop.time() + 0.05)
    await asyncio.wait_for(done.wait(), 120)
    assert fired == ["moved"]


async def test_a_timer_may_be_set_again_while_it_fires(make: Make) -> None:
    loop, done, times = asyncio.get_running_loop(), asyncio.Event(), []

    def on_time() -> None:
        times.append(loop.time())
        if len(times) == 5:
            done.set()
        else:
            again.set(loop.time() + 0.002)

    again = make(on_time)
    again.set(loop.time())
    await asyncio.wait_for(done.wait(), 120)
    assert len(times) == 5


def open_descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def test_a_loop_that_is_dropped_with_timers_set_leaves_no_descriptor() -> None:
    timers = []

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        timers.append(make_deadline_timer(loop, lambda: None))
        timers[0].set(loop.time() + 60)

    before = open_descriptors()
    asyncio.run(leave())
    assert isinstance(timers[0], module._KernelTimer)
    timers.clear()
    gc.collect()
    assert open_descriptors() == before


async def test_an_unreferenced_kernel_timer_does_not_fire_and_harms_no_other() -> None:
    """A queue that is dropped with its extension must not be kept by the loop."""
    loop, fired, done = asyncio.get_running_loop(), [], asyncio.Event()
    dropped = make_deadline_timer(loop, lambda: fired.append("dropped"))
    kept = make_deadline_timer(loop, done.set)
    dropped.set(loop.time() + 0.01)
    kept.set(loop.time() + 0.03)
    del dropped
    gc.collect()
    await asyncio.wait_for(done.wait(), 120)
    assert fired == []


async def test_a_timer_that_was_moved_does_not_fire_at_its_first_time(make: Make) -> None:
    loop, done, fired = asyncio.get_running_loop(), asyncio.Event(), []

    def on_time() -> None:
        fired.append(loop.time())
        done.set()

    began = loop.time()
    moved_later = make(on_time)
    moved_later.set(began + 0.01)
    moved_later.set(began + 0.05)
    await asyncio.wait_for(done.wait(), 120)
    assert len(fired) == 1 and fired[0] >= began + 0.049
