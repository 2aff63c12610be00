"""Large messages arrive whole if they are allowed; larger ones need no memory and delay no call.

`limits.max_message` is the largest allowed message. The program is the hostile extension of the
tests: `huge` returns a text of a given size, `huge_noise` writes as much before its reply.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable
from typing import Any

import pytest

import exthost
from exthost.errors import ProtocolViolation
from exthost.tool_result import ToolResult
from tests.extensions.harness import HOSTILE, check_call_counts, error_of, hostile_extension
from tests.extensions.proc import resident_bytes

LARGE_LINE_BYTES = 128_000_000


async def measure_memory(awaitable: Awaitable[Any]) -> tuple[Any, int]:
    """Return the result, and by how many bytes this process grew at most (often sampled)."""
    before = highest = resident_bytes()
    task = asyncio.ensure_future(awaitable)
    while not task.done():
        await asyncio.wait([task], timeout=0.005)
        highest = max(highest, resident_bytes())
    return await task, highest - before


@pytest.mark.more
@pytest.mark.both_loops
@pytest.mark.parametrize("method", ["huge", "huge_noise"])
async def test_a_line_of_128_mb_over_the_limit_is_refused_in_constant_memory(method: str) -> None:
    async with hostile_extension(limits={"max_message": "1MiB"}) as ext:
        call = ext.call(method, {"bytes": LARGE_LINE_BYTES})
        if method == "huge":
            error, memory_growth = await measure_memory(error_of(call))
            # X0603: the reply is longer than limits.max_message
            assert isinstance(error, ProtocolViolation) and error.code == "X0603"
        else:
            answer, memory_growth = await measure_memory(call)
            assert answer == "after the noise"
        assert memory_growth < 16 * 2**20  # far less than the line
        assert ext.stats.dropped == {"messages over the size limit": 1}
        assert await ext.call("echo", 1) == 1
        assert ext.stats.restarts == 0


@pytest.mark.more
async def test_other_calls_continue_while_an_over_long_line_is_discarded() -> None:
    async with (
        hostile_extension() as neighbour,
        hostile_extension(limits={"max_message": "1MiB"}) as ext,
    ):
        before = asyncio.ensure_future(ext.call("together", {"n": 1, "of": 2}))
        too_long = asyncio.ensure_future(
            error_of(ext.call("huge", {"bytes": LARGE_LINE_BYTES, "end": False}))
        )
        for number in range(20):  # the line arrives without its end
            assert await neighbour.call("echo", number) == number
        # The end of the line, and the reply to this call.
        end = asyncio.ensure_future(ext.call("raw", {"text": '"}\n{"id":$ID,"result":"end"}'}))
        after = asyncio.ensure_future(ext.call("together", {"n": 2, "of": 2}))
        number = 0
        # `after` and `before` are answered together, when the whole line has been discarded.
        while not after.done():
            assert await neighbour.call("echo", number) == number
            number += 1
        assert isinstance(await too_long, ProtocolViolation)
        assert await before == 1 and await end == "end" and await after == 2
        check_call_counts(ext, 4, result=3, error=1)


@pytest.mark.both_loops
async def test_a_line_of_128_mb_arrives_if_it_is_allowed() -> None:
    async with hostile_extension(limits={"max_message": "150MB"}) as ext:

        async def processor_seconds(size: int) -> float:
            started_at = time.thread_time()
            text = await ext.call("huge", {"bytes": size})
            seconds = time.thread_time() - started_at
            assert len(text) == size and text == "x" * size
            return seconds

        # Eight times the size takes about eight times as long; quadratic time would be 64 times in
        # every attempt. On a busy machine the processor time of the attempts differs widely, so up
        # to five are made.
        ratios: list[float] = []
        while not ratios or (min(ratios) > 32 and len(ratios) < 5):
            seconds_of_an_eighth = await processor_seconds(LARGE_LINE_BYTES // 8)
            ratios.append(await processor_seconds(LARGE_LINE_BYTES) / seconds_of_an_eighth)
        assert min(ratios) <= 32, ratios
        assert await ext.call("echo", 1) == 1
        calls = 2 * len(ratios) + 1
        check_call_counts(ext, calls, result=calls)


@pytest.mark.both_loops
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 2**20, 2**24])
async def test_arguments_larger_than_the_pipe_are_echoed(size: int) -> None:
    async with hostile_extension() as ext:
        text = ("0123456789abcdef" * (size // 16 + 1))[:size]
        large_result, *small_results = await asyncio.gather(
            ext.call("echo", text), *(ext.call("echo", n) for n in range(50))
        )
        assert large_result == text and small_results == list(range(50))
        check_call_counts(ext, 51, result=51)


async def test_a_cancellation_does_not_stop_the_replies_to_large_calls() -> None:
    """More than 1 MiB waits to be read by an extension that writes each reply before it reads the
    next call."""
    command = [sys.executable, "-S", "-E", str(HOSTILE.with_name("mcp_child.py"))]
    async with exthost.connect(command, dialect="mcp", limits={"write": "10s"}) as ext:
        text = "x" * 200_000
        calls = [asyncio.ensure_future(ext.call_tool("echo", {"a": text})) for _ in range(40)]
        await asyncio.sleep(0)
        assert ext.stats.in_flight == len(calls)
        calls[20].cancel()  # the cancellation is sent behind the calls
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, ToolResult) for outcome in outcomes) == 39
        assert ext.stats.restarts == 0


async def test_small_and_large_calls_keep_their_order_on_the_pipe() -> None:
    """Some frames wait for the pipe, some are collected until the end of the iteration of the loop,
    some are written at once. The extension must get all of them in the order of the calls."""
    order: list[int] = []

    async def call_echo(n: int) -> None:
        text = "x" * (300_000 if n % 7 == 0 else 10)
        assert (await ext.call("echo", [n, text]))[0] == n
        order.append(n)

    async with hostile_extension() as ext:
        tasks = []
        for n in range(100):
            tasks.append(asyncio.ensure_future(call_echo(n)))
            if n % 3 == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)
    assert order == sorted(order)
