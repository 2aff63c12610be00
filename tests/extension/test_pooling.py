"""A pool of processes of one extension: calls are spread, lost processes are replaced, and idle
processes are ended.

The program is the hostile extension of the tests: `pid` returns the pid of the process that got the
call, `keep` is answered only after `release`, and the flag `marks=FILE` lets each process write its
pid to a file when it starts.
"""

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import exthost
from exthost.config.extension_settings import LimitSettings, PoolSettings
from exthost.dialects.find import find_dialect
from exthost.errors import NO_EVIDENCE, CallFailed, Evidence, ExtensionGone, ExthostError
from exthost.events import Bus, Exited, ProcessLost, StateChanged
from exthost.extension import parallel_start
from exthost.extension.extension import Extension
from exthost.extension.supervisor import Supervisor
from exthost.faces.cli.event_lines import event_line
from exthost.model.offer import Offer, Tool
from exthost.model.spec import Pool, Spec
from exthost.session.call import Call
from tests.extension.test_restarting import crash, follows_the_table
from tests.extensions.clock import Clock
from tests.extensions.harness import (
    ONE_HOUR,
    Ledger,
    error_of,
    extension_without_namespace,
    hostile_command,
    hostile_extension,
    wait_until,
)
from tests.extensions.proc import is_gone, is_running


async def call_for_pids(ext: exthost.Extension, calls: int) -> list[int]:
    return list(await asyncio.gather(*(ext.call("pid") for _ in range(calls))))


def read_pids(starts_file: Path) -> list[int]:
    return [int(word) for word in starts_file.read_text().split()]


@pytest.mark.both_loops
async def test_calls_are_spread_over_the_pool_within_its_limits(
    tmp_path: Path, clock: Clock
) -> None:
    starts_file = tmp_path / "starts"
    ledger = Ledger()
    pool = {"min": 2, "max": 3}
    async with extension_without_namespace(
        f"marks={starts_file}", pool=pool, events=ledger.bus
    ) as ext:
        await wait_until(lambda: ext.stats.processes == 2)
        assert len(set(await call_for_pids(ext, 2))) == 2  # each process got one call
        kept_calls = [
            asyncio.ensure_future(error_of(ext.call("keep", timeout=600))) for _ in range(3)
        ]
        # A third process was started because both were busy.
        await wait_until(lambda: ext.stats.processes == 3)
        # A process answers calls while it keeps others.
        assert await ext.call("pid") in read_pids(starts_file)
        await clock.advance(601)
        await asyncio.gather(*kept_calls)
        started_pids = read_pids(starts_file)
        assert len(started_pids) == 3
        assert set(await call_for_pids(ext, 30)) == set(started_pids)
        ledger.check_calls(ext)
    assert all(map(is_gone, read_pids(starts_file)))
    assert follows_the_table(ledger.states)


async def test_the_extension_stays_ready_while_a_dead_process_is_replaced() -> None:
    ledger = Ledger()
    restart = {"strategy": "immediate", "max_retries": 3}
    async with extension_without_namespace(
        pool={"min": 2, "max": 2}, restart=restart, events=ledger.bus
    ) as ext:
        await wait_until(lambda: ext.stats.processes == 2)
        dead_pid = crash(ext)
        await wait_until(lambda: is_gone(dead_pid))
        for n in range(20):
            assert await ext.call("echo", n) == n
        await wait_until(lambda: ext.stats.processes == 2)
        assert ext.stats.restarts == ext.stats.crashes == 1
        assert (ext.state, ext.health) == ("ready", "degraded")
        ledger.check_calls(ext, result=20)
    assert [after for _, after in ledger.states].count("ready") == 1


