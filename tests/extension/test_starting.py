"""Starting an extension: many callers start one process, checks run before, and permanent errors
are not retried.

An extension starts at its first call, or with `start()`. The program is the hostile extension of
the tests, whose flags say what goes wrong: `die_at=initialize` exits in the handshake (its first
request is `initialize`), `hang_at=initialize` never answers it.
"""

import asyncio
from dataclasses import replace
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
from exthost.model.spec import Limits, Requires, Spec
from exthost.session.call import Call
from tests.dialects.requirements import shows
from tests.extensions.clock import Clock
from tests.extensions.harness import (
    Ledger,
    check_call_counts,
    closed_at_end,
    error_of,
    hostile_command,
    hostile_extension,
    unstarted_extension,
    wait_until,
)

NO_PROGRAM = "X0401"
EXITED_IN_HANDSHAKE = "X0501"
CHECK_FAILED = "X0389"


def collect_spawns(bus: Bus) -> list[Spawned]:
    """Return a list that will have an event for each process that is started."""
    spawn_events: list[Spawned] = []
    bus.subscribe(Spawned, spawn_events.append)
    return spawn_events


@pytest.mark.both_loops
async def test_a_hundred_concurrent_first_calls_start_one_process() -> None:
    ledger = Ledger()
    spawned = collect_spawns(ledger.bus)
    async with closed_at_end(unstarted_extension(bus=ledger.bus, lifetime="plain")) as ext:
        pids = await asyncio.gather(*(ext.call("pid") for _ in range(100)))
        assert len(set(pids)) == len(spawned) == 1
        assert spawned[0].pid == pids[0] == ext.stats.pid
        ledger.check_calls(ext, result=100)


async def test_a_hundred_concurrent_starts_are_one_start() -> None:
    bus = Bus()
    spawned = collect_spawns(bus)
    async with closed_at_end(unstarted_extension(bus=bus)) as ext:
        await asyncio.gather(*(ext.start() for _ in range(100)))
        assert len(spawned) == 1 and ext.state == "ready" and ext.health == "running"


async def test_cancelled_first_calls_do_not_stop_the_start() -> None:
    async with closed_at_end(unstarted_extension()) as ext:
        calls = [asyncio.ensure_future(ext.call("echo", n)) for n in range(10)]
        await asyncio.sleep(0)
        for call in calls[:5]:
            call.cancel()
        assert await asyncio.gather(*calls[5:]) == list(range(5, 10))
        check_call_counts(ext, 10, result=5, cancelled=5)


async def test_every_call_that_waited_for_a_failed_start_gets_the_reason() -> None:
    ledger = Ledger()
    async with closed_at_end(unstarted_extension("die_at=initialize", bus=ledger.bus)) as ext:
        errors = await asyncio.gather(*(error_of(ext.call("echo", n)) for n in range(20)))
        assert {(error.kind, error.code) for error in errors} == {
            ("HandshakeFailed", EXITED_IN_HANDSHAKE)
        }
        assert len({id(error) for error in errors}) == 20  # each has its own traceback
        assert ext.state == "failed" and ext.health == "failed"
        assert ext.cause is not None and ext.cause.code == EXITED_IN_HANDSHAKE
        ledger.check_calls(ext)


def extension_of(argv: list[str], **settings: Any) -> Extension:
    source = {"type": "process", "command": argv[0], "args": argv[1:]}
    spec = spec_from_mapping({"name": "example", "source": source, **settings})
    return Extension(spec, DIALECT, bus=settings.get("bus"))


@pytest.mark.parametrize(
    ("argv", "settings", "code"),
    [
        (["/no/such/program"], {}, NO_PROGRAM),
        (hostile_command(), {"cwd": "/no/such/folder"}, "X0402"),
        (["/etc/hostname"], {}, "X0404"),  # a file that is not a program
    ],
)
async def test_a_permanent_error_is_not_tried_again(
    argv: list[str], settings: dict[str, Any], code: str
) -> None:
    restart = {"strategy": "immediate", "max_retries": 5}
    async with closed_at_end(extension_of(argv, restart=restart, **settings)) as ext:
        error = await error_of(ext.start())
        assert isinstance(error, SpawnFailed) and error.code == code
        assert ext.state == "failed" and ext.stats.restarts == 0
        assert (await error_of(ext.call("echo"))).code == code


async def test_a_failed_first_start_is_not_retried(
    tmp_path: Path,
) -> None:
    starts_file = tmp_path / "starts"
    restart = {"strategy": "immediate", "max_retries": 5}
    ext = unstarted_extension("die_at=initialize", f"marks={starts_file}", restart=restart)
    async with closed_at_end(ext):
        assert isinstance(await error_of(ext.start()), HandshakeFailed)
        assert len(starts_file.read_text().split()) == 1


