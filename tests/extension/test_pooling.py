"""Several processes of one extension: the least loaded is asked, idle ones go, held ones stay."""

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config.extension_settings import LimitSettings, PoolSettings
from exthost.dialects.find import find_dialect
from exthost.errors import NO_EVIDENCE, CallFailed, Evidence, ExtensionGone
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
from tests.extensions.harness import NEVER, Ledger, command, failing, plain, until
from tests.extensions.proc import gone, runs


async def pids(ext: exthost.Extension, calls: int) -> list[int]:
    return list(await asyncio.gather(*(ext.call("pid") for _ in range(calls))))


def spawned(marks: Path) -> list[int]:
    return [int(word) for word in marks.read_text().split()]


@pytest.mark.both_loops
async def test_calls_are_spread_over_the_pool_within_its_limits(
    tmp_path: Path, clock: Clock
) -> None:
    marks = tmp_path / "marks"
    ledger = Ledger()
    pool = {"min": 2, "max": 3}
    async with plain(f"marks={marks}", pool=pool, events=ledger.bus) as ext:
        await until(lambda: ext.stats.processes == 2)
        assert len(set(await pids(ext, 2))) == 2  # one each
        kept = [asyncio.ensure_future(failing(ext.call("keep", timeout=600))) for _ in range(3)]
        await until(lambda: ext.stats.processes == 3)  # all were busy
        assert await ext.call("pid") in spawned(marks)  # it reads calls while it keeps others
        await clock.advance(601)
        await asyncio.gather(*kept)
        assert set(await pids(ext, 30)) == set(spawned(marks)) and len(spawned(marks)) == 3
        ledger.settle(ext)
    assert all(map(gone, spawned(marks)))
    assert follows_the_table(ledger.states)


async def test_one_of_several_dies_and_the_extension_stays_ready_while_another_comes() -> None:
    ledger = Ledger()
    restart = {"strategy": "immediate", "max_retries": 3}
    async with plain(pool={"min": 2, "max": 2}, restart=restart, events=ledger.bus) as ext:
        await until(lambda: ext.stats.processes == 2)
        dead = crash(ext)
        await until(lambda: gone(dead))
        for n in range(20):
            assert await ext.call("echo", n) == n
        await until(lambda: ext.stats.processes == 2)
        assert ext.stats.restarts == ext.stats.crashes == 1
        assert (ext.state, ext.health) == ("ready", "degraded")
        ledger.settle(ext, result=20)
    assert [after for _, after in ledger.states].count("ready") == 1


async def test_each_of_several_that_die_at_once_is_replaced() -> None:
    restart = {"strategy": "immediate", "max_retries": 9}
    async with plain(pool={"min": 3, "max": 3}, restart=restart) as ext:
        await until(lambda: ext.stats.processes == 3)
        dead = [session.lifetime.child.pid for session in ext._supervisor.processes.sessions][:2]
        for pid in dead:
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while any(map(runs, dead)):  # in one step of the loop, which sees both at once then
            assert time.monotonic() < deadline
            time.sleep(0.005)  # noqa: ASYNC251
        await until(lambda: ext.stats.crashes == 2 and ext.stats.processes == 3)


