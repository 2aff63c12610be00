"""When a call raises, the state, health, stats and tools of the extension have already changed.

So a program that catches the error can decide by the state what to do. The tests await nothing
between the error and the moment when they read the state: the `except` block reads it. The program
is the hostile extension of the tests, whose method `leave` exits.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config.extension_settings import BreakerSettings, RestartSettings
from exthost.errors import CallTimeout, ExtensionGone, HandshakeFailed
from exthost.events import Bus, Exited, Spawned, StateChanged
from exthost.extension.extension import Extension
from exthost.host.sync.sync_host import SyncHost
from tests.extensions.harness import (
    check_call_counts,
    error_of,
    hostile_command,
    hostile_extension,
    wait_until,
)

THIRTY_SECONDS = {"initial_delay": "30s", "max_delay": "30s"}

# Restart strategy -> state and health after the crash, and whether the tools are still listed.
AFTER_A_CRASH = [
    pytest.param({"strategy": "never"}, "failed", "failed", False, id="never"),
    pytest.param({"strategy": "immediate"}, "backoff", "restarting", True, id="immediate"),
    pytest.param(
        {"strategy": "exponential", **THIRTY_SECONDS},
        "backoff",
        "restarting",
        True,
        id="exponential",
    ),
    pytest.param({"strategy": "on-demand"}, "admitted", "idle", True, id="on-demand"),
    pytest.param(
        {"strategy": "immediate", "max_retries": 0}, "failed", "failed", False, id="no retries left"
    ),
]

STATS_WITHOUT_PROCESS = {
    "processes": 0,
    "pid": None,
    "uptime": 0.0,
    "crashes": 1,
    "gone": 1,
    "in_flight": 0,
}


def config_entry(**settings: Any) -> dict[str, Any]:
    program, *args = hostile_command()
    source = {"type": "process", "command": program, "args": args}
    return {"name": "a", "source": source, **settings}


def read_stats(ext: Extension) -> dict[str, Any]:
    stats = ext.stats
    return {name: getattr(stats, name) for name in STATS_WITHOUT_PROCESS}


@pytest.mark.sampled
@pytest.mark.both_loops
@pytest.mark.parametrize("method", ["leave", "killed", "half", "close_stdout"])
@pytest.mark.parametrize(("restart", "state", "health", "tools_are_listed"), AFTER_A_CRASH)
async def test_a_call_whose_process_died_finds_the_new_state(
    method: str, restart: dict[str, Any], state: str, health: str, tools_are_listed: bool
) -> None:
    config = {"extensions": [config_entry(restart=restart)]}
    async with exthost.Host.from_config(config) as host:
        ext = host["a"]
        try:
            await ext.call(method, {"code": 1})
        except ExtensionGone as error:
            state_at_error = (ext.state, ext.health, "ext_a_echo" in host.tools)
            stats = read_stats(ext)
            has_cause_of_error = ext.cause is not None and ext.cause.code == error.code
        assert state_at_error == (state, health, tools_are_listed)
        assert stats == STATS_WITHOUT_PROCESS
        assert has_cause_of_error


@pytest.mark.parametrize(("restart", "state", "health", "tools_are_listed"), AFTER_A_CRASH)
def test_a_blocking_call_whose_process_died_finds_the_new_state(
    restart: dict[str, Any], state: str, health: str, tools_are_listed: bool
) -> None:
    with SyncHost.from_config({"extensions": [config_entry(restart=restart)]}) as host:
        ext = host["a"]
        with pytest.raises(ExtensionGone):
            ext.call("leave", {"code": 1})
        # The thread of the loop may have restarted it already.
        if restart["strategy"] == "immediate":
            assert ext.stats.crashes == 1
        else:
            assert (ext.state, ext.health, "ext_a_echo" in host.tools) == (
                state,
                health,
                tools_are_listed,
            )
            assert ext.stats.processes == 0 and ext.stats.crashes == 1


async def test_the_next_process_starts_when_the_old_one_is_reaped() -> None:
    bus = Bus()
    events: list[tuple[str, Any]] = []
    bus.subscribe(Spawned, lambda event: events.append(("spawned", event.pid)))
    bus.subscribe(Exited, lambda event: events.append(("exited", event.pid)))
    bus.subscribe(StateChanged, lambda event: events.append(("state", event.after)))
    async with hostile_extension(restart={"strategy": "immediate"}, events=bus) as ext:
        old_pid = ext.stats.pid
        with pytest.raises(ExtensionGone):
            await ext.call("close_stdout")  # its session is over, but the process still runs
        assert ext.state == "backoff"
        await wait_until(lambda: ext.state == "ready")
        new_pid = ext.stats.pid
    order = [("state", "backoff"), ("exited", old_pid), ("state", "starting"), ("spawned", new_pid)]
    # "starting" is also the first state, before the old process.
    assert [event for event in events if event in order] == [("state", "starting"), *order]


async def test_an_extension_serves_calls_after_one_process_of_its_pool_died() -> None:
    pool = {"min": 2, "max": 2}
    restart = {"strategy": "exponential", **THIRTY_SECONDS}
    async with hostile_extension(pool=pool, restart=restart) as ext:
        await wait_until(lambda: ext.stats.processes == 2)
        try:
            await ext.call("leave", {"code": 1})
        except ExtensionGone:
            state_at_error = (ext.state, ext.health, ext.stats.processes, ext.stats.crashes)
        assert state_at_error == ("ready", "degraded", 1, 1)
        assert await ext.call("echo", 1) == 1
        try:
            await ext.call("leave", {"code": 1})
        except ExtensionGone:
            state_at_error = (ext.state, ext.health, ext.stats.processes, ext.stats.crashes)
        assert state_at_error == ("backoff", "restarting", 0, 2)


@pytest.mark.parametrize("pool_size", [1, 2])
async def test_the_breaker_is_open_when_the_crash_that_opened_it_is_raised(pool_size: int) -> None:
    config = {
        "extensions": [
            config_entry(pool={"min": pool_size, "max": pool_size}, breaker={"failures": 1})
        ]
    }
    async with exthost.Host.from_config(config) as host:
        ext = host["a"]
        await wait_until(lambda: ext.stats.processes == pool_size)
        try:
            await ext.call("leave", {"code": 1})
        except ExtensionGone:
            state_at_error = (ext.state, ext.health, ext.stats.breaker, ext.stats.processes)
            refusal_code = ext.internals.not_running_error("x").code
            tools_are_listed = "ext_a_echo" in host.tools
        assert state_at_error == ("open", "suspended", "open", 0)
        assert refusal_code == "X1170"  # the breaker is open
        assert tools_are_listed  # the call that probes must find it


async def test_the_breaker_is_open_when_the_timeout_that_opened_it_is_raised() -> None:
    async with hostile_extension(breaker={"failures": 1}) as ext:
        try:
            await ext.call("keep", timeout=0.05)
        except CallTimeout:
            state_at_error = (ext.state, ext.health, ext.stats.breaker, ext.stats.processes)
        assert state_at_error == ("open", "suspended", "open", 0)


async def test_the_failed_start_of_a_probe_is_reported_and_the_breaker_is_then_open(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nexec {' '.join(hostile_command())}\n")
    program.chmod(0o755)
    breaker: BreakerSettings = {"failures": 1, "open": "50ms"}
    async with exthost.connect([str(program)], name="x", breaker=breaker, dialect="morphir") as ext:
        await error_of(ext.call("leave", {"code": 1}))
        program.write_text("#!/bin/sh\nexit 3\n")
        # Wait until the next call is the probe: the breaker allows it, and the queue accepts it.
        await wait_until(
            lambda: (
                ext._supervisor.recovery.breaker.may_probe()
                and ext.internals.queue.make_closed_error is None
            )
        )
        try:
            await ext.call("echo")
        except HandshakeFailed:
            state_at_error = (ext.state, ext.health, ext.stats.breaker)
        assert state_at_error == ("open", "suspended", "open")


async def test_an_on_demand_extension_is_idle_after_a_failed_start(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nexec {' '.join(hostile_command())}\n")
    program.chmod(0o755)
    restart: RestartSettings = {"strategy": "on-demand"}
    async with exthost.connect([str(program)], name="x", restart=restart, dialect="morphir") as ext:
        await error_of(ext.call("leave", {"code": 1}))
        program.write_text("#!/bin/sh\nexit 3\n")
        try:
            await ext.call("echo")
        except HandshakeFailed as error:
            state_at_error = (ext.state, ext.health)
            has_cause_of_error = ext.cause is not None and ext.cause.code == error.code
        assert state_at_error == ("admitted", "idle")
        assert has_cause_of_error


async def test_calls_that_waited_in_the_queue_find_the_new_state() -> None:
    limits = {"max_in_flight": 1}
    async with hostile_extension(restart={"strategy": "never"}, limits=limits) as ext:
        states: list[str] = []

        async def call(method: str) -> None:
            try:
                await ext.call(method, {"code": 1})
            except ExtensionGone:
                states.append(ext.state)

        await asyncio.gather(call("leave"), *(call("echo") for _ in range(5)))
        assert states == ["failed"] * 6
        check_call_counts(ext, 6, gone=6)


async def test_a_call_that_may_be_sent_twice_does_not_wait_for_a_process_that_never_comes() -> None:
    async with hostile_extension(restart={"strategy": "never"}, retry="once") as ext:
        async with asyncio.timeout(10):
            error = await error_of(ext.call("leave", {"code": 1}, timeout=30))
        assert isinstance(error, ExtensionGone) and ext.state == "failed"
        check_call_counts(ext, 1, gone=1)


async def test_a_call_that_may_be_sent_twice_starts_the_next_process_on_demand() -> None:
    async with hostile_extension(
        "die_after=1", restart={"strategy": "on-demand"}, retry="once"
    ) as ext:
        for n in range(4):
            assert await ext.call("echo", n) == n
        check_call_counts(ext, 4, result=4)


@pytest.mark.parametrize("command_method", [Extension.restart, Extension.start, Extension.close])
async def test_a_command_right_after_the_error_is_carried_out(
    command_method: Callable[..., Any],
) -> None:
    async with hostile_extension(restart={"strategy": "on-demand"}) as ext:
        old_pid = ext.stats.pid
        try:
            await ext.call("leave", {"code": 1})
        except ExtensionGone:
            await command_method(ext)
        if command_method is Extension.close:
            assert ext.state == "stopped" and ext.stats.pid is None
        else:
            assert ext.state == "ready" and ext.stats.pid not in (None, old_pid)
            assert await ext.call("echo", 1) == 1