def kill_at_once(pids: list[int]) -> None:
    """Kill these processes, and wait until they have ended. The event loop does not run meanwhile,
    so that it sees all exits at once."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def test_two_processes_that_die_at_the_same_time_are_both_replaced() -> None:
    restart = {"strategy": "immediate", "max_retries": 9}
    async with extension_without_namespace(pool={"min": 3, "max": 3}, restart=restart) as ext:
        await wait_until(lambda: ext.stats.processes == 3)
        sessions = ext._supervisor.processes.sessions
        dead_pids = [session.lifetime.child.pid for session in sessions[:2]]
        kill_at_once(dead_pids)
        await wait_until(lambda: ext.stats.crashes == 2 and ext.stats.processes == 3)


RESTART_AFTER_AN_HOUR = {
    "strategy": "exponential",
    "initial_delay": "1h",
    "max_delay": "1h",
    "max_retries": 9,
}


async def test_a_call_whose_process_ended_is_sent_again_to_a_living_process_of_the_pool() -> None:
    ledger = Ledger()
    async with extension_without_namespace(
        pool={"min": 3, "max": 3},
        retry="once",
        restart=RESTART_AFTER_AN_HOUR,
        events=ledger.bus,
    ) as ext:
        await wait_until(lambda: ext.stats.processes == 3)
        kept_call = asyncio.ensure_future(ext.call("keep", "kept"))
        await wait_until(lambda: ext.stats.in_flight == 1)
        sessions = sorted(ext._queue.sessions, key=lambda session: -len(session.pending))
        dead_pids = [session.lifetime.child.pid for session in sessions[:2]]
        kill_at_once(dead_pids)
        await wait_until(lambda: len(sessions[2].pending) == 1)
        assert await ext.call("release") == 1
        assert await kept_call == "kept"
        ledger.check_calls(ext, result=2)


async def test_a_call_that_ended_two_processes_of_a_pool_fails_with_both_reasons() -> None:
    ledger = Ledger()
    async with hostile_extension(
        pool={"min": 3, "max": 3},
        retry="once",
        restart=RESTART_AFTER_AN_HOUR,
        events=ledger.bus,
    ) as ext:
        await wait_until(lambda: ext.stats.processes == 3)
        error = await error_of(ext.call("leave", {"code": 1}))
        assert isinstance(error, ExtensionGone) and "sent once more" in error.message
        assert ext.stats.crashes == 2 and ext.stats.processes == 1
        assert await ext.call("echo", 1) == 1
        ledger.check_calls(ext, result=1, gone=1)


# The first process to start exits in its handshake, and the second answers once the test has
# created a file. Later processes answer at once.
FIRST_PROCESS_FAILS = """\
import json, os, sys, time
folder = sys.argv[1]
for number in range(1, 100):
    try:
        os.mkdir(os.path.join(folder, f"process-{number}"))
        break
    except FileExistsError:
        pass
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        if number == 1:
            sys.exit("no port is free")
        while number == 2 and not os.path.exists(os.path.join(folder, "go")):
            time.sleep(0.005)
    result = [] if request["method"] == "capabilities" else {}
    if "id" in request:
        print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""


async def test_a_process_that_fails_while_the_first_still_starts_is_replaced_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    exits: list[Exited] = []
    lost: list[ProcessLost] = []
    bus.subscribe(Exited, exits.append)
    bus.subscribe(ProcessLost, lost.append)
    connection = exthost.connect(
        [sys.executable, "-S", "-E", "-c", FIRST_PROCESS_FAILS, str(tmp_path)],
        name="x",
        dialect="morphir",
        pool={"min": 2, "max": 2},
        restart={"strategy": "immediate", "max_retries": 3},
        limits={"handshake": ONE_HOUR},
        events=bus,
    )
    opening = asyncio.ensure_future(connection.__aenter__())
    try:
        await wait_until(lambda: len(exits) == 1)
        (tmp_path / "go").touch()
        ext = await opening
        await wait_until(lambda: ext.stats.processes == 2)
        assert (ext.state, ext.health) == ("ready", "degraded")
        assert ext.internals.lost_process is not None
        lost_process_error = ext.internals.lost_process[0]
        assert "no port is free" in str(lost_process_error)
        (event,) = lost
        assert (event.extension, event.processes, event.delay) == ("x", 1, 0.0)
        assert event_line(event).startswith("x: it lost a process of its pool: ")
        assert "it lost a process of its pool" in caplog.text and "1 left" in caplog.text
        await ext.restart()
        assert ext.health == "running" and ext.internals.lost_process is None
    finally:
        await asyncio.wait([opening])
        await connection.__aexit__(None, None, None)