# The first process to start exits in its handshake, and the second answers once the test has
# created a file. Later processes answer at once.
ONE_FAILS = """\
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
        [sys.executable, "-S", "-E", "-c", ONE_FAILS, str(tmp_path)],
        name="x",
        dialect="morphir",
        pool={"min": 2, "max": 2},
        restart={"strategy": "immediate", "max_retries": 3},
        limits={"handshake": NEVER},
        events=bus,
    )
    opening = asyncio.ensure_future(connection.__aenter__())
    try:
        await until(lambda: len(exits) == 1)
        (tmp_path / "go").touch()
        ext = await opening
        await until(lambda: ext.stats.processes == 2)
        assert (ext.state, ext.health) == ("ready", "degraded")
        assert ext.internals.lost_process is not None and "no port is free" in str(
            ext.internals.lost_process[0]
        )
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
    """No process is ready then."""
    (tmp_path / "process-1").mkdir()  # so that the first process is the one that waits
    restart = {"strategy": "immediate", "max_retries": 3}
    argv = [sys.executable, "-S", "-E", "-c", ONE_FAILS, str(tmp_path)]
    async with exthost.connect(
        argv,
        name="x",
        dialect="morphir",
        pool={"min": 2, "max": 2},
        restart=restart,  # type: ignore[arg-type]
    ) as ext:
        assert ext.stats.processes == 1  # the other one waits for the file
        crash(ext)
        await until(lambda: ext.state == "starting")
        (tmp_path / "go").touch()
        await until(lambda: ext.stats.processes == 2)
        assert ext.health == "degraded"


async def test_a_pool_whose_processes_keep_dying_is_spawned_as_often_as_its_policy_says(
    tmp_path: Path,
) -> None:
    marks = tmp_path / "marks"
    restart = {"strategy": "immediate", "max_retries": 4}
    pool = {"min": 2, "max": 2}
    async with plain("die_after=0", f"marks={marks}", pool=pool, restart=restart) as ext:
        while ext.state != "failed":
            await failing(ext.call("echo"))
        assert len(spawned(marks)) <= 2 + 4 + 1  # both of the pool, and one for each retry
        assert isinstance(await failing(ext.call("echo")), ExtensionGone)


async def test_idle_processes_are_let_go_and_the_next_call_brings_one_back() -> None:
    ledger = Ledger()
    async with plain(limits={"idle": "200ms"}, events=ledger.bus) as ext:
        first = await ext.call("pid")
        await until(lambda: ext.state == "admitted")
        assert ext.health == "idle" and "echo" in ext.tools
        await until(lambda: gone(first))
        assert await ext.call("pid") != first
        assert ext.stats.restarts == ext.stats.crashes == 0
        ledger.settle(ext, result=2)
    assert follows_the_table(ledger.states)


async def test_a_call_under_way_a_holder_and_use_keep_it_from_being_let_go(clock: Clock) -> None:
    async with plain(limits={"idle": "10m"}) as ext:
        first = await ext.call("pid")
        kept = asyncio.ensure_future(ext.call("keep", 1, timeout=86_400))
        for _ in range(10):
            await clock.advance(180)  # three times its idle time, in all
        assert await ext.call("release") == 1 and await kept == 1
        with ext.hold():
            for _ in range(10):
                await clock.advance(180)
                assert ext.state == "ready"
        for _ in range(8):
            assert await ext.call("pid") == first
            await clock.advance(240)
        for _ in range(10):
            await clock.advance(180)
        await until(lambda: ext.state == "admitted")


async def test_a_pool_shrinks_to_its_least_and_no_further(clock: Clock) -> None:
    limits = {"idle": "10m"}
    async with plain(pool={"min": 1, "max": 3}, limits=limits) as ext:
        kept = [asyncio.ensure_future(ext.call("keep", n, timeout=86_400)) for n in range(2)]
        await until(lambda: ext.stats.processes >= 2)
        pid = ext.stats.pid
        for call in kept:
            call.cancel()
        await asyncio.wait(kept)
        for _ in range(10):
            await clock.advance(180)
        await until(lambda: ext.stats.processes == 1)
        for _ in range(10):
            await clock.advance(180)
        assert ext.state == "ready" and await ext.call("pid") == pid


async def test_many_are_started_a_few_at_a_time_and_the_slow_delay_no_other(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen, half of which never answer: those that do are ready before any limit is over."""
    monkeypatch.setattr(parallel_start, "STARTS_PER_CORE", 1)
    monkeypatch.setattr(parallel_start, "SLOT_SECONDS", 0.1)
    entries = []
    for n in range(16):
        program, *args = command(*(["hang_at=initialize"] if n % 2 else []))
        source = {"type": "process", "command": program, "args": args}
        entries.append({"name": f"e{n}", "source": source, "limits": {"handshake": "10m"}})
    host = exthost.Host.from_config({"extensions": entries})
    states: Counter[str] = Counter()
    host.events.subscribe(StateChanged, lambda change: states.update([change.after]))
    opening = asyncio.ensure_future(host.__aenter__())
    try:
        await until(lambda: states["ready"] == 8 and states["starting"] == 16)
        assert not states["failed"] and not opening.done()
        await clock.advance(601)
        await opening
        assert [ext.state for ext in host.extensions] == ["ready", "failed"] * 8
    finally:
        await asyncio.wait([opening])
        await host.__aexit__(None, None, None)


async def test_killing_an_extension_kills_every_process_of_it() -> None:
    async with plain(pool={"min": 3, "max": 3}) as ext:
        await until(lambda: ext.stats.processes == 3)
        alive = set(await pids(ext, 3))
        for pid in alive:
            os.kill(pid, signal.SIGSTOP)
        ext.kill()
        await until(lambda: all(map(gone, alive)))


async def test_a_start_that_hangs_does_not_keep_its_owner_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at when something happens or is due, and not in a circle until it has come."""
    looks = 0
    reconcile = Supervisor.reconcile

    def counted(supervisor: Supervisor) -> None:
        nonlocal looks
        looks += 1
        reconcile(supervisor)

    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nexec {' '.join(command())}\n")
    program.chmod(0o755)
    pool: PoolSettings = {"min": 1, "max": 2}
    limits: LimitSettings = {"idle": "400ms"}
    async with exthost.connect(
        [str(program)], name="x", pool=pool, limits=limits, dialect="morphir"
    ) as ext:
        program.write_text("#!/bin/sh\nexec sleep 30\n")
        kept = asyncio.ensure_future(failing(ext.call("keep", timeout=0.8)))
        await asyncio.sleep(0)
        assert await ext.call("echo", 1) == 1  # the only one is busy: another is started, and hangs
        assert await ext.call("echo", 2) == 2
        monkeypatch.setattr(Supervisor, "reconcile", counted)
        await kept
        assert looks < 30 and ext.stats.processes == 1


class StubSession:
    """Replies to each call at once, with a result that is marked as an error."""

    def __init__(self, name: str, extension: Extension) -> None:
        self.pending: dict[int, Call] = {}
        self.is_batched = False
        self.diagnostics = self
        self._name, self._queue = name, extension.internals.queue

    def send_call(self, call: Any) -> None:
        call.session = self
        self._queue.complete([(call, {"content": [], "isError": True})])

    def evidence_since(self, _: float) -> Evidence:
        return Evidence(stderr=(self._name,))

    def add_advice(self, _: CallFailed) -> None:
        pass


async def test_the_evidence_of_a_failed_tool_is_that_of_the_process_that_ran_it() -> None:
    spec = Spec(id="x", argv=("x",), pool=Pool(min=2, max=2))
    ext = Extension(spec, find_dialect("mcp"))
    ext._status.set_offer(Offer(tools=(Tool("t"),)))
    sessions: list[Any] = [StubSession("first", ext), StubSession("second", ext)]
    for session in sessions:
        ext.internals.queue.attach(session)
    errors = [await failing(ext.call_tool("t")) for _ in range(2)]
    assert {error.evidence.stderr for error in errors} == {("first",), ("second",)}
    result = await ext.call_tool("t", check=False)
    assert (
        ext.internals.calls.tool_error(result, "t").evidence == NO_EVIDENCE
    )  # of whichever process
