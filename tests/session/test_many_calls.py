"""Many calls at the same time: each gets its own reply, and each ends exactly once.

The hostile extension has these methods, among others: `echo` returns its params, `keep` answers
only after `release`, `together` answers when `of` calls have arrived, in random order, `refuse`
answers with an error, `leave` exits, and `garbage`, `notices` and `stderr` write much that is not a
reply. A `Ledger` counts accepted and ended calls by the events of the host; its `check_calls`
checks that each accepted call has ended once.
"""

import asyncio
import gc
import random
from dataclasses import replace

import pytest

from exthost.dialects.morphir.dialect import DIALECT
from exthost.dialects.streams import StreamKind
from exthost.errors import CallFailed, ExtensionGone, UsageError
from tests.extensions.harness import (
    Ledger,
    check_call_counts,
    closed_at_end,
    hostile_extension,
    result_or_error,
    unstarted_extension,
    wait_until,
)


def disable_debug_mode() -> None:
    """Disable asyncio's debug mode, whose tracebacks for each future make such a test slow."""
    asyncio.get_running_loop().set_debug(False)


@pytest.mark.both_loops
async def test_ten_thousand_calls_answered_in_random_order_get_their_replies() -> None:
    disable_debug_mode()
    async with hostile_extension(limits={"max_in_flight": 10_000}) as ext:
        calls = [ext.call("together", {"n": n, "of": 10_000}) for n in range(10_000)]
        assert await asyncio.gather(*calls) == list(range(10_000))
        check_call_counts(ext, 10_000, result=10_000)
        assert ext.stats.dropped == {}


@pytest.mark.more
async def test_ten_thousand_calls_with_a_hundred_in_flight_get_their_replies() -> None:
    disable_debug_mode()
    async with hostile_extension(limits={"max_in_flight": 100}) as ext:
        calls = [ext.call("together", {"n": n, "of": 100}) for n in range(10_000)]
        max_in_flight = 0

        async def record_maximum() -> None:
            nonlocal max_in_flight
            while True:
                max_in_flight = max(max_in_flight, ext.stats.in_flight)
                await asyncio.sleep(0)

        recorder = asyncio.ensure_future(record_maximum())
        assert await asyncio.gather(*calls) == list(range(10_000))
        recorder.cancel()
        assert max_in_flight == 100
        check_call_counts(ext, 10_000, result=10_000)


async def test_waiting_calls_are_sent_in_order() -> None:
    async with hostile_extension(limits={"max_in_flight": 1}) as ext:
        results: list[int] = []

        async def call_echo(n: int) -> None:
            results.append(await ext.call("echo", n))

        await asyncio.gather(*map(call_echo, range(200)))
        assert results == list(range(200))


@pytest.mark.both_loops
async def test_many_cancellations_affect_no_other_call() -> None:
    ledger = Ledger()
    random_numbers = random.Random(7)
    # With this limit, some of the cancelled calls have been sent, and others wait.
    async with hostile_extension(events=ledger.bus, limits={"max_in_flight": 200}) as ext:
        cancelled_calls = [asyncio.ensure_future(ext.call("keep", n)) for n in range(1000)]
        other_calls = [asyncio.ensure_future(ext.call("echo", n)) for n in range(1000)]
        random_numbers.shuffle(cancelled_calls)
        for n, call in enumerate(cancelled_calls):
            call.cancel()
            if n % 10 == 0:
                for _ in range(random_numbers.randrange(3)):
                    await asyncio.sleep(0)
        outcomes = await asyncio.gather(*cancelled_calls, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in outcomes)
        assert await asyncio.gather(*other_calls) == list(range(1000))
        assert ext.stats.in_flight == ext.stats.waiting == 0
        late_replies = await ext.call("release")  # calls that had been sent are answered now
        assert ext.stats.dropped == (
            {"late or repeated replies": late_replies} if late_replies else {}
        )
        ledger.check_calls(ext)
        results = len(other_calls) + 1  # and that of `release`
        assert ledger.ended["result"] == results
        # A call whose task was cancelled before its first step was never made.
        assert ledger.ended["cancelled"] == ledger.accepted - results > 0


