"""The maximum of calls in flight, while calls are paused and after a change of the concurrency."""

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


async def test_a_queue_that_was_paused_twice_sends_after_two_releases() -> None:
    queue = CallQueue("x", max_in_flight=10, bus=Bus(), loop=asyncio.get_running_loop())
    queue.hold_calls()
    queue.hold_calls()
    queue.release_calls()
    assert queue.max_in_flight == 0
    queue.release_calls()
    assert queue.max_in_flight == 10
