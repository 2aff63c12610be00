"""A latch wakes all tasks that wait for it, before and after it is set."""

import asyncio

from exthost.session.latch import Latch


async def test_waiting_tasks_wake_when_the_latch_is_set() -> None:
    latch = Latch(asyncio.get_running_loop())
    future = latch.future()
    assert [latch.is_set, future.done(), latch.future() is future] == [False, False, True]
    for _ in range(2):  # setting it again does nothing
        latch.set()
    assert [latch.is_set, future.done(), latch.future() is future] == [True, True, True]


async def test_a_latch_that_is_set_before_a_task_waits_is_done() -> None:
    latch = Latch(asyncio.get_running_loop())
    latch.set()
    assert latch.is_set and latch.future().done()


async def test_a_cancelled_wait_does_not_disturb_the_latch() -> None:
    latch = Latch(asyncio.get_running_loop())
    latch.future().cancel()
    latch.set()
    assert latch.is_set
