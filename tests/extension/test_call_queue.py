"""How many calls a `CallQueue` sends at once, while it is paused and when the limit changes.

The queue of an extension sends at most `max_in_flight` calls and lets the others wait. `hold_calls`
pauses it: the limit is 0 until `release_calls`. `set_concurrency` sets another limit, and with None
the one that the queue was created with.
"""

import asyncio

from exthost.events import Bus
from exthost.extension.call_queue import CallQueue


def make_queue() -> CallQueue:
    return CallQueue("x", max_in_flight=10, bus=Bus(), loop=asyncio.get_running_loop())


async def test_a_concurrency_that_is_set_during_a_pause_applies_when_the_pause_ends() -> None:
    queue = make_queue()
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
    queue = make_queue()
    queue.hold_calls()
    queue.hold_calls()
    queue.release_calls()
    assert queue.max_in_flight == 0
    queue.release_calls()
    assert queue.max_in_flight == 10