async def test_cancelling_at_the_moment_of_the_reply_gives_one_outcome() -> None:
    ledger = Ledger()
    async with hostile_extension(events=ledger.bus) as ext:
        for n in range(300):
            call = asyncio.ensure_future(ext.call("echo", n))
            # The reply arrives after about half a millisecond: some calls end before, some after.
            asyncio.get_running_loop().call_later(0.0001 * (n % 10), call.cancel)
            try:
                assert await call == n
            except asyncio.CancelledError:
                pass
        assert await ext.call("echo", "still") == "still"
        ledger.check_calls(ext)


async def test_replies_errors_timeouts_cancellations_and_an_exit_end_each_call_once() -> None:
    """All of them happen at the same time. A call of the kind "cancel" is a call of `keep` that is
    cancelled at a random moment; the other calls of `keep` reach their time limit."""
    ledger = Ledger()
    random_numbers = random.Random(11)
    async with hostile_extension(events=ledger.bus, limits={"max_in_flight": 50}) as ext:
        tasks: list[asyncio.Future[object]] = []
        for n in range(600):
            kind = random_numbers.choice(["echo", "refuse", "keep", "cancel"])
            limit = 0.05 if kind == "keep" else 20
            method = "keep" if kind == "cancel" else kind
            params = {"text": str(n)}
            task = asyncio.ensure_future(result_or_error(ext.call(method, params, timeout=limit)))
            tasks.append(task)
            if kind == "cancel":
                asyncio.get_running_loop().call_later(random_numbers.random() / 5, task.cancel)
        await wait_until(lambda: ledger.ended["result"] > 20 and ledger.ended["timeout"] > 20)
        tasks.append(
            asyncio.ensure_future(result_or_error(ext.call("leave", {"code": 1}, timeout=20)))
        )
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(ends[-1], ExtensionGone)
        ledger.check_calls(ext)
        assert set(ledger.ended) == {"result", "error", "timeout", "cancelled", "gone"}


@pytest.mark.more
@pytest.mark.both_loops
async def test_a_hostile_extension_does_not_affect_calls_of_another() -> None:
    """Twenty tasks make a thousand calls."""
    async with hostile_extension() as good, hostile_extension() as bad:

        async def call_hostile_methods() -> None:
            for _ in range(5):
                await bad.call("garbage")
                await bad.call("notices", {"thousands": 2})
                await bad.call("stderr", {"bytes": 100_000})
            await result_or_error(bad.call("killed", {"signal": 9}))

        async def make_calls(start: int) -> None:
            for n in range(start, start + 50):
                assert await good.call("echo", n) == n

        await asyncio.gather(call_hostile_methods(), *(make_calls(1000 * n) for n in range(20)))
        check_call_counts(good, 1000, result=1000)


async def test_an_error_at_the_moment_of_a_cancellation_is_not_logged() -> None:
    """asyncio reports exceptions that were never retrieved; here the caller was just cancelled."""
    reports: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reports.append(context))
    async with hostile_extension() as ext:
        task = asyncio.ensure_future(ext.call("keep"))
        await wait_until(lambda: ext.stats.in_flight == 1)
        session = ext.internals.queue.sessions[0]
        ((number, call),) = session.pending.items()
        # End the call as the session does when an error reply arrives.
        del session.pending[number]
        ext.internals.queue.fail(call, CallFailed("X0701", "no"))
        task.cancel()  # before the task can get the error
        await asyncio.wait([task])
        assert task.cancelled()
        del task, call
        gc.collect()
        await asyncio.sleep(0)
        assert reports == []
        check_call_counts(ext, 1, error=1)


async def test_a_stream_whose_request_cannot_be_sent_is_not_left_open() -> None:
    kind = StreamKind(notifications={"event": None}, decode=lambda method, params: None)
    dialect = replace(DIALECT, streams={"watch": kind})
    async with closed_at_end(unstarted_extension(dialect=dialect)) as ext:
        await ext.start()
        with pytest.raises(UsageError):
            async with ext.stream("watch", object()):
                raise AssertionError("the stream was opened")
        assert ext.internals.queue.sessions[0].conversation.streams() == set()
        assert await ext.call("echo", 1) == 1
