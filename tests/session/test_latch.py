"""A latch: an event that is set once, for which any number of tasks wait with one future."""

import asyncio

from exthost.session.latch import Latch


async def test_waiting_tasks_wake_when_the_latch_is_set() -> None:
    latch = Latch(asyncio.get_running_loop())
    future = latch.future()
    assert latch.future() is future, "all waiting tasks share one future"
    assert (latch.is_set, future.done()) == (False, False)
    for _ in range(2):  # setting it again does nothing
        latch.set()
    assert (latch.is_set, future.done()) == (True, True)
    assert latch.future() is future


async def test_a_latch_that_is_set_before_a_task_waits_is_done() -> None:
    latch = Latch(asyncio.get_running_loop())
    latch.set()
    assert latch.is_set and latch.future().done()


async def test_a_cancelled_wait_does_not_disturb_the_latch() -> None:
    latch = Latch(asyncio.get_running_loop())
    latch.future().cancel()
    latch.set()
    assert latch.is_set