async def test_a_process_that_ends_while_another_one_starts_is_replaced(tmp_path: Path) -> None:
    """For a moment no process is ready."""
    (tmp_path / "process-1").mkdir()  # so that the first process to start has the number 2
    restart = {"strategy": "immediate", "max_retries": 3}
    argv = [sys.executable, "-S", "-E", "-c", FIRST_PROCESS_FAILS, str(tmp_path)]
    async with exthost.connect(
        argv,
        name="x",
        dialect="morphir",
        pool={"min": 2, "max": 2},
        restart=restart,  # type: ignore[arg-type]
    ) as ext:
        assert ext.stats.processes == 1  # the other process waits for the file
        crash(ext)
        await wait_until(lambda: ext.state == "starting")
        (tmp_path / "go").touch()
        await wait_until(lambda: ext.stats.processes == 2)
        assert ext.health == "degraded"


async def test_restarts_of_a_pool_whose_processes_all_die_are_limited(
    tmp_path: Path,
) -> None:
    starts_file = tmp_path / "starts"
    restart = {"strategy": "immediate", "max_retries": 4}
    pool = {"min": 2, "max": 2}
    async with extension_without_namespace(
        "die_after=0", f"marks={starts_file}", pool=pool, restart=restart
    ) as ext:
        while ext.state != "failed":
            await error_of(ext.call("echo"))
        # The two of the pool, one for each retry, and one.
        assert len(read_pids(starts_file)) <= 2 + 4 + 1
        assert isinstance(await error_of(ext.call("echo")), ExtensionGone)


async def test_idle_processes_are_ended_and_the_next_call_starts_one() -> None:
    ledger = Ledger()
    async with extension_without_namespace(limits={"idle": "200ms"}, events=ledger.bus) as ext:
        first_pid = await ext.call("pid")
        await wait_until(lambda: ext.state == "admitted")
        assert ext.health == "idle" and "echo" in ext.tools
        await wait_until(lambda: is_gone(first_pid))
        assert await ext.call("pid") != first_pid
        assert ext.stats.restarts == ext.stats.crashes == 0
        ledger.check_calls(ext, result=2)
    assert follows_the_table(ledger.states)


async def advance_30_minutes(clock: Clock) -> None:
    """Move the clock in steps, between which the loop runs, by three times an idle limit of 10m."""
    for _ in range(10):
        await clock.advance(180)


async def test_an_extension_with_calls_or_a_hold_does_not_become_idle(clock: Clock) -> None:
    async with extension_without_namespace(limits={"idle": "10m"}) as ext:
        first_pid = await ext.call("pid")
        kept_call = asyncio.ensure_future(ext.call("keep", 1, timeout=86_400))
        await advance_30_minutes(clock)
        assert await ext.call("release") == 1 and await kept_call == 1
        with ext.hold():  # the user keeps the process alive
            await advance_30_minutes(clock)
            assert ext.state == "ready"
        for _ in range(8):  # a call every 4 minutes
            assert await ext.call("pid") == first_pid
            await clock.advance(240)
        await advance_30_minutes(clock)
        await wait_until(lambda: ext.state == "admitted")  # without a process


async def test_a_pool_shrinks_to_its_minimum(clock: Clock) -> None:
    limits = {"idle": "10m"}
    async with extension_without_namespace(pool={"min": 1, "max": 3}, limits=limits) as ext:
        kept_calls = [asyncio.ensure_future(ext.call("keep", n, timeout=86_400)) for n in range(2)]
        await wait_until(lambda: ext.stats.processes >= 2)
        pid = ext.stats.pid
        for call in kept_calls:
            call.cancel()
        await asyncio.wait(kept_calls)
        await advance_30_minutes(clock)
        await wait_until(lambda: ext.stats.processes == 1)
        await advance_30_minutes(clock)
        assert ext.state == "ready" and await ext.call("pid") == pid


