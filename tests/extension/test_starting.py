"""Starting: one process for many callers, the checks before it, failures that no retry can cure."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from exthost.config import spec_from_mapping
from exthost.dialects.morphir.dialect import DIALECT
from exthost.errors import CallTimeout, HandshakeFailed, NotFound, Refused, SpawnFailed, UsageError
from exthost.events import Bus, OfferChanged, Spawned
from exthost.extension.call_queue import CallQueue
from exthost.extension.extension import Extension
from exthost.model.offer import Tool
from exthost.model.spec import Limits, Spec
from exthost.session.call import Call
from tests.dialects.requirements import shows
from tests.extensions.clock import Clock
from tests.extensions.harness import (
    Ledger,
    accounted,
    closing,
    command,
    failing,
    hostile,
    unstarted,
    until,
)


def spawns(bus: Bus) -> list[Spawned]:
    observed: list[Spawned] = []
    bus.subscribe(Spawned, observed.append)
    return observed


@pytest.mark.both_loops
async def test_a_hundred_concurrent_first_calls_start_one_process() -> None:
    ledger = Ledger()
    spawned = spawns(ledger.bus)
    async with closing(unstarted(bus=ledger.bus, lifetime="plain")) as ext:
        pids = await asyncio.gather(*(ext.call("pid") for _ in range(100)))
        assert len(set(pids)) == len(spawned) == 1
        assert spawned[0].pid == pids[0] == ext.stats.pid
        ledger.settle(ext, result=100)


async def test_a_hundred_concurrent_starts_are_one_start() -> None:
    bus = Bus()
    spawned = spawns(bus)
    async with closing(unstarted(bus=bus)) as ext:
        await asyncio.gather(*(ext.start() for _ in range(100)))
        assert len(spawned) == 1 and ext.state == "ready" and ext.health == "running"


async def test_first_calls_that_were_cancelled_leave_a_ready_extension() -> None:
    async with closing(unstarted()) as ext:
        calls = [asyncio.ensure_future(ext.call("echo", n)) for n in range(10)]
        await asyncio.sleep(0)
        for call in calls[:5]:
            call.cancel()
        assert await asyncio.gather(*calls[5:]) == list(range(5, 10))
        accounted(ext, 10, result=5, cancelled=5)


async def test_every_call_that_waited_for_a_failed_start_gets_the_reason() -> None:
    ledger = Ledger()
    async with closing(unstarted("die_at=initialize", bus=ledger.bus)) as ext:
        errors = await asyncio.gather(*(failing(ext.call("echo", n)) for n in range(20)))
        assert {(error.kind, error.code) for error in errors} == {("HandshakeFailed", "X0501")}
        assert len({id(error) for error in errors}) == 20
        assert ext.state == "failed" and ext.health == "failed"
        assert ext.cause is not None and ext.cause.code == "X0501"
        ledger.settle(ext)


def lost(argv: list[str], **settings: Any) -> Extension:
    source = {"type": "process", "command": argv[0], "args": argv[1:]}
    spec = spec_from_mapping({"name": "lost", "source": source, **settings})
    return Extension(spec, DIALECT, bus=settings.get("bus"))


@pytest.mark.parametrize(
    ("argv", "settings", "code"),
    [
        (["/no/such/program"], {}, "X0401"),
        (command(), {"cwd": "/no/such/folder"}, "X0402"),
        (["/etc/hostname"], {}, "X0404"),
    ],
)
async def test_a_permanent_error_is_not_tried_again(
    argv: list[str], settings: dict[str, Any], code: str
) -> None:
    restart = {"strategy": "immediate", "max_retries": 5}
    async with closing(lost(argv, restart=restart, **settings)) as ext:
        error = await failing(ext.start())
        assert isinstance(error, SpawnFailed) and error.code == code
        assert ext.state == "failed" and ext.stats.restarts == 0
        assert (await failing(ext.call("echo"))).code == code


async def test_a_first_start_that_fails_is_not_repeated_even_where_crashes_would_be(
    tmp_path: Path,
) -> None:
    marks = tmp_path / "marks"
    restart = {"strategy": "immediate", "max_retries": 5}
    ext = unstarted("die_at=initialize", f"marks={marks}", restart=restart)
    async with closing(ext):
        assert isinstance(await failing(ext.start()), HandshakeFailed)
        assert len(marks.read_text().split()) == 1


async def test_a_start_that_fails_on_the_hosts_own_folder_leaves_no_call_hanging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong in preparing a start, those who wait for it are told."""
    vanishing = tmp_path / "vanishing"
    vanishing.mkdir()
    monkeypatch.chdir(vanishing)
    vanishing.rmdir()
    async with closing(unstarted()) as ext:
        ends = await asyncio.gather(failing(ext.start()), failing(ext.call("echo")))
        assert {error.kind for error in ends} == {"SpawnFailed"}
        assert ext.state == "failed"


async def test_restart_is_the_way_out_of_failed(tmp_path: Path) -> None:
    program = tmp_path / "late.py"
    source = {"type": "process", "command": str(program)}
    ext = Extension(spec_from_mapping({"name": "late", "source": source}), DIALECT)
    async with closing(ext):
        assert (await failing(ext.start())).code == "X0401"
        assert (await failing(ext.start())).code == "X0401"  # starting is not asking again
        program.write_text("#!/bin/sh\nexec " + " ".join(command()) + "\n")
        program.chmod(0o755)
        await ext.restart()
        assert ext.state == "ready" and ext.cause is None
        assert await ext.call("echo", 1) == 1
        accounted(ext, 1, result=1)


