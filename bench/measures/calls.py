"""Small calls by `ext.call`, in the method names of the dialect: the time of one call, and calls
per second with a hundred in flight. `tools.py` measures `host.call_tool`.
"""

import asyncio
import statistics
import subprocess
from collections.abc import Awaitable, Callable

from bench import baselines, cores, subject
from bench.children import bare
from bench.cores import Pin
from bench.lean_client import lean_client
from bench.rounds import duration, held, ratios, read_values, take_turns, take_turns_async
from bench.row import NotHere, Reading, Setting

# A block takes a millisecond or two, less than a time slice of a busy core; so there are more.
BLOCK_CALLS = 50
MORE_ROUNDS = 12
IN_FLIGHT = 100
IN_FLIGHT_CALLS = 20 * IN_FLIGHT
MORE_IN_FLIGHT = 3

Measure = Callable[[Setting], Reading]
Call = Callable[[], Awaitable[object]]


def one_by_one(call: Call) -> Callable[[], Awaitable[None]]:
    """Return a block in which each call waits for the one before."""

    async def block() -> None:
        for _ in range(BLOCK_CALLS):
            await call()

    return block


def in_flight(call: Call) -> Callable[[], Awaitable[None]]:
    """Return a block of a hundred tasks, each of which calls again after each reply."""

    async def call_once() -> None:
        for _ in range(IN_FLIGHT_CALLS // IN_FLIGHT):
            await call()

    async def block() -> None:
        await asyncio.gather(*(call_once() for _ in range(IN_FLIGHT)))

    return block


def small_call(extension: subject.Extension) -> Call:
    """Return the call that every row of this module makes through exthost."""

    def call() -> Awaitable[object]:
        return extension.call("echo", baselines.SMALL, timeout=subject.CALL_S)

    return call


def streams_call(client: baselines.Streams) -> Call:
    def call() -> Awaitable[object]:
        return client.call("echo", baselines.SMALL)

    return call


def one_call(pin: Pin, *, uvloop: bool = False) -> Measure:
    """One call at a time through `exthost.connect` / raw Python."""

    async def work(setting: Setting) -> Reading:
        pair = cores.pair(pin)
        with bare(setting.child) as raw:
            async with subject.connect(setting.child) as extension:
                note = cores.pin(pair)
                call = small_call(extension)
                assert await call() == baselines.SMALL
                blocks = {
                    "raw": held(baselines.ping_pong(raw, BLOCK_CALLS)),
                    "exthost": one_by_one(call),
                }
                took = await take_turns_async(blocks, MORE_ROUNDS * setting.rounds, BLOCK_CALLS)
        absolute = (("exthost", duration(took["exthost"])), ("raw", duration(took["raw"])))
        return read_values(ratios(took["exthost"], took["raw"]), absolute, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


def one_call_streams(pin: Pin) -> Measure:
    """One call at a time through asyncio streams + json / raw Python."""

    async def work(setting: Setting) -> Reading:
        pair = cores.pair(pin)
        with bare(setting.child) as raw:
            async with baselines.streams(setting.child) as client:
                note = cores.pin(pair)
                call = streams_call(client)
                assert await call() == baselines.SMALL
                blocks = {
                    "raw": held(baselines.ping_pong(raw, BLOCK_CALLS)),
                    "streams": one_by_one(call),
                }
                took = await take_turns_async(blocks, MORE_ROUNDS * setting.rounds, BLOCK_CALLS)
        absolute = (("streams", duration(took["streams"])), ("raw", duration(took["raw"])))
        return read_values(ratios(took["streams"], took["raw"]), absolute, note)

    return lambda setting: subject.run(work(setting))


def lean_call(pin: Pin, *, uvloop: bool = False) -> Measure:
    """One call at a time through `LeanClient` / raw Python."""

    async def work(setting: Setting) -> Reading:
        pair = cores.pair(pin)
        with bare(setting.child) as raw, lean_client(setting.child) as client:
            note = cores.pin(pair)
            assert await client.call("echo", baselines.SMALL) == baselines.SMALL
            blocks = {
                "raw": held(baselines.ping_pong(raw, BLOCK_CALLS)),
                "lean": one_by_one(lambda: client.call("echo", baselines.SMALL)),
            }
            took = await take_turns_async(blocks, MORE_ROUNDS * setting.rounds, BLOCK_CALLS)
        absolute = (("lean", duration(took["lean"])), ("raw", duration(took["raw"])))
        return read_values(ratios(took["lean"], took["raw"]), absolute, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


def lean_in_flight(*, uvloop: bool = False) -> Measure:
    """Calls a second with 100 in flight, `LeanClient` / asyncio streams + json."""

    async def work(setting: Setting) -> Reading:
        pair = cores.apart()
        async with baselines.streams(setting.child) as streams:
            with lean_client(setting.child) as client:
                note = cores.pin(pair)
                blocks = {
                    "streams": in_flight(streams_call(streams)),
                    "lean": in_flight(lambda: client.call("echo", baselines.SMALL)),
                }
                took = await take_turns_async(
                    blocks, MORE_IN_FLIGHT * setting.rounds, IN_FLIGHT_CALLS
                )
        absolute = (("lean", rate(took["lean"])), ("streams", rate(took["streams"])))
        return read_values(ratios(took["streams"], took["lean"]), absolute, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


def c_ping_pong(pin: Pin) -> Measure:
    """A C program in the place of the host / raw Python: a bound that no Python host reaches."""

    def measure(setting: Setting) -> Reading:
        if not setting.child_is_c:
            raise NotHere("needs a C compiler")
        pair = cores.pair(pin)
        words = [*setting.child, "--limit", str(BLOCK_CALLS)]
        words += [str(core) for core in pair or (-1, -1)]

        def in_c() -> float:
            output = subprocess.run(words, stdout=subprocess.PIPE, timeout=10, check=True).stdout
            return float(output) / 1e9

        with bare(setting.child) as raw:
            note = cores.pin(pair)
            blocks: dict[str, Callable[[], object]] = {
                "raw": baselines.ping_pong(raw, BLOCK_CALLS),
                "c": in_c,
            }
            took = take_turns(blocks, setting.rounds, BLOCK_CALLS, warm=0)
        absolute = (("C", duration(took["c"])), ("raw", duration(took["raw"])))
        return read_values(ratios(took["c"], took["raw"]), absolute, note)

    return measure


def blocking_call(pin: Pin) -> Measure:
    """One call at a time through the blocking API / raw Python."""

    def measure(setting: Setting) -> Reading:
        pair = cores.pair(pin)
        with bare(setting.child) as raw, subject.sync_host(setting.child) as host:
            note = cores.pin(pair)
            extension: subject.SyncExtension = host["x"]
            assert extension.call("echo", baselines.SMALL) == baselines.SMALL

            def through_host() -> None:
                for _ in range(BLOCK_CALLS):
                    extension.call("echo", baselines.SMALL, timeout=subject.CALL_S)

            blocks = {"raw": baselines.ping_pong(raw, BLOCK_CALLS), "exthost": through_host}
            took = take_turns(blocks, MORE_ROUNDS * setting.rounds, BLOCK_CALLS)
        absolute = (("exthost", duration(took["exthost"])), ("raw", duration(took["raw"])))
        return read_values(ratios(took["exthost"], took["raw"]), absolute, note)

    return measure


def rate(seconds: list[float]) -> str:
    """Return the median of these times as calls per second."""
    return f"{1 / statistics.median(seconds) / 1000:.0f}k/s"


def many_in_flight(*, uvloop: bool = False) -> Measure:
    """Calls a second with 100 in flight, exthost / asyncio streams + json, on the same loop."""

    async def work(setting: Setting) -> Reading:
        pair = cores.apart()
        async with (
            baselines.streams(setting.child) as client,
            subject.connect(setting.child) as extension,
        ):
            note = cores.pin(pair)
            blocks = {
                "streams": in_flight(streams_call(client)),
                "exthost": in_flight(small_call(extension)),
            }
            took = await take_turns_async(blocks, MORE_IN_FLIGHT * setting.rounds, IN_FLIGHT_CALLS)
        absolute = (("exthost", rate(took["exthost"])), ("streams", rate(took["streams"])))
        return read_values(ratios(took["streams"], took["exthost"]), absolute, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


def many_in_flight_streams(setting: Setting) -> Reading:
    """Calls per second of asyncio streams + json without exthost: the denominator."""

    async def work() -> Reading:
        pair = cores.apart()
        async with baselines.streams(setting.child) as client:
            note = cores.pin(pair)
            blocks = {"streams": in_flight(streams_call(client))}
            took = await take_turns_async(blocks, setting.few, IN_FLIGHT_CALLS)
        return read_values([1 / seconds for seconds in took["streams"]], (), note)

    return subject.run(work())
