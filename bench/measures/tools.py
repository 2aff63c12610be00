"""`host.call_tool`, the call that users make: it looks up the name, checks the arguments against
the schema of the tool, has a time limit and returns a ToolResult.
"""

import importlib
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from bench import baselines, cores, subject
from bench.children import bare
from bench.cores import Pin
from bench.lean_client import lean_client
from bench.measures.calls import (
    BLOCK_CALLS,
    IN_FLIGHT_CALLS,
    MORE_IN_FLIGHT,
    MORE_ROUNDS,
    Call,
    Measure,
    in_flight,
    one_by_one,
    rate,
    streams_call,
)
from bench.rounds import Samples, duration, held, ratios, read_values, take_turns, take_turns_async
from bench.row import Reading, Setting

ARGUMENTS = baselines.SMALL
# The arguments of a child, the line that the raw pipe sends, and the result of the tool.
MODES = {"morphir": "--schema", "nexo": "--nexo", "mcp": "--mcp"}
LINES = {
    "morphir": baselines.SMALL_LINE,
    "nexo": baselines.NEXO_LINE,
    "mcp": baselines.MCP_LINE,
}
RESULTS: dict[str, Any] = {
    "morphir": ARGUMENTS,
    "nexo": {"content": [{"type": "text", "text": ARGUMENTS["text"]}]},
    "mcp": {"content": [{"type": "text", "text": ARGUMENTS["text"]}]},
}
# The events of a call; the others have nothing to do with it.
CALL_EVENTS = ("CallStarted", "CallEnded")
NEAR_CALL_EVENTS = (*CALL_EVENTS, "Progressed")

Blocks = dict[str, Callable[[], Awaitable[object]]]


def child(setting: Setting, dialect: str = "morphir") -> tuple[str, ...]:
    """Return the echo child of this dialect, whose tool has a schema."""
    return (*setting.child, MODES[dialect])


def entry(
    setting: Setting, name: str = "x", dialect: str = "morphir", **options: Any
) -> dict[str, Any]:
    """Return the echo child as an entry of a config."""
    return subject.entry(name, child(setting, dialect), dialect=dialect, **options)


def tool_call(host: subject.Host, extension: str = "x") -> Call:
    """Return one call of the echo tool through the host."""
    name = subject.registered(extension)
    return lambda: host.call_tool(name, ARGUMENTS, timeout=subject.CALL_S)


def ext_call(host: subject.Host, dialect: str) -> Call:
    """Return the same request through `ext.call`, in the method names of the dialect."""
    extension = host["x"]
    if dialect != "morphir":
        params = {"name": "echo", "arguments": ARGUMENTS}
        return lambda: extension.call("tools/call", params, timeout=subject.CALL_S)
    return lambda: extension.call("echo", ARGUMENTS, timeout=subject.CALL_S)


async def check(call: Call, dialect: str = "morphir") -> None:
    """Make one call, and assert the answer of the tool."""
    result = subject.raw(await call())
    assert result == RESULTS[dialect], result


def _compared(
    took: Samples, over: str, under: str, text: Callable[[list[float]], str], note: str
) -> Reading:
    absolute = tuple((name, text(took[name])) for name in took)
    return read_values(ratios(took[over], took[under]), absolute, note)


# -- one at a time -----------------------------------------------------------------------------


