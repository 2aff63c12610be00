"""Time: a call ends when its limit is up, says what it was waiting for, and harms no other."""

import asyncio
import time

import pytest

from exthost.errors import CallTimeout, ExtensionGone
from exthost.events import Bus, LogLine
from exthost.process.stderr_tail import OLDER
from tests.extensions.clock import Clock, run_loop
from tests.extensions.harness import (
    NEVER,
    Ledger,
    accounted,
    closing,
    failing,
    hostile,
    outcome,
    unstarted,
)


@pytest.mark.both_loops
async def test_a_call_ends_at_its_own_limit_and_its_late_reply_is_dropped_and_counted() -> None:
    ledger = Ledger()
    async with hostile(events=ledger.bus, limits={"call": NEVER}) as ext:
        began = time.monotonic()
        error = await failing(ext.call("keep", "late", timeout=0.1))
        assert isinstance(error, CallTimeout)
        assert time.monotonic() - began > 0.09
        assert error.code == "X0801" and error.extension == "hostile"
        assert "keep took longer than 0.1 s: no answer came" in error.message
        assert error.evidence.argv
        assert await ext.call("release") == 1  # the late one was written before this answer
        assert ext.stats.dropped == {"late or repeated replies": 1}
        assert await ext.call("echo", "next") == "next"
        ledger.settle(ext, result=2, timeout=1)


@pytest.mark.both_loops
async def test_stderr_of_an_earlier_call_is_marked_as_older(clock: Clock) -> None:
    read = asyncio.Event()
    bus = Bus()
    bus.subscribe(LogLine, lambda line: read.set())
    async with hostile(events=bus) as ext:
        await ext.call("stderr", {"bytes": 0})
        await read.wait()
        clock.move(1)
        error = await failing(ext.call("keep", timeout=0.05))
        assert error.evidence.stderr == (OLDER, "the last line of stderr")


async def test_a_timeout_names_the_older_call_that_has_no_answer_either(clock: Clock) -> None:
    async with hostile() as ext:
        older = asyncio.ensure_future(ext.call("keep"))
        await run_loop()
        clock.move(6)
        error = await failing(ext.call("keep", timeout=0.05))
        assert error.help.startswith("it has not answered keep either (6 s); give the call")
        await ext.call("release")
        await older


@pytest.mark.parametrize("step", [1, 9], ids=["one by one", "all at once"])
async def test_limits_of_many_lengths_each_end_their_own_call_in_order(
    step: int, clock: Clock
) -> None:
    """Also where the loop comes to look only when the last of them is up."""
    async with hostile() as ext:
        ended: list[int] = []

        async def one(length: int) -> None:
            error = await failing(ext.call("keep", timeout=length / 50))
            assert isinstance(error, CallTimeout)
            ended.append(length)

        clock.stop()
        lengths = [5, 1, 9, 3, 7, 2, 8, 4, 6]
        calls = [asyncio.ensure_future(one(length)) for length in lengths]
        await run_loop()
        assert ext.stats.in_flight == 9
        for passed in range(step, 10, step):
            await clock.advance(step / 50)
            assert ended == list(range(1, passed + 1))
        await asyncio.gather(*calls)
        accounted(ext, 9, timeout=9)


async def test_the_configured_limit_applies_where_the_call_names_none() -> None:
    async with hostile(limits={"call": "0.1s"}) as ext:
        error = await failing(ext.call("keep"))
        assert "took longer than 0.1 s" in error.message


async def test_a_limit_that_is_up_while_waiting_for_a_turn_says_so_and_nothing_is_sent(
    clock: Clock,
) -> None:
    async with hostile(limits={"max_in_flight": 1}) as ext:
        clock.stop()
        first = asyncio.ensure_future(failing(ext.call("keep", timeout=0.5)))
        await asyncio.sleep(0)  # so that it is the first
        second = asyncio.ensure_future(failing(ext.call("echo", timeout=0.1)))
        await run_loop()
        await clock.advance(0.1)
        error = await second
        assert isinstance(error, CallTimeout) and "waiting for its turn" in error.message
        assert not first.done()
        await clock.advance(0.4)
        await first
        assert await ext.call("release") == 1  # the kept one alone ever reached the child
        accounted(ext, 3, result=1, timeout=2)


@pytest.mark.both_loops
async def test_a_call_that_timed_out_gives_its_place_to_the_next() -> None:
    async with hostile(limits={"max_in_flight": 1, "call": NEVER}) as ext:
        stuck = asyncio.ensure_future(failing(ext.call("keep", timeout=0.1)))
        assert await asyncio.gather(*(ext.call("echo", n) for n in range(10))) == list(range(10))
        assert isinstance(await stuck, CallTimeout)
        accounted(ext, 11, result=10, timeout=1)


async def test_a_call_that_was_cancelled_gives_its_place_to_the_next() -> None:
    async with hostile(limits={"max_in_flight": 1}) as ext:
        stuck = asyncio.ensure_future(ext.call("keep"))
        waiting = [asyncio.ensure_future(ext.call("echo", n)) for n in range(10)]
        await asyncio.sleep(0)
        stuck.cancel()
        assert await asyncio.gather(*waiting) == list(range(10))
        accounted(ext, 11, result=10, cancelled=1)


async def test_a_limit_that_is_up_while_it_starts_says_so() -> None:
    ext = unstarted("hang_at=initialize")
    async with closing(ext):
        error = await failing(ext.call("echo", timeout=0.1))
        assert isinstance(error, CallTimeout)
        assert "the extension was not ready" in error.message
        assert ext.state == "starting"
    accounted(ext, 1, timeout=1)


async def test_without_waiting_a_call_to_one_that_is_not_ready_fails_at_once() -> None:
    ext = unstarted()
    async with closing(ext):
        error = await failing(ext.call("echo", wait=False))
        assert isinstance(error, ExtensionGone) and error.code == "X1007"
        assert ext.state == "discovered"  # and it started nothing
        await ext.start()
        assert await ext.call("echo", 1, wait=False) == 1
        accounted(ext, 1, result=1)


async def test_a_reply_and_a_limit_in_the_same_moment_make_one_outcome() -> None:
    ledger = Ledger()
    async with hostile(events=ledger.bus) as ext:
        tries = [outcome(ext.call("echo", n, timeout=0.0005 * (n % 8))) for n in range(400)]
        results = await asyncio.gather(*tries)
        for n, result in enumerate(results):
            assert result == n or isinstance(result, CallTimeout)
        assert await ext.call("echo", "still") == "still"
        ledger.settle(ext)
