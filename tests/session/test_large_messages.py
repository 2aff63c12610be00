"""Large messages: allowed ones arrive whole, others cost no memory, and neither holds the rest."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

import pytest

from exthost.errors import ProtocolViolation
from tests.extensions.harness import accounted, failing, hostile
from tests.extensions.proc import resident_bytes

LINE = 128_000_000


async def with_highest_memory(awaitable: Awaitable[Any]) -> tuple[Any, int]:
    """The outcome, and by how many bytes our process grew at most meanwhile, sampled closely."""
    before = highest = resident_bytes()
    task = asyncio.ensure_future(awaitable)
    while not task.done():
        await asyncio.wait([task], timeout=0.005)
        highest = max(highest, resident_bytes())
    return await task, highest - before


@pytest.mark.both_loops
@pytest.mark.parametrize("method", ["huge", "huge_noise"])
async def test_a_line_of_128_mb_over_the_cap_is_refused_in_flat_memory(method: str) -> None:
    async with hostile(limits={"max_message": "1MiB"}) as ext:
        asked = ext.call(method, {"bytes": LINE})
        if method == "huge":
            error, grown = await with_highest_memory(failing(asked))
            assert isinstance(error, ProtocolViolation) and error.code == "X0603"
        else:
            answer, grown = await with_highest_memory(asked)
            assert answer == "after the noise"
        assert grown < 16 * 2**20
        assert ext.stats.dropped == {"messages over the size limit": 1}
        assert await ext.call("echo", 1) == 1
        assert ext.stats.restarts == 0


async def test_other_calls_go_on_while_an_over_long_line_is_let_go() -> None:
    async with hostile() as neighbour, hostile(limits={"max_message": "1MiB"}) as ext:
        before = asyncio.ensure_future(ext.call("together", {"n": 1, "of": 2}))
        long = asyncio.ensure_future(failing(ext.call("huge", {"bytes": LINE, "end": False})))
        for served in range(20):  # the line comes, and its end does not
            assert await neighbour.call("echo", served) == served
        end = asyncio.ensure_future(ext.call("raw", {"text": '"}\n{"id":$ID,"result":"end"}'}))
        after = asyncio.ensure_future(ext.call("together", {"n": 2, "of": 2}))
        served = 0
        while not after.done():  # it is answered when the whole line has been let go
            assert await neighbour.call("echo", served) == served
            served += 1
        assert isinstance(await long, ProtocolViolation)
        assert await before == 1 and await end == "end" and await after == 2
        accounted(ext, 4, result=3, error=1)


@pytest.mark.both_loops
async def test_a_line_of_128_mb_arrives_where_it_is_allowed() -> None:
    async with hostile(limits={"max_message": "150MB"}) as ext:

        async def processor_seconds(size: int) -> float:
            began = time.thread_time()
            text = await ext.call("huge", {"bytes": size})
            took = time.thread_time() - began
            assert len(text) == size and text == "x" * size
            return took

        # The time must be linear: the square would be 64 times in every attempt. On a busy machine
        # the processor time of a single attempt may be many times that of the next one.
        ratios: list[float] = []
        while not ratios or (min(ratios) > 32 and len(ratios) < 5):
            small = await processor_seconds(LINE // 8)
            ratios.append(await processor_seconds(LINE) / small)
        assert min(ratios) <= 32, ratios
        assert await ext.call("echo", 1) == 1
        calls = 2 * len(ratios) + 1
        accounted(ext, calls, result=calls)


@pytest.mark.both_loops
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 2**20, 2**24])
async def test_arguments_around_and_far_above_the_pipes_size_echo(size: int) -> None:
    async with hostile() as ext:
        text = ("0123456789abcdef" * (size // 16 + 1))[:size]
        big, *small = await asyncio.gather(
            ext.call("echo", text), *(ext.call("echo", n) for n in range(50))
        )
        assert big == text and small == list(range(50))
        accounted(ext, 51, result=51)


async def test_small_and_large_calls_interleaved_keep_their_order_on_the_pipe() -> None:
    """What waits for the pipe, what is gathered for the tick and what is written at once must not
    overtake each other: the child serves in the order in which it was asked."""
    order: list[int] = []

    async def one(n: int) -> None:
        text = "x" * (300_000 if n % 7 == 0 else 10)
        assert (await ext.call("echo", [n, text]))[0] == n
        order.append(n)

    async with hostile() as ext:
        tasks = []
        for n in range(100):
            tasks.append(asyncio.ensure_future(one(n)))
            if n % 3 == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)
    assert order == sorted(order)
