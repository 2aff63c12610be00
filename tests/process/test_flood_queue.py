"""The queue of flooded pipes, which are read in turn, in a small part of the event loop's time.

A pipe is flooded if its extension writes more than its budget of output that no call waits for. The
budget has a level: how much was written lately. The pipe with the lowest level comes first. After a
long frame the queue rests for a while, and reads only small frames.
"""

import asyncio
import time
from collections import deque

import pytest

from exthost.process.flood_budget import PIPE_RATE, FloodBudget
from exthost.process.flood_queue import FloodQueue, TurnEnd, flood_queue
from tests.extensions.harness import wait_until


class FakePipe:
    """A pipe whose frames are numbers: the seconds of processor time to handle them. A frame of
    `LARGE` seconds or more is large."""

    LARGE = 0.001

    def __init__(self, *frames: float, level: float = 0.0) -> None:
        self.frames = deque(frames)
        self.turns: list[float] = []  # the time when each turn began
        self.budget = FloodBudget(PIPE_RATE)
        self.budget.charge(level, asyncio.get_running_loop().time())

    def take_turn(self, end: float, *, may_be_long: bool) -> TurnEnd:
        self.turns.append(asyncio.get_running_loop().time())
        while self.frames:
            if self.frames[0] >= self.LARGE and not may_be_long:
                return TurnEnd.LARGE
            busy_until = time.thread_time() + self.frames.popleft()
            while time.thread_time() < busy_until:
                pass
            if time.perf_counter() >= end:
                return TurnEnd.MORE
        return TurnEnd.EMPTY


class EndlessPipe(FakePipe):
    """A pipe that never becomes empty."""

    def take_turn(self, end: float, *, may_be_long: bool) -> TurnEnd:
        self.frames.append(0.00001)
        super().take_turn(end, may_be_long=may_be_long)
        self.budget.charge(1, asyncio.get_running_loop().time())
        return TurnEnd.MORE


async def wait_for_turns(*pipes: FakePipe, times: int) -> None:
    await wait_until(lambda: all(len(pipe.turns) >= times for pipe in pipes))


async def test_all_pipes_get_turns_until_they_are_removed() -> None:
    queue = flood_queue(asyncio.get_running_loop())
    assert queue is flood_queue(asyncio.get_running_loop())
    pipes = [EndlessPipe() for _ in range(40)]
    for pipe in pipes:
        queue.add(pipe)
        queue.add(pipe)
    await wait_for_turns(*pipes, times=5)
    counts = [len(pipe.turns) for pipe in pipes]
    assert max(counts) <= min(counts) + 40, counts
    for pipe in pipes:
        queue.remove(pipe)
    assert queue._timer is None


async def test_a_hundred_pipes_use_less_than_half_of_the_loop_time() -> None:
    """Measured in processor time, because the machine may be busy with other programs."""
    queue = FloodQueue(asyncio.get_running_loop())
    pipes = [EndlessPipe() for _ in range(100)]
    for pipe in pipes:
        queue.add(pipe)
    began, used = time.monotonic(), time.thread_time()
    await wait_for_turns(*pipes, times=3)
    seconds, used = time.monotonic() - began, time.thread_time() - used
    for pipe in pipes:
        queue.remove(pipe)
    assert used < 0.5 * seconds, (used, seconds)


async def test_the_pipe_with_the_lowest_level_is_read_first() -> None:
    queue = FloodQueue(asyncio.get_running_loop())
    heavy, light = FakePipe(*[0.0001] * 50, level=40_000), FakePipe(*[0.0001] * 5)
    queue.add(heavy)
    queue.add(light)
    await wait_until(lambda: not light.frames and not heavy.frames)
    assert heavy.turns[0] >= light.turns[-1]


async def test_after_a_long_frame_only_small_frames_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("exthost.process.flood_queue._MAX_REST_SECONDS", 1000.0)
    monkeypatch.setattr("exthost.process.flood_queue._REST_FACTOR", 100_000)
    queue = FloodQueue(asyncio.get_running_loop())
    first, second, small = (
        FakePipe(0.01),
        FakePipe(0.01, level=100),
        FakePipe(*[0.0001] * 5, level=200),
    )
    for pipe in (first, second, small):
        queue.add(pipe)
    await wait_until(lambda: not small.frames)
    assert not first.frames and second.frames
    queue._rest_until = 0.0  # the wait is over
    queue._schedule(0)
    await wait_until(lambda: not second.frames)


async def test_a_pipe_whose_turn_raises_stays_in_the_queue() -> None:
    class RaisesOnce(EndlessPipe):
        def take_turn(self, end: float, *, may_be_long: bool) -> TurnEnd:
            super().take_turn(end, may_be_long=may_be_long)
            if len(self.turns) == 1:
                raise ValueError("a callback failed")
            return TurnEnd.MORE

    loop = asyncio.get_running_loop()
    errors: list[object] = []
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    queue, pipe = FloodQueue(loop), RaisesOnce()
    queue.add(pipe)
    await wait_for_turns(pipe, times=3)
    queue.remove(pipe)
    assert len(errors) == 1 and isinstance(errors[0], ValueError)


@pytest.mark.parametrize("count", [1, 3])
async def test_an_empty_pipe_leaves_the_queue(count: int) -> None:
    queue = FloodQueue(asyncio.get_running_loop())
    pipes = [FakePipe(0.00001) for _ in range(count)]
    for pipe in pipes:
        queue.add(pipe)
    await wait_until(lambda: not queue._pipes)
    assert not any(pipe.frames for pipe in pipes) and queue._timer is None


class UnawaitedPipe(FakePipe):
    """A pipe whose frames serve no call."""

    def take_turn(self, end: float, *, may_be_long: bool) -> TurnEnd:
        self.budget.charge(1, asyncio.get_running_loop().time())
        return super().take_turn(end, may_be_long=may_be_long)


@pytest.mark.parametrize(("pipe_class", "is_charged"), [(FakePipe, False), (UnawaitedPipe, True)])
async def test_the_time_of_a_long_turn_is_charged_unless_it_served_calls(
    pipe_class: type[FakePipe], is_charged: bool
) -> None:
    pipe = pipe_class(0.005)
    FloodQueue(asyncio.get_running_loop()).add(pipe)
    await wait_for_turns(pipe, times=1)
    await wait_until(lambda: not pipe.frames)
    # 5 ms are a thousand units, of which few leak until here.
    assert (pipe.budget.level(pipe.turns[0]) > 100) is is_charged
