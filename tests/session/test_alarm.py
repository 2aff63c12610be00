"""Alarms: they ring when they are due, once, and leave nothing behind; with and without a kernel
timer."""

import asyncio
import random
from collections.abc import Callable

import pytest
from exthost.session.alarm import Alarm, alarm

from exthost.session import alarm as module


@pytest.fixture(params=["kernel", "loop"])
def make(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], None]], Alarm]:
    if request.param == "loop":
        monkeypatch.setattr(module, "_found", [None])
    return lambda ring: alarm(asyncio.get_running_loop(), ring)


Make = Callable[[Callable[[], None]], Alarm]


async def test_alarms_ring_in_their_order_and_not_before_their_time(make: Make) -> None:
    loop, rung, done = asyncio.get_running_loop(), [], asyncio.Event()
    began = loop.time()

    def ring(number: int) -> Callable[[], None]:
        def ringing() -> None:
            rung.append((number, loop.time() - began))
            if len(rung) == 3:
                done.set()

        return ringing

    for number in (3, 1, 2):
        make(ring(number)).set(began + number * 0.02)
    await done.wait()
    assert [number for number, _ in rung] == [1, 2, 3]
    assert all(at >= number * 0.02 - 0.001 for number, at in rung)


async def test_alarms_that_are_due_together_ring_in_the_order_of_their_times(make: Make) -> None:
    loop, rung, done = asyncio.get_running_loop(), [], asyncio.Event()

    def ring(number: int) -> Callable[[], None]:
        def ringing() -> None:
            rung.append(number)
            if len(rung) == 50:
                done.set()

        return ringing

    numbers = random.Random(5).sample(range(50), 50)
    began = loop.time()
    for number in numbers:
        make(ring(number)).set(began - 50 + number)
    await done.wait()
    assert rung == list(range(50))


async def test_an_alarm_that_is_cleared_or_put_off_by_one_before_it_does_not_ring(
    make: Make,
) -> None:
    loop, rung, done = asyncio.get_running_loop(), [], asyncio.Event()

    def ring() -> None:
        rung.append("first")
        cleared.clear()
        put_off.set(loop.time() + 60)

    cleared, put_off = make(lambda: rung.append("cleared")), make(lambda: rung.append("put off"))
    began = loop.time()
    make(done.set).set(began - 1)
    put_off.set(began - 2)
    cleared.set(began - 2)
    make(ring).set(began - 3)
    await done.wait()
    put_off.clear()
    assert rung == ["first"]


async def test_an_alarm_that_is_set_anew_rings_once_and_one_that_is_cleared_never(
    make: Make,
) -> None:
    loop, rung, done = asyncio.get_running_loop(), [], asyncio.Event()
    moved, cleared = make(lambda: rung.append("moved")), make(lambda: rung.append("cleared"))
    last = make(done.set)
    moved.set(loop.time() + 60)
    moved.set(loop.time() + 0.01)
    cleared.set(loop.time() + 0.01)
    cleared.clear()
    cleared.clear()
    last.set(loop.time() + 0.05)
    await done.wait()
    assert rung == ["moved"]


async def test_an_alarm_may_be_set_again_while_it_rings(make: Make) -> None:
    loop, done, times = asyncio.get_running_loop(), asyncio.Event(), []

    def ring() -> None:
        times.append(loop.time())
        if len(times) == 5:
            done.set()
        else:
            again.set(loop.time() + 0.002)

    again = make(ring)
    again.set(loop.time())
    await done.wait()
    assert len(times) == 5


def test_a_loop_that_is_dropped_with_alarms_set_leaves_no_descriptor() -> None:
    async def leave() -> None:
        alarm(asyncio.get_running_loop(), lambda: None).set(asyncio.get_running_loop().time() + 60)

    asyncio.run(leave())


async def test_an_alarm_that_was_put_off_does_not_ring_at_its_first_time(make: Make) -> None:
    loop, done, rung = asyncio.get_running_loop(), asyncio.Event(), []

    def ring() -> None:
        rung.append(loop.time())
        done.set()

    began = loop.time()
    put_off = make(ring)
    put_off.set(began + 0.01)
    put_off.set(began + 0.05)
    await done.wait()
    assert len(rung) == 1 and rung[0] >= began + 0.049