async def test_extensions_with_slow_starts_do_not_delay_the_others(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight of sixteen extensions never answer. The others are ready before any limit is
    reached."""
    # One extension per core starts at a time, and a start that takes longer lets the next begin.
    monkeypatch.setattr(parallel_start, "STARTS_PER_CORE", 1)
    monkeypatch.setattr(parallel_start, "SLOT_SECONDS", 0.1)
    entries = []
    for n in range(16):
        program, *args = hostile_command(*(["hang_at=initialize"] if n % 2 else []))
        source = {"type": "process", "command": program, "args": args}
        entries.append({"name": f"e{n}", "source": source, "limits": {"handshake": "10m"}})
    host = exthost.Host.from_config({"extensions": entries})
    states: Counter[str] = Counter()
    host.events.subscribe(StateChanged, lambda change: states.update([change.after]))
    opening = asyncio.ensure_future(host.__aenter__())
    try:
        await wait_until(lambda: states["ready"] == 8 and states["starting"] == 16)
        assert not states["failed"] and not opening.done()
        await clock.advance(601)
        await opening
        assert [ext.state for ext in host.extensions] == ["ready", "failed"] * 8
    finally:
        await asyncio.wait([opening])
        await host.__aexit__(None, None, None)


async def test_killing_an_extension_kills_all_processes_of_its_pool() -> None:
    async with extension_without_namespace(pool={"min": 3, "max": 3}) as ext:
        await wait_until(lambda: ext.stats.processes == 3)
        stopped_pids = set(await call_for_pids(ext, 3))
        for pid in stopped_pids:
            os.kill(pid, signal.SIGSTOP)  # a stopped process reacts only to SIGKILL
        ext.kill()
        await wait_until(lambda: all(map(is_gone, stopped_pids)))


async def test_the_supervisor_does_not_poll_during_a_start_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor runs only when something happens or is due."""
    runs_of_reconcile = 0
    reconcile = Supervisor.reconcile

    def count_and_reconcile(supervisor: Supervisor) -> None:
        nonlocal runs_of_reconcile
        runs_of_reconcile += 1
        reconcile(supervisor)

    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nexec {' '.join(hostile_command())}\n")
    program.chmod(0o755)
    pool: PoolSettings = {"min": 1, "max": 2}
    limits: LimitSettings = {"idle": "400ms"}
    async with exthost.connect(
        [str(program)], name="x", pool=pool, limits=limits, dialect="morphir"
    ) as ext:
        program.write_text("#!/bin/sh\nexec sleep 30\n")
        kept_calls = asyncio.ensure_future(error_of(ext.call("keep", timeout=0.8)))
        await asyncio.sleep(0)
        # The only process is busy, so another one is started, and hangs.
        assert await ext.call("echo", 1) == 1
        assert await ext.call("echo", 2) == 2
        monkeypatch.setattr(Supervisor, "reconcile", count_and_reconcile)
        await kept_calls
        assert runs_of_reconcile < 30 and ext.stats.processes == 1


class StubSession:
    """Replies to each call at once, with a result that is marked as an error."""

    def __init__(self, name: str, extension: Extension) -> None:
        self.pending: dict[int, Call] = {}
        self.is_batched = False
        self.diagnostics = self
        self.lifetime = SimpleNamespace(child=SimpleNamespace(is_node_silent=False))
        self._name, self._queue = name, extension.internals.queue

    def send_call(self, call: Any) -> None:
        call.session = self
        self._queue.complete([(call, {"content": [], "isError": True})])

    def evidence_since(self, _: float) -> Evidence:
        return Evidence(stderr=(self._name,))

    def add_advice(self, _: CallFailed) -> None:
        pass

    def hide_in_error(self, _: ExthostError) -> None:
        pass


async def test_the_error_of_a_failed_tool_has_the_evidence_of_its_process() -> None:
    spec = Spec(id="x", argv=("x",), pool=Pool(min=2, max=2))
    ext = Extension(spec, find_dialect("mcp"))
    ext._status.set_offer(Offer(tools=(Tool("t"),)))
    sessions: list[Any] = [StubSession("first", ext), StubSession("second", ext)]
    for session in sessions:
        ext.internals.queue.attach(session)
    errors = [await error_of(ext.call_tool("t")) for _ in range(2)]
    assert {error.evidence.stderr for error in errors} == {("first",), ("second",)}
    # With check=False there is a result instead of an error. It does not say which process ran the
    # tool, so the error that is made from it later has no evidence.
    result = await ext.call_tool("t", check=False)
    assert ext.internals.calls.tool_error(result, "t").evidence == NO_EVIDENCE