async def test_calls_fail_if_the_working_directory_of_the_host_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error while a start is prepared fails the calls that wait for it."""
    deleted_folder = tmp_path / "deleted"
    deleted_folder.mkdir()
    monkeypatch.chdir(deleted_folder)
    deleted_folder.rmdir()
    async with closed_at_end(unstarted_extension()) as ext:
        errors = await asyncio.gather(error_of(ext.start()), error_of(ext.call("echo")))
        assert {error.kind for error in errors} == {"SpawnFailed"}
        assert ext.state == "failed"


async def test_a_requested_restart_starts_a_failed_extension(tmp_path: Path) -> None:
    program = tmp_path / "late.py"
    source = {"type": "process", "command": str(program)}
    ext = Extension(spec_from_mapping({"name": "late", "source": source}), DIALECT)
    async with closed_at_end(ext):
        assert (await error_of(ext.start())).code == NO_PROGRAM
        assert (await error_of(ext.start())).code == NO_PROGRAM  # start() does not try again
        program.write_text("#!/bin/sh\nexec " + " ".join(hostile_command()) + "\n")
        program.chmod(0o755)
        await ext.restart()
        assert ext.state == "ready" and ext.cause is None
        assert await ext.call("echo", 1) == 1
        check_call_counts(ext, 1, result=1)


async def test_a_missing_requirement_refuses_the_extension_until_it_exists() -> None:

    program, *args = hostile_command()
    source = {"type": "process", "command": program, "args": args}
    spec = spec_from_mapping({"name": "needy", "source": source})
    environ = {"PATH": "/bin:/usr/bin"}
    spec_with_requirement = replace(spec, requires=Requires(env=("NEEDED",)))
    async with closed_at_end(Extension(spec_with_requirement, DIALECT, environ=environ)) as ext:
        error = await error_of(ext.call("echo"))
        assert isinstance(error, Refused) and "NEEDED" in str(error)
        assert ext.state == "refused"
        environ["NEEDED"] = "1"
        await ext.restart()
        assert (await ext.call("environment"))["NEEDED"] == "1"


async def test_an_extension_whose_check_fails_is_refused_and_can_be_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the file was removed during the check")

    async with closed_at_end(unstarted_extension()) as ext:
        with monkeypatch.context() as patched:
            patched.setattr("exthost.extension.startup.admit", fail)
            error = await error_of(ext.call("echo"))
            assert isinstance(error, Refused) and error.code == CHECK_FAILED, error
            assert ext.state == "refused" and ext.cause is not None
        await ext.restart()
        assert await ext.call("echo", 1) == 1


async def test_tools_are_known_after_the_start_and_checked_before_the_call() -> None:
    bus = Bus()
    changes: list[OfferChanged] = []
    bus.subscribe(OfferChanged, changes.append)
    async with closed_at_end(unstarted_extension(bus=bus)) as ext:
        assert dict(ext.tools) == {}
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}  # the call starts it
        assert set(ext.tools) == {"echo", "add"}
        assert changes == [OfferChanged("hostile", ("add", "echo"), ())]
        misspelled = await error_of(ext.call_tool("ech"))
        assert isinstance(misspelled, NotFound) and misspelled.help == "did you mean 'echo'?"
        unknown = await error_of(ext.call_tool("weather"))
        assert isinstance(unknown, NotFound)
        assert unknown.help.startswith(
            "its tools are: 'echo', 'add'; for a method that is not a tool"
        )
        assert isinstance(await error_of(ext.call_tool("add", {"a": "x"})), UsageError)
        check_call_counts(ext, 1, result=1)  # the other calls were not sent
        await ext.restart()
        assert len(changes) == 1  # the tools are the same


def hanging_extension(*tools: Tool) -> Extension:
    """Return an extension whose handshake hangs, and whose manifest declares these tools."""
    argv = tuple(hostile_command("hang_at=initialize"))
    limits = Limits(start=7200, handshake=7200)
    return Extension(Spec(id="hanging", argv=argv, declared_tools=tools, limits=limits), DIALECT)


@pytest.mark.parametrize("declared", [(), (Tool("echo"),)])
async def test_the_limit_of_a_tool_call_includes_the_start_that_it_waits_for(
    declared: tuple[Tool, ...], clock: Clock
) -> None:
    """Without a manifest the tool is unknown until the start; the error is a timeout, not
    NotFound."""
    async with closed_at_end(hanging_extension(*declared)) as ext:
        call = asyncio.ensure_future(error_of(ext.call_tool("echo", timeout=600)))
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
    async with closed_at_end(unstarted_extension()) as ext:
        earliest_start = ext.internals.queue.now()
        call = asyncio.ensure_future(ext.call_tool("echo", {}, timeout=600))
        await asyncio.sleep(0)
        latest_start = ext.internals.queue.now()
        await call
        (submitted,) = calls
        assert submitted.timeout == 600
        assert earliest_start <= submitted.started_at <= latest_start
        assert submitted.deadline == submitted.started_at + 600


@shows("morphir-manager-03")
async def test_stats_have_the_pid_timings_and_drops_of_the_current_process() -> None:
    async with hostile_extension(lifetime="plain") as ext:
        await ext.call("twice")  # is answered two times
        await ext.call("echo")
        stats = ext.stats
        assert stats.pid == await ext.call("pid")
        assert stats.dropped == {"late or repeated replies": 1}
        assert 0 < stats.timings_ms["spawn"] < 60_000
        assert 0 < stats.timings_ms["handshake"] < 60_000
        await wait_until(lambda: ext.stats.uptime > 0)
        await ext.restart()
        assert ext.stats.dropped == {} and ext.stats.pid != stats.pid
        assert ext.stats.restarts == ext.stats.crashes == 0
    assert ext.stats.pid is None and ext.stats.uptime == 0
    check_call_counts(ext, 3, result=3)
