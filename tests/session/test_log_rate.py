"""The rate at which log lines of an extension are passed on.

In each tick of a timer, at most `_LINES_PER_TICK` lines are published; the others wait for a later
tick. At the exit of the process, all lines that wait are published.
"""

import asyncio
import logging
from time import perf_counter

from exthost.events import Bus, LogLine
from exthost.extension.call_queue import CallQueue
from exthost.process.flood_queue import TurnEnd
from exthost.session.diagnostics import _LINES_PER_TICK, _MAX_WAITING_CHARACTERS, DROPPED_LINES
from tests.extensions.fake_child import FakeChild, session_with
from tests.extensions.harness import wait_until


async def test_each_tick_passes_on_the_same_number_of_lines() -> None:
    bus = Bus()
    texts: list[str] = []
    bus.subscribe(LogLine, lambda event: texts.append(event.text))
    queue = CallQueue("x", max_in_flight=1, bus=bus, loop=asyncio.get_running_loop())
    child = FakeChild()
    session = session_with(child, queue)
    diagnostics = session.diagnostics
    for number in range(3 * _LINES_PER_TICK):
        diagnostics.log("log", logging.INFO, str(number))
    assert len(texts) == _LINES_PER_TICK
    end = perf_counter() + 60
    assert diagnostics.take_turn(end, may_be_long=False) is TurnEnd.EMPTY  # not in this tick
    assert len(texts) == _LINES_PER_TICK
    diagnostics._passed_on_in_tick = 0  # as at the beginning of the next tick
    assert diagnostics.take_turn(end, may_be_long=False) is TurnEnd.EMPTY
    assert len(texts) == 2 * _LINES_PER_TICK
    child.exit()
    await wait_until(lambda: session.lifetime.released.is_set)
    assert texts == [str(number) for number in range(3 * _LINES_PER_TICK)]


async def test_long_lines_that_wait_are_dropped_beyond_a_number_of_characters() -> None:
    queue = CallQueue("x", max_in_flight=1, bus=Bus(), loop=asyncio.get_running_loop())
    child = FakeChild()
    session = session_with(child, queue)
    diagnostics = session.diagnostics
    text = "x" * (_MAX_WAITING_CHARACTERS // 3)
    for _ in range(_LINES_PER_TICK + 5):
        diagnostics.log("log", logging.INFO, text)
    child.exit()
    await wait_until(lambda: session.lifetime.released.is_set)
    assert diagnostics.counts[DROPPED_LINES] == 2