def one_call(pin: Pin, *, dialect: str = "morphir", uvloop: bool = False) -> Measure:
    """One call at a time / raw Python."""

    async def work(setting: Setting) -> Reading:
        pair = cores.pair(pin)
        with bare(child(setting, dialect)) as raw:
            async with subject.host(entry(setting, dialect=dialect)) as host:
                call = tool_call(host)
                await check(call, dialect)
                note = cores.pin(pair)
                blocks: Blocks = {
                    "call_tool": one_by_one(call),
                    "ext.call": one_by_one(ext_call(host, dialect)),
                    "raw": held(baselines.ping_pong(raw, BLOCK_CALLS, LINES[dialect])),
                }
                took = await take_turns_async(blocks, MORE_ROUNDS * setting.rounds, BLOCK_CALLS)
        return _compared(took, "call_tool", "raw", duration, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


def against_lean(pin: Pin, *, uvloop: bool = False) -> Measure:
    """One call at a time / the least that a client does."""

    async def work(setting: Setting) -> Reading:
        pair = cores.pair(pin)
        with lean_client(setting.child) as client:
            async with subject.host(entry(setting)) as host:
                call = tool_call(host)
                await check(call, "morphir")
                note = cores.pin(pair)
                blocks: Blocks = {
                    "call_tool": one_by_one(call),
                    "lean": one_by_one(lambda: client.call("echo", baselines.SMALL)),
                }
                took = await take_turns_async(blocks, MORE_ROUNDS * setting.rounds, BLOCK_CALLS)
        return _compared(took, "call_tool", "lean", duration, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


def in_flight_against_lean(*, uvloop: bool = False) -> Measure:
    """Calls a second with 100 in flight / the least that a client does."""

    async def work(setting: Setting) -> Reading:
        pair = cores.apart()
        with lean_client(setting.child) as client:
            async with subject.host(entry(setting)) as host:
                call = tool_call(host)
                await check(call, "morphir")
                note = cores.pin(pair)
                blocks: Blocks = {
                    "call_tool": in_flight(call),
                    "lean": in_flight(lambda: client.call("echo", baselines.SMALL)),
                }
                took = await take_turns_async(
                    blocks, MORE_IN_FLIGHT * setting.rounds, IN_FLIGHT_CALLS
                )
        return _compared(took, "lean", "call_tool", rate, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


def blocking_call(pin: Pin) -> Measure:
    """One call at a time through `SyncHost.call_tool` / raw Python."""

    def measure(setting: Setting) -> Reading:
        pair = cores.pair(pin)
        argv, name = child(setting), subject.registered("x")
        with bare(argv) as raw, subject.sync_host(argv) as host:
            result = subject.raw(host.call_tool(name, ARGUMENTS, timeout=subject.CALL_S))
            assert result == RESULTS["morphir"], result
            note = cores.pin(pair)

            def through_host() -> None:
                for _ in range(BLOCK_CALLS):
                    host.call_tool(name, ARGUMENTS, timeout=subject.CALL_S)

            blocks = {"call_tool": through_host, "raw": baselines.ping_pong(raw, BLOCK_CALLS)}
            took = take_turns(blocks, MORE_ROUNDS * setting.rounds, BLOCK_CALLS)
        return _compared(took, "call_tool", "raw", duration, note)

    return measure


# -- a hundred in flight -----------------------------------------------------------------------


async def _in_flight(setting: Setting, calls: dict[str, Call], note: str) -> Reading:
    """Calls a second of the first of these calls / of the second."""
    over, under = calls
    blocks: Blocks = {name: in_flight(call) for name, call in calls.items()}
    took = await take_turns_async(blocks, MORE_IN_FLIGHT * setting.rounds, IN_FLIGHT_CALLS)
    # Times, so the ratio of the rates is the other way round.
    absolute = tuple((name, rate(took[name])) for name in took)
    return read_values(ratios(took[under], took[over]), absolute, note)


def against_streams(*, uvloop: bool = False) -> Measure:
    """Calls a second / those of asyncio streams + json, on the same loop."""

    async def work(setting: Setting) -> Reading:
        pair = cores.apart()
        async with (
            baselines.streams(setting.child) as client,
            subject.host(entry(setting)) as host,
        ):
            call = tool_call(host)
            await check(call)
            note = cores.pin(pair)
            calls = {"call_tool": call, "streams": streams_call(client)}
            return await _in_flight(setting, calls, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


def against_ext_call(*, dialect: str = "morphir", uvloop: bool = False) -> Measure:
    """Calls a second / those of `ext.call` to the same process."""

    async def work(setting: Setting) -> Reading:
        pair = cores.apart()
        async with subject.host(entry(setting, dialect=dialect)) as host:
            call = tool_call(host)
            await check(call, dialect)
            note = cores.pin(pair)
            calls = {"call_tool": call, "ext.call": ext_call(host, dialect)}
            return await _in_flight(setting, calls, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


def _other_events(events: Any) -> tuple[type, ...]:
    """Return every kind of event except those of a call."""
    return tuple(
        kind
        for name, kind in inspect.getmembers(events, inspect.isclass)
        if kind.__module__ == events.__name__
        and hasattr(kind, "_fields")
        and name not in NEAR_CALL_EVENTS
    )


def observed(*, calls: bool, uvloop: bool = False) -> Measure:
    """Calls a second with a subscriber on the bus, to the events of calls or to all others,
    / without one."""

    async def work(setting: Setting) -> Reading:
        pair = cores.apart()
        events = importlib.import_module("exthost.events")
        received = 0

        def listener(event: Any) -> None:
            nonlocal received
            received += 1

        if calls:
            kinds = tuple(getattr(events, name) for name in CALL_EVENTS)
        else:
            kinds = _other_events(events)
            assert len(kinds) > 5, kinds
        async with (
            subject.host(entry(setting)) as observed_host,
            subject.host(entry(setting)) as host,
        ):
            observed_host.events.subscribe(kinds, listener)
            for opened in (observed_host, host):
                await check(tool_call(opened))
            assert received == (2 if calls else 0), received
            note = cores.pin(pair)
            compared = {"observed": tool_call(observed_host), "alone": tool_call(host)}
            return await _in_flight(setting, compared, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


def traced_before(*, uvloop: bool = False) -> Measure:
    """Calls a second of a host whose trace has ended / of one that was never traced."""

    async def work(setting: Setting) -> Reading:
        pair = cores.apart()
        records = 0

        def listener(record: Any) -> None:
            nonlocal records
            records += 1

        async with (
            subject.host(entry(setting)) as traced_host,
            subject.host(entry(setting)) as host,
        ):
            end = traced_host.traffic.subscribe(listener)
            for opened in (traced_host, host):
                await check(tool_call(opened))
            assert records == 2, records
            end()
            note = cores.pin(pair)
            compared = {"traced before": tool_call(traced_host), "never": tool_call(host)}
            return await _in_flight(setting, compared, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


def pool(size: int, *, uvloop: bool = False) -> Measure:
    """Calls a second through a pool of `size` processes / through one process."""

    async def work(setting: Setting) -> Reading:
        pair = cores.apart()
        pooled = entry(setting, "pool", pool={"min": size, "max": size})
        async with subject.host(pooled) as pool_host, subject.host(entry(setting)) as host:
            await subject.processes(pool_host["pool"], size)
            await check(tool_call(pool_host, "pool"))
            await check(tool_call(host))
            # Pinned after all have started: a later process would share the core of the host.
            note = cores.pin(pair)
            calls = {f"pool of {size}": tool_call(pool_host, "pool"), "one": tool_call(host)}
            return await _in_flight(setting, calls, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


# -- with hooks --------------------------------------------------------------------------------


def hooked_calls(*, many: bool = False) -> Measure:
    """`host.call_tool` with one hook extension / the same without its hooks (`hooks=False`)."""

    async def work(setting: Setting) -> Reading:
        pair = cores.apart()
        argv = (*setting.child, "--nexo")
        async with subject.host(
            entry(setting), subject.entry("hook", argv, dialect="nexo")
        ) as host:
            name = subject.registered("x")

            def run(hooks: bool) -> Callable[[], Awaitable[Any]]:
                return lambda: host.call_tool(name, ARGUMENTS, timeout=subject.CALL_S, hooks=hooks)

            await check(run(hooks=True))
            answered = host["hook"].stats.result
            assert answered == 2, f"{answered} hooks were run, not 2"
            note = cores.pin(pair)
            order = in_flight if many else one_by_one
            blocks: Blocks = {"hooks": order(run(hooks=True)), "none": order(run(hooks=False))}
            calls = IN_FLIGHT_CALLS if many else BLOCK_CALLS
            rounds = setting.rounds * (MORE_IN_FLIGHT if many else MORE_ROUNDS)
            took = await take_turns_async(blocks, rounds, calls)
        return _compared(took, "hooks", "none", duration, note)

    return lambda setting: subject.run(work(setting))
