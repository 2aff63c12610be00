"""A call ends at its time limit; the error says what the call waited for.

The program is the hostile extension of the tests: `echo` returns its argument, and `keep` is
answered only after `release`. `limits` are the settings of the extension in its config.
"""

import asyncio
import time

import pytest

from exthost.errors import CallTimeout, ExtensionGone
from exthost.events import Bus, LogLine
from exthost.process.stderr_tail import OLDER
from tests.extensions.clock import Clock, run_loop
from tests.extensions.harness import (
    ONE_HOUR,
    Ledger,
    check_call_counts,
    closed_at_end,
    error_of,
    hostile_extension,
    result_or_error,
    unstarted_extension,
)


@pytest.mark.both_loops
async def test_a_call_ends_at_its_limit_and_its_late_reply_is_counted() -> None:
    ledger = Ledger()
    async with hostile_extension(events=ledger.bus, limits={"call": ONE_HOUR}) as ext:
        started_at = time.monotonic()
        error = await error_of(ext.call("keep", "late", timeout=0.1))
        assert isinstance(error, CallTimeout)
        assert time.monotonic() - started_at > 0.09  # a timer may be early by its resolution
        assert error.code == "X0801" and error.extension == "hostile"
        assert "keep took longer than 0.1 s: no answer arrived" in error.message
        assert error.evidence.argv
        assert await ext.call("release") == 1  # the late reply was written before this reply
        assert ext.stats.dropped == {"late or repeated replies": 1}
        assert await ext.call("echo", "next") == "next"
        ledger.check_calls(ext, result=2, timeout=1)


@pytest.mark.both_loops
async def test_stderr_of_an_earlier_call_is_marked_as_older(clock: Clock) -> None:
    line_received = asyncio.Event()
    bus = Bus()
    bus.subscribe(LogLine, lambda line: line_received.set())
    async with hostile_extension(events=bus) as ext:
        await ext.call("stderr", {"bytes": 0})  # writes only "the last line of stderr"
        await line_received.wait()
        clock.move(1)
        error = await error_of(ext.call("keep", timeout=0.05))
        assert error.evidence.stderr == (OLDER, "the last line of stderr")


async def test_a_timeout_names_an_older_unanswered_call(clock: Clock) -> None:
    async with hostile_extension() as ext:
        older = asyncio.ensure_future(ext.call("keep"))
        await run_loop()
        clock.move(6)
        error = await error_of(ext.call("keep", timeout=0.05))
        assert error.help.startswith("it has not answered keep either (6 s); give the call")
        await ext.call("release")
        await older


@pytest.mark.parametrize("step", [1, 9], ids=["one by one", "all at once"])
async def test_calls_end_in_the_order_of_their_limits(step: int, clock: Clock) -> None:
    """The order is kept even if the loop runs only after the last limit."""
    unit = 0.02  # seconds; the limits and the time that passes are multiples of it
    async with hostile_extension() as ext:
        ended_limits: list[int] = []

        async def call_with_limit(limit: int) -> None:
            error = await error_of(ext.call("keep", timeout=limit * unit))
            assert isinstance(error, CallTimeout)
            ended_limits.append(limit)

        clock.stop()
        limits = [5, 1, 9, 3, 7, 2, 8, 4, 6]
        calls = [asyncio.ensure_future(call_with_limit(limit)) for limit in limits]
        await run_loop()
        assert ext.stats.in_flight == len(limits)
        for passed in range(step, 10, step):
            await clock.advance(step * unit)
            assert ended_limits == list(range(1, passed + 1))
        await asyncio.gather(*calls)
        check_call_counts(ext, 9, timeout=9)


async def test_a_call_without_a_limit_has_the_configured_limit() -> None:
    async with hostile_extension(limits={"call": "0.1s"}) as ext:
        error = await error_of(ext.call("keep"))
        assert "took longer than 0.1 s" in error.message


async def test_a_call_that_times_out_in_the_queue_is_not_sent(
    clock: Clock,
) -> None:
    async with hostile_extension(limits={"max_in_flight": 1}) as ext:
        clock.stop()
        first = asyncio.ensure_future(error_of(ext.call("keep", timeout=0.5)))
        await asyncio.sleep(0)  # the first call is sent first
        second = asyncio.ensure_future(error_of(ext.call("echo", timeout=0.1)))
        await run_loop()
        await clock.advance(0.1)
        error = await second
        assert isinstance(error, CallTimeout) and "waiting for its turn" in error.message
        assert not first.done()
        await clock.advance(0.4)
        await first
        assert await ext.call("release") == 1  # only the first call reached the extension
        check_call_counts(ext, 3, result=1, timeout=2)


@pytest.mark.both_loops
async def test_after_a_timeout_the_next_call_is_sent() -> None:
    async with hostile_extension(limits={"max_in_flight": 1, "call": ONE_HOUR}) as ext:
        unanswered = asyncio.ensure_future(error_of(ext.call("keep", timeout=0.1)))
        assert await asyncio.gather(*(ext.call("echo", n) for n in range(10))) == list(range(10))
        assert isinstance(await unanswered, CallTimeout)
        check_call_counts(ext, 11, result=10, timeout=1)


async def test_after_a_cancellation_the_next_call_is_sent() -> None:
    async with hostile_extension(limits={"max_in_flight": 1}) as ext:
        unanswered = asyncio.ensure_future(ext.call("keep"))
        waiting_calls = [asyncio.ensure_future(ext.call("echo", n)) for n in range(10)]
        await asyncio.sleep(0)
        unanswered.cancel()
        assert await asyncio.gather(*waiting_calls) == list(range(10))
        check_call_counts(ext, 11, result=10, cancelled=1)


async def test_the_timeout_during_the_start_says_that_the_extension_was_not_ready() -> None:
    ext = unstarted_extension("hang_at=initialize")
    async with closed_at_end(ext):
        error = await error_of(ext.call("echo", timeout=0.1))
        assert isinstance(error, CallTimeout)
        assert "the extension was not ready" in error.message
        assert ext.state == "starting"
    check_call_counts(ext, 1, timeout=1)


async def test_with_wait_false_a_call_fails_if_the_extension_is_not_ready() -> None:
    ext = unstarted_extension()
    async with closed_at_end(ext):
        error = await error_of(ext.call("echo", wait=False))
        assert isinstance(error, ExtensionGone) and error.code == "X1007"
        assert ext.state == "discovered"  # the call did not start it
        await ext.start()
        assert await ext.call("echo", 1, wait=False) == 1
        check_call_counts(ext, 1, result=1)


async def test_a_reply_at_the_moment_of_the_limit_gives_one_outcome() -> None:
    ledger = Ledger()
    async with hostile_extension(events=ledger.bus) as ext:
        # The limits are about as long as a reply takes, so that some replies and limits coincide.
        calls = [result_or_error(ext.call("echo", n, timeout=0.0005 * (n % 8))) for n in range(400)]
        results = await asyncio.gather(*calls)
        for n, result in enumerate(results):
            assert result == n or isinstance(result, CallTimeout)
        assert await ext.call("echo", "still") == "still"
        ledger.check_calls(ext)
