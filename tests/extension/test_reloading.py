"""Restarting or replacing an extension loses no call.

`ext.restart()` starts a new process, sends it the new calls, and ends the old process when that has
answered its calls. `host.replace(spec)` does the same with a new extension of the same name, which
may have other settings. The program is the hostile extension of the tests: `echo` returns its
argument, and `keep` is answered only after `release`.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config import spec_from_mapping
from exthost.errors import CallTimeout, ExtensionGone, ExthostError, HandshakeFailed, UsageError
from exthost.extension.extension import Extension
from exthost.model.messages import Request
from tests.dialects.requirements import shows
from tests.extension.test_restarting import crash, follows_the_table
from tests.extensions.clock import Clock
from tests.extensions.harness import (
    HOSTILE,
    ONE_HOUR,
    Ledger,
    closed_at_end,
    error_of,
    hostile_command,
    hostile_extension,
    pid_of,
    unstarted_extension,
    wait_until,
)
from tests.extensions.proc import is_gone, our_processes

# The maximum of calls in flight. Only a busy machine reaches it.
MAX_IN_FLIGHT = 300

CLOSED_DURING_CALL = "X1005"


class Load:
    """Makes this many calls a second inside an `async with` block, and counts how they ended."""

    def __init__(self, call: Any, per_second: int) -> None:
        self._call = call
        self._per_second = per_second
        self.calls_made = 0
        self.ends: Counter[str] = Counter()
        self._calls: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Load":
        self._is_active = True
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_active = False
        await self._task
        if self._calls:
            await asyncio.wait(self._calls)

    async def _run(self) -> None:
        began = time.monotonic()
        while self._is_active:
            due = int((time.monotonic() - began) * self._per_second) - self.calls_made
            # A slow machine gets fewer calls, so that the number in flight is limited.
            for _ in range(min(due, MAX_IN_FLIGHT - len(self._calls))):
                self.calls_made += 1
                task = asyncio.ensure_future(self._make_call(self.calls_made))
                self._calls.add(task)
                task.add_done_callback(self._calls.discard)
            await asyncio.sleep(0.005)

    async def _make_call(self, n: int) -> None:
        try:
            answer = await self._call(n)
        except ExthostError as error:
            self.ends[f"{error.code} {error.message}"] += 1
        else:
            self.ends["answered" if answer == {"n": n} else f"wrong: {answer!r}"] += 1


async def data_of(call: Awaitable[exthost.ToolResult]) -> Any:
    return (await call).data


def config_entry(name: str, program: Path | None = None) -> dict[str, Any]:
    argv = hostile_command() if program is None else [str(program)]
    source = {"type": "process", "command": argv[0], "args": argv[1:]}
    return {"name": name, "source": source}


@pytest.mark.both_loops
async def test_restarts_under_a_thousand_calls_a_second_lose_no_call() -> None:
    ledger = Ledger()
    async with hostile_extension(events=ledger.bus) as ext:
        async with Load(lambda n: data_of(ext.call_tool("echo", {"n": n})), 1000) as load:
            pids = {pid_of(ext)}
            for _ in range(4):
                before = load.calls_made
                await wait_until(lambda before=before: load.calls_made > before + 200)  # type: ignore[misc]
                await ext.restart()
                pids.add(pid_of(ext))
        assert len(pids) == 5
        assert load.ends == {"answered": load.calls_made} and load.calls_made > 800
        ledger.check_calls(ext, result=load.calls_made)
        await wait_until(lambda: len(set(our_processes()) & pids) == 1)  # the old ones have ended
    assert follows_the_table(ledger.states)


@shows("nexo-watch-03")
async def test_a_replaced_extension_loses_no_call_of_a_thousand_a_second() -> None:
    async with exthost.Host.from_config({"extensions": [config_entry("a")]}) as host:

        async def call(n: int) -> Any:
            return (await host.call_tool("ext_a_echo", {"n": n})).data

        async with Load(call, 1000) as load:
            for _ in range(3):
                before = load.calls_made
                await wait_until(lambda before=before: load.calls_made > before + 200)  # type: ignore[misc]
                old_extension = host["a"]
                await host.replace(spec_from_mapping(config_entry("a")))
                assert host["a"] is not old_extension
        assert load.ends == {"answered": load.calls_made} and load.calls_made > 600


@shows("nexo-watch-03")
async def test_a_replaced_extension_answers_a_call_that_outlives_all_shutdown_steps(
    clock: Clock,
) -> None:
    """The shutdown of the old extension begins only when it has answered its calls."""
    async with exthost.Host.from_config({"extensions": [config_entry("a")]}) as host:
        old_extension = host["a"]
        pid = pid_of(old_extension)
        kept_call = asyncio.ensure_future(old_extension.call("keep", "late", timeout=3600))
        await wait_until(lambda: old_extension.stats.in_flight == 1)
        session = old_extension.internals.queue.sessions[0]
        await host.replace(spec_from_mapping(config_entry("a")))
        for _ in range(10):  # each would end another shutdown step
            await clock.advance(60)
            assert (await host.call_tool("ext_a_echo", {"n": 1})).data == {"n": 1}
        assert not kept_call.done() and not is_gone(pid)
        session.internal.send(Request("release", None))
        assert await kept_call == "late"
        await wait_until(lambda: is_gone(pid))
        await wait_until(lambda: old_extension.state == "stopped")
        assert host["a"].state == "ready"


async def test_closing_the_host_does_not_wait_for_a_replaced_extension() -> None:
    async with exthost.Host.from_config({"extensions": [config_entry("a")]}) as host:
        old_extension = host["a"]
        # This call lasts longer than any test.
        kept_call = asyncio.ensure_future(error_of(old_extension.call("keep", timeout=3600)))
        await wait_until(lambda: old_extension.stats.in_flight == 1)
        await host.replace(spec_from_mapping(config_entry("a")))
    assert (await kept_call).kind == "ExtensionGone"


def write_program(folder: Path) -> Path:
    program = folder / "program"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -S -E {HOSTILE}\n")
    program.chmod(0o755)
    return program


async def test_a_restart_that_fails_keeps_the_old_process_and_is_reported(
    tmp_path: Path,
) -> None:
    program = write_program(tmp_path)
    ledger = Ledger()
    async with exthost.connect(
        [str(program)], name="f", events=ledger.bus, dialect="morphir"
    ) as ext:
        old_pid = pid_of(ext)
        program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
        async with Load(lambda n: ext.call("echo", {"n": n}), 500) as load:
            await wait_until(lambda: load.calls_made > 50)
            error = await error_of(ext.restart())
        assert isinstance(error, HandshakeFailed) and "old process continues" in error.help
        assert error.evidence.stderr == ("broken",)
        assert load.ends == {"answered": load.calls_made}
        assert (ext.state, ext.health, ext.stats.pid) == ("ready", "running", old_pid)
        assert ext.cause is None
        write_program(tmp_path)
        await ext.restart()
        assert ext.stats.pid != old_pid
    assert [after for _, after in ledger.states].count("ready") == 1


async def test_a_restart_that_fails_does_not_prevent_that_a_lost_process_is_replaced(
    tmp_path: Path,
) -> None:
    program = write_program(tmp_path)
    async with exthost.connect(
        [str(program)],
        dialect="morphir",
        pool={"min": 2, "max": 2},
        restart={"strategy": "exponential", "initial_delay": "200ms", "max_retries": 1000},
    ) as ext:
        await wait_until(lambda: ext.stats.processes == 2)
        program.write_text("#!/bin/sh\nexit 3\n")
        crash(ext)
        await wait_until(lambda: ext.stats.processes == 1)
        await error_of(ext.restart())
        write_program(tmp_path)
        await wait_until(lambda: ext.stats.processes == 2)


async def test_calls_wait_if_the_old_process_dies_while_the_new_one_starts() -> None:
    ledger = Ledger()
    async with hostile_extension(events=ledger.bus) as ext:
        restarting = asyncio.ensure_future(ext.restart())
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # now the new process is starting
        dead_pid = crash(ext)
        calls = [asyncio.ensure_future(ext.call("echo", n)) for n in range(5)]
        await restarting
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert ext.state == "ready" and ext.stats.pid != dead_pid
        assert all(end == n or isinstance(end, ExthostError) for n, end in enumerate(ends))
        # The crash is not counted if the new process was ready before: the old one was retired
        # then.
        assert ext.stats.crashes <= 1 and ext.health == "running"
        ledger.check_calls(ext)
    assert follows_the_table(ledger.states)


async def test_draining_waits_for_calls_in_flight_within_the_stop_limit() -> None:
    async with hostile_extension(limits={"stop": "1h"}) as ext:
        quick_calls = [asyncio.ensure_future(ext.call("echo", n)) for n in range(20)]
        kept_call = asyncio.ensure_future(error_of(ext.call("keep", timeout=0.2)))
        await asyncio.sleep(0)
        await ext.drain()
        assert await asyncio.gather(*quick_calls) == list(range(20))
        assert isinstance(await kept_call, CallTimeout)  # the timeout of the call was shorter
        assert (await error_of(ext.call("echo"))).code == "X1006"  # the extension was stopped
    async with hostile_extension(limits={"stop": "200ms"}) as ext:
        kept_call = asyncio.ensure_future(error_of(ext.call("keep", timeout=3600)))
        await asyncio.sleep(0)
        began = time.monotonic()
        await ext.drain()
        assert time.monotonic() - began >= 0.2
        assert (await kept_call).code == CLOSED_DURING_CALL


async def test_draining_waits_for_the_call_of_a_process_that_takes_only_one() -> None:
    limits = {"call": ONE_HOUR, "stop": ONE_HOUR}
    ext = unstarted_extension(isolation="call", start_method="execute", limits=limits)
    async with closed_at_end(ext):
        await ext.start()
        kept_call = asyncio.ensure_future(error_of(ext.call("keep", timeout=0.2)))
        waiting_call = asyncio.ensure_future(error_of(ext.call("echo")))
        await asyncio.sleep(0)
        await asyncio.wait_for(ext.drain(), 150)
        assert isinstance(await kept_call, CallTimeout)
        # No process is started for a call that waits.
        assert (await waiting_call).code == "X1006"
        assert ext.state == "stopped" and ext.stats.processes == 0


async def test_draining_ends_although_calls_come_all_the_time() -> None:
    async def call_until_stopped(ext: Extension) -> str:
        while True:
            try:
                await ext.call("echo")
            except ExthostError as error:
                return error.code

    limits = {"call": ONE_HOUR, "stop": ONE_HOUR, "max_in_flight": 1}
    async with hostile_extension(limits=limits) as ext:
        callers = [asyncio.ensure_future(call_until_stopped(ext)) for _ in range(5)]
        await asyncio.sleep(0)
        await asyncio.wait_for(ext.drain(), 150)
        assert set(await asyncio.gather(*callers)) == {"X1006"}


async def test_draining_ends_if_the_process_dies_with_a_call_that_may_be_sent_again() -> None:
    limits = {"call": ONE_HOUR, "stop": ONE_HOUR}
    async with hostile_extension(retry="once", limits=limits) as ext:
        kept_call = asyncio.ensure_future(error_of(ext.call("keep")))
        await wait_until(lambda: ext.stats.in_flight == 1)
        draining = asyncio.ensure_future(ext.drain())
        await wait_until(lambda: ext.state == "draining")
        crash(ext)
        await asyncio.wait_for(draining, 150)
        assert isinstance(await kept_call, ExtensionGone)
        assert ext.state == "stopped" and ext.stats.processes == 0


@pytest.mark.parametrize("patience", ["1s", float("nan"), [1]])
async def test_an_invalid_patience_is_reported_and_the_extension_continues(
    patience: Any,
) -> None:
    async with hostile_extension() as ext:
        error = await asyncio.wait_for(error_of(ext.close(patience=patience)), 60)
        assert isinstance(error, UsageError) and error.code == "X1318"
        assert error.message.startswith("patience must be a number of seconds")
        assert ext.state == "ready"
        await ext.restart()
        assert await ext.call("echo", 1) == 1


async def test_a_close_with_less_patience_ends_an_earlier_close() -> None:
    async with hostile_extension() as ext:
        kept_call = asyncio.ensure_future(error_of(ext.call("keep", timeout=3600)))
        await asyncio.sleep(0)
        draining = asyncio.ensure_future(ext.close(patience=None))
        await wait_until(lambda: ext.state == "draining")
        await ext.close()
        await draining
        assert (await kept_call).code == CLOSED_DURING_CALL


async def test_a_health_request_to_a_replaced_process_says_nothing_about_the_new_one(
    clock: Clock,
) -> None:
    behaviour = json.dumps({"silent": ["ping"]})  # the request for a health report in MCP
    command = [sys.executable, "-S", "-E", str(HOSTILE.parent / "mcp_child.py"), behaviour]
    async with exthost.connect(command, dialect="mcp", name="child") as ext:
        old_check = asyncio.ensure_future(error_of(ext.check_health(timeout=600)))
        await wait_until(lambda: ext.stats.in_flight == 1)
        await ext.restart()
        new_check = asyncio.ensure_future(error_of(ext.check_health(timeout=1200)))
        await wait_until(lambda: ext.stats.in_flight == 2)
        await clock.advance(601)
        assert isinstance(await old_check, CallTimeout) and ext.health == "running"
        await clock.advance(601)
        assert isinstance(await new_check, CallTimeout) and ext.health == "unhealthy"