async def test_a_missing_requirement_refuses_it_until_it_exists() -> None:
    from dataclasses import replace

    from exthost.model.spec import Requires

    program, *args = command()
    source = {"type": "process", "command": program, "args": args}
    spec = spec_from_mapping({"name": "needy", "source": source})
    environ = {"PATH": "/bin:/usr/bin"}
    wanted = replace(spec, requires=Requires(env=("NEEDED",)))
    async with closing(Extension(wanted, DIALECT, environ=environ)) as ext:
        error = await failing(ext.call("echo"))
        assert isinstance(error, Refused) and "NEEDED" in str(error)
        assert ext.state == "refused"
        environ["NEEDED"] = "1"
        await ext.restart()
        assert (await ext.call("environment"))["NEEDED"] == "1"


async def test_an_uncheckable_extension_is_refused_and_can_be_requested_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise OSError("it vanished while it was looked at")

    async with closing(unstarted()) as ext:
        with monkeypatch.context() as patched:
            patched.setattr("exthost.extension.startup.admit", fail)
            error = await failing(ext.call("echo"))
            assert isinstance(error, Refused) and error.code == "X0389", error
            assert ext.state == "refused" and ext.cause is not None
        await ext.restart()
        assert await ext.call("echo", 1) == 1


async def test_tools_are_known_after_the_start_and_checked_before_the_call() -> None:
    bus = Bus()
    changes: list[OfferChanged] = []
    bus.subscribe(OfferChanged, changes.append)
    async with closing(unstarted(bus=bus)) as ext:
        assert dict(ext.tools) == {}
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}  # it starts for that
        assert set(ext.tools) == {"echo", "add"}
        assert changes == [OfferChanged("hostile", ("add", "echo"), ())]
        nearly = await failing(ext.call_tool("ech"))
        assert isinstance(nearly, NotFound) and nearly.help == "did you mean 'echo'?"
        unknown = await failing(ext.call_tool("weather"))
        assert isinstance(unknown, NotFound)
        assert unknown.help.startswith(
            "its tools are: 'echo', 'add'; for a method that is not a tool"
        )
        assert isinstance(await failing(ext.call_tool("add", {"a": "x"})), UsageError)
        accounted(ext, 1, result=1)  # neither of those was sent
        await ext.restart()
        assert len(changes) == 1  # the same offer is no change


def hanging(*tools: Tool) -> Extension:
    """Return an extension whose handshake hangs, and whose manifest declares these tools."""
    argv = tuple(command("hang_at=initialize"))
    limits = Limits(start=7200, handshake=7200)
    return Extension(Spec(id="hanging", argv=argv, declared_tools=tools, limits=limits), DIALECT)


@pytest.mark.parametrize("declared", [(), (Tool("echo"),)])
async def test_the_limit_of_a_tool_call_includes_the_start_that_it_waits_for(
    declared: tuple[Tool, ...], clock: Clock
) -> None:
    """Without a manifest the tool is unknown until the start, and that is not "no such tool"."""
    async with closing(hanging(*declared)) as ext:
        call = asyncio.ensure_future(failing(ext.call_tool("echo", timeout=600)))
        await clock.until(lambda: ext.state == "starting")
        await clock.advance(601)
        await clock.until(call.done)
        error = call.result()
        assert isinstance(error, CallTimeout) and error.code == "X0801"
        assert error.message == "echo took longer than 600 s: the extension was not ready"
        assert ext.state == "starting"


async def test_a_tool_call_has_only_the_time_that_the_start_left_of_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Call] = []
    submit = CallQueue.submit

    def keep_and_submit(queue: CallQueue, call: Call) -> None:
        calls.append(call)
        submit(queue, call)

    monkeypatch.setattr(CallQueue, "submit", keep_and_submit)
    async with closing(unstarted()) as ext:
        began = ext.internals.queue.now()
        call = asyncio.ensure_future(ext.call_tool("echo", {}, timeout=600))
        await asyncio.sleep(0)
        has_begun_by = ext.internals.queue.now()
        await call
        (submitted,) = calls
        assert submitted.timeout == 600
        assert began <= submitted.started_at <= has_begun_by
        assert submitted.deadline == submitted.started_at + 600


@shows("morphir-manager-03")
async def test_stats_have_the_pid_the_times_and_the_drops_of_the_present_process() -> None:
    async with hostile(lifetime="plain") as ext:
        await ext.call("twice")
        await ext.call("echo")
        stats = ext.stats
        assert stats.pid == await ext.call("pid")
        assert stats.dropped == {"late or repeated replies": 1}
        assert 0 < stats.timings_ms["spawn"] < 60_000
        assert 0 < stats.timings_ms["handshake"] < 60_000
        await until(lambda: ext.stats.uptime > 0)
        await ext.restart()
        assert ext.stats.dropped == {} and ext.stats.pid != stats.pid
        assert ext.stats.restarts == ext.stats.crashes == 0
    assert ext.stats.pid is None and ext.stats.uptime == 0
    accounted(ext, 3, result=3)
