"""The room for calls in a queue: held calls, and a concurrency that is set meanwhile."""

import asyncio

from exthost.events import Bus
from exthost.extension.call_queue import CallQueue


async def test_a_concurrency_that_is_set_during_a_pause_applies_when_the_pause_ends() -> None:
    queue = CallQueue("x", max_in_flight=10, bus=Bus(), loop=asyncio.get_running_loop())
    queue.hold_calls()
    queue.set_concurrency(1)
    assert queue.max_in_flight == 0
    queue.release_calls()
    assert queue.max_in_flight == 1
    queue.hold_calls()
    queue.set_concurrency(None)
    assert queue.max_in_flight == 0
    queue.release_calls()
    assert queue.max_in_flight == 10


async def test_a_queue_that_two_sessions_paused_sends_again_when_both_have_released_it() -> None:
    queue = CallQueue("x", max_in_flight=10, bus=Bus(), loop=asyncio.get_running_loop())
    queue.hold_calls()
    queue.hold_calls()
    queue.release_calls()
    assert queue.max_in_flight == 0
    queue.release_calls()
    assert queue.max_in_flight == 10
