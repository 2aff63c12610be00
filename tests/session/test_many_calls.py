"""Many calls at once: each gets its own answer, ends once, and leaves no entry behind."""

import asyncio
import gc
import random
from dataclasses import replace

import pytest

from exthost.dialects.morphir.dialect import DIALECT
from exthost.dialects.streams import StreamKind
from exthost.errors import CallFailed, CallTimeout, ExtensionGone, UsageError
from tests.extensions.harness import (
    Ledger,
    accounted,
    closing,
    hostile,
    outcome,
    unstarted,
    until,
)


def without_debug() -> None:
    """asyncio's debug mode takes a traceback for each future: most of the time of such a test."""
    asyncio.get_running_loop().set_debug(False)


@pytest.mark.both_loops
async def test_ten_thousand_calls_answered_in_random_order_each_get_their_own() -> None:
    without_debug()
    async with hostile(limits={"max_in_flight": 10_000}) as ext:
        calls = [ext.call("together", {"n": n, "of": 10_000}) for n in range(10_000)]
        assert await asyncio.gather(*calls) == list(range(10_000))
        accounted(ext, 10_000, result=10_000)
        assert ext.stats.dropped == {}


async def test_ten_thousand_calls_through_a_narrow_door_each_get_their_own() -> None:
    without_debug()
    async with hostile(limits={"max_in_flight": 100}) as ext:
        calls = [ext.call("together", {"n": n, "of": 100}) for n in range(10_000)]
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, ext.stats.in_flight)
                await asyncio.sleep(0)

        watching = asyncio.ensure_future(watch())
        assert await asyncio.gather(*calls) == list(range(10_000))
        watching.cancel()
        assert most == 100
        accounted(ext, 10_000, result=10_000)


async def test_calls_that_wait_are_sent_in_the_order_they_came() -> None:
    async with hostile(limits={"max_in_flight": 1}) as ext:
        done: list[int] = []

        async def one(n: int) -> None:
            done.append(await ext.call("echo", n))

        await asyncio.gather(*map(one, range(200)))
        assert done == list(range(200))


@pytest.mark.both_loops
async def test_a_storm_of_cancellations_leaks_no_entry_and_harms_no_other_call() -> None:
    ledger = Ledger()
    chance = random.Random(7)
    async with hostile(events=ledger.bus, limits={"max_in_flight": 200}) as ext:
        doomed = [asyncio.ensure_future(ext.call("keep", n)) for n in range(1000)]
        others = [asyncio.ensure_future(ext.call("echo", n)) for n in range(1000)]
        chance.shuffle(doomed)
        for n, call in enumerate(doomed):
            call.cancel()
            if n % 10 == 0:
                for _ in range(chance.randrange(3)):
                    await asyncio.sleep(0)
        ends = await asyncio.gather(*doomed, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        assert await asyncio.gather(*others) == list(range(1000))
        assert ext.stats.in_flight == ext.stats.waiting == 0
        late = await ext.call("release")  # those that had been sent are answered now, to nobody
        assert ext.stats.dropped == ({"late or repeated replies": late} if late else {})
        ledger.settle(ext)
        assert ledger.ended["result"] == 1001
        # Cancelled before its task ever ran, a call was never made.
        assert ledger.ended["cancelled"] == ledger.accepted - 1001 > 0


async def test_cancelling_at_the_very_moment_of_the_answer_counts_once() -> None:
    ledger = Ledger()
    async with hostile(events=ledger.bus) as ext:
        for n in range(300):
            call = asyncio.ensure_future(ext.call("echo", n))
            asyncio.get_running_loop().call_later(0.0001 * (n % 10), call.cancel)
            try:
                assert await call == n
            except asyncio.CancelledError:
                pass
        assert await ext.call("echo", "still") == "still"
        ledger.settle(ext)


async def test_a_storm_of_everything_ends_each_call_once() -> None:
    """Answers, refusals, timeouts, cancellations and a death, all in one flight."""
    ledger = Ledger()
    chance = random.Random(11)
    async with hostile(events=ledger.bus, limits={"max_in_flight": 50}) as ext:
        tasks: list[asyncio.Future[object]] = []
        for n in range(600):
            kind = chance.choice(["echo", "refuse", "keep", "cancel"])
            limit = 0.05 if kind == "keep" else 20
            method = "keep" if kind == "cancel" else kind
            params = {"text": str(n)}
            task = asyncio.ensure_future(outcome(ext.call(method, params, timeout=limit)))
            tasks.append(task)
            if kind == "cancel":
                asyncio.get_running_loop().call_later(chance.random() / 5, task.cancel)
        await until(lambda: ledger.ended["result"] > 20 and ledger.ended["timeout"] > 20)
        tasks.append(asyncio.ensure_future(outcome(ext.call("leave", {"code": 1}, timeout=20))))
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [end for end in ends if isinstance(end, CallTimeout) and "leave" in str(end)]
        assert isinstance(ends[-1], ExtensionGone)
        ledger.settle(ext)
        assert set(ledger.ended) == {"result", "error", "timeout", "cancelled", "gone"}


@pytest.mark.both_loops
async def test_many_tasks_call_one_extension_and_a_neighbour_is_not_harmed() -> None:
    """A hostile neighbour changes nobody else's thousand calls."""
    async with hostile() as good, hostile() as bad:

        async def pester() -> None:
            for _ in range(5):
                await bad.call("garbage")
                await bad.call("notices", {"thousands": 2})
                await bad.call("stderr", {"bytes": 100_000})
            await outcome(bad.call("killed", {"signal": 9}))

        async def work(start: int) -> None:
            for n in range(start, start + 50):
                assert await good.call("echo", n) == n

        await asyncio.gather(pester(), *(work(1000 * n) for n in range(20)))
        accounted(good, 1000, result=1000)


async def test_an_error_in_the_moment_of_a_cancellation_is_not_reported_as_unseen() -> None:
    """asyncio complains of exceptions that nobody took; this one's caller had just gone."""
    complaints: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    async with hostile() as ext:
        task = asyncio.ensure_future(ext.call("keep"))
        await until(lambda: ext.stats.in_flight == 1)
        session = ext.internals.queue.sessions[0]
        ((number, call),) = session.pending.items()
        del session.pending[number]
        ext.internals.queue.fail(call, CallFailed("X0701", "no"))
        task.cancel()  # before its task could run: it never sees the error
        await asyncio.wait([task])
        assert task.cancelled()
        del task, call
        gc.collect()
        await asyncio.sleep(0)
        assert complaints == []
        accounted(ext, 1, error=1)


async def test_a_stream_that_could_not_be_asked_for_is_not_left_open() -> None:
    kind = StreamKind(notifications={"event": None}, decode=lambda method, params: None)
    dialect = replace(DIALECT, streams={"watch": kind})
    async with closing(unstarted(dialect=dialect)) as ext:
        await ext.start()
        with pytest.raises(UsageError):
            async with ext.stream("watch", object()):
                raise AssertionError("it cannot have been opened")
        assert ext.internals.queue.sessions[0].conversation.streams() == set()
        assert await ext.call("echo", 1) == 1
