"""A child that dies, shuts a pipe or stops reading while it is needed: told at once, with evidence.

Every case runs with calls in flight beside the fatal one, and asserts that each ended once.
"""

import asyncio
import gc
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost import errors
from exthost.errors import ExtensionGone, ExthostError
from tests.extensions.clock import Clock, run_loop
from tests.extensions.harness import NEVER, Ledger, accounted, failing, hostile, pid_of, until
from tests.extensions.proc import resident_bytes, runs


async def fatal_call(
    method: str, params: Any = None, *, beside: int = 3, **settings: Any
) -> tuple[ExthostError, list[ExthostError]]:
    """The error of the fatal call, and those of the calls beside it. No time limit told them."""
    ledger = Ledger()
    async with hostile(events=ledger.bus, limits={"call": NEVER}, **settings) as ext:
        others = [asyncio.ensure_future(failing(ext.call("keep", n))) for n in range(beside)]
        await asyncio.sleep(0)
        fatal = await failing(ext.call(method, params))
        losses = await asyncio.gather(*others)
        await until(lambda: ext.state == "failed")
        later = await failing(ext.call("echo", "too late"))
        assert later.extension == "hostile" and "restart" in later.help
        ledger.settle(ext, gone=beside + 1)
    return fatal, losses


@pytest.mark.parametrize(
    ("method", "params", "exit", "stderr"),
    [
        ("leave", {"code": 0}, "exited with 0", "leaving, as I was told"),
        ("leave", {"code": 3}, "exited with 3", "leaving, as I was told"),
        ("killed", {"signal": signal.SIGKILL}, "killed by SIGKILL", "killing myself"),
        ("killed", {"signal": signal.SIGTERM}, "killed by SIGTERM", "killing myself"),
        ("segfault", None, "killed by SIGSEGV", "about to read address 0"),
    ],
)
async def test_death_in_a_call_fails_every_call_in_flight_at_once_with_exit_and_last_words(
    method: str, params: Any, exit: str, stderr: str
) -> None:
    fatal, losses = await fatal_call(method, params)
    for error, name in [(fatal, method), *((loss, "keep") for loss in losses)]:
        assert isinstance(error, ExtensionGone)
        assert error.code == "X1001" and name in error.message
        assert error.evidence.exit == exit and exit in error.message
        assert stderr in error.evidence.stderr
        assert error.evidence.argv[-1].endswith("hostile.py")
    assert len({id(error) for error in [fatal, *losses]}) == 4  # each has one of its own


@pytest.mark.both_loops
async def test_a_crash_is_reported_without_waiting_out_any_grace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The grace for last words is for pipes that something else holds.
    monkeypatch.setattr("exthost.session.process_lifetime.LAST_OUTPUT_SECONDS", 3600.0)
    async with hostile(limits={"call": NEVER}) as ext:
        await ext.call("echo")
        error = await failing(ext.call("killed", {"signal": signal.SIGKILL}))
        assert error.evidence.exit == "killed by SIGKILL"


async def test_half_a_line_before_death_is_shown_as_evidence() -> None:
    fatal, losses = await fatal_call("half", {"code": 4})
    for error in (fatal, *losses):
        assert error.code == "X1001" and error.evidence.exit == "exited with 4"
        assert "ended inside a line" in error.message
        assert error.evidence.bytes.endswith('"resu')


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose pipe is closed is not waited for: in these tests it lives on for certain."""
    monkeypatch.setattr("exthost.session.process_lifetime.EXIT_SECONDS", 0.1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.both_loops
async def test_closing_stdout_and_living_on_is_reported_as_that() -> None:
    fatal, _ = await fatal_call("close_stdout")
    assert isinstance(fatal, ExtensionGone) and fatal.code == "X1002"
    assert "closed its stdout and still runs" in fatal.message and "close_stdout" in fatal.message


@pytest.mark.usefixtures("impatient")
async def test_closing_stdout_inside_a_line_and_living_on_is_not_called_an_end() -> None:
    fatal, _ = await fatal_call("half_and_live")
    assert fatal.code == "X1002" and "still runs" in fatal.message
    assert "ended inside a line" in fatal.message
    assert fatal.evidence.bytes.endswith('"resu')


@pytest.mark.usefixtures("impatient")
@pytest.mark.both_loops
async def test_closing_stdin_and_living_on_is_reported_at_the_next_call() -> None:
    ledger = Ledger()
    async with hostile(events=ledger.bus) as ext:
        assert await ext.call("close_stdin") == "closed"
        error = await failing(ext.call("echo"))
        assert isinstance(error, ExtensionGone) and error.code == "X1002"
        assert "closed its stdin and still runs" in error.message
        ledger.settle(ext, result=1, gone=1)


@pytest.mark.both_loops
async def test_a_child_that_never_reads_meets_the_write_deadline_without_blocking_our_loop() -> (
    None
):
    ledger = Ledger()
    async with hostile(events=ledger.bus, limits={"write": "0.3s", "call": NEVER}) as ext:
        async with hostile() as neighbour:
            assert await ext.call("deaf") == "deaf from now on"
            began = time.monotonic()
            stuck = asyncio.ensure_future(failing(ext.call("echo", "x" * 2**22)))
            behind = [asyncio.ensure_future(failing(ext.call("echo", n))) for n in range(5)]
            while not stuck.done():
                await neighbour.call("echo")  # the loop is free
            for error in [await stuck, *[await other for other in behind]]:
                assert isinstance(error, ExtensionGone) and error.code == "X1004"
                assert "has not read its stdin for 0.3 s" in error.message
            assert time.monotonic() - began > 0.25
        ledger.settle(ext, result=1, gone=6)


async def test_a_slow_reader_is_not_a_stalled_one(tmp_path: Path, clock: Clock) -> None:
    """The write deadline is for standing still; 16 MiB through a pipe takes many steps."""
    async with hostile(limits={"write": "2s"}) as ext:
        await ext.call("slowly", {"folder": str(tmp_path), "reads": 4})
        clock.stop()
        text = "x" * 2**24
        call = asyncio.ensure_future(ext.call("echo", text))
        await run_loop()
        for n in range(4):
            await clock.advance(1.5)
            assert not call.done()
            (tmp_path / f"read-{n}").touch()
            await clock.until((tmp_path / f"done-{n}").exists)
            await run_loop()  # there is room in the pipe, and it is used
        assert await call == text


@pytest.mark.both_loops
@pytest.mark.parametrize("way", ["leave", "killed"])
async def test_exit_is_seen_even_when_a_grandchild_keeps_the_pipe_open(way: str) -> None:
    async with hostile(lifetime="plain") as ext:  # whose pids are those that we see
        grandchild = await ext.call("grandchild")
        waiting = asyncio.ensure_future(failing(ext.call("keep")))
        error = await failing(ext.call(way, {"code": 5, "signal": signal.SIGABRT}))
        exit = "exited with 5" if way == "leave" else "killed by SIGABRT"
        assert error.evidence.exit == (await waiting).evidence.exit == exit
        accounted(ext, 3, result=1, gone=2)
        # It was in the group of the dead: it is gone before anybody calls again.
        await until(lambda: not runs(grandchild))


async def test_closing_takes_the_grandchildren_of_the_group_along() -> None:
    async with hostile(lifetime="plain") as ext:
        grandchild = await ext.call("grandchild")
        assert runs(grandchild)
    await until(lambda: not runs(grandchild))


@pytest.mark.more
async def test_a_flood_on_stderr_is_read_away_and_its_end_kept() -> None:
    async with hostile() as ext:
        before = resident_bytes()
        flood = asyncio.ensure_future(ext.call("stderr", {"bytes": 64_000_000}))
        await run_loop()  # so that it is the first
        assert await ext.call("echo", 1) == 1
        assert await flood == "flooded"
        assert resident_bytes() - before < 20_000_000
        error = await failing(ext.call("leave", {"code": 1}))
        assert error.evidence.stderr[-2:] == ("the last line of stderr", "leaving, as I was told")
        assert len(error.evidence.stderr) <= 20
        accounted(ext, 3, result=2, gone=1)


async def test_a_death_fails_a_thousand_calls_in_flight_without_blocking_the_loop() -> None:
    asyncio.get_running_loop().set_debug(False)  # its tracebacks take longer than the telling
    async with hostile() as ext:
        await ext.call("stderr", {"bytes": 100_000})
        calls = [asyncio.ensure_future(failing(ext.call("keep", n))) for n in range(1000)]
        await until(lambda: ext.stats.in_flight == 1000)
        gc.disable()  # a collection of all that the tests before have left may take longer
        try:
            os.kill(pid_of(ext), signal.SIGKILL)
            longest, last = 0.0, time.thread_time()  # which does not pass while others compute
            while not all(call.done() for call in calls):
                await asyncio.sleep(0)
                longest, last = max(longest, time.thread_time() - last), time.thread_time()
        finally:
            gc.enable()
        assert {(await call).evidence.exit for call in calls} == {"killed by SIGKILL"}
        assert longest < 0.25
        accounted(ext, 1001, result=1, gone=1000)


@pytest.mark.parametrize(("says", "help"), [("", "wrote nothing"), ("why", "see its stderr")])
async def test_the_help_points_to_stderr_only_if_something_was_written(
    says: str, help: str
) -> None:
    program = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        f"    if asked['method'] == 'die': sys.exit({says!r} or 1)\n"
        "    if asked['method'] == 'fail': print(json.dumps({'id': asked['id'], 'error': ''}))\n"
        "    else: print(json.dumps({'id': asked['id'], 'result': []}))\n"
        "    sys.stdout.flush()\n"
    )
    async with exthost.connect(
        [sys.executable, "-S", "-E", "-c", program], dialect="morphir"
    ) as ext:
        with pytest.raises(errors.CallFailed) as failed:
            await ext.call("fail")
        assert failed.value.message.endswith("error: it gives no reason")
        with pytest.raises(errors.ExtensionGone) as died:
            await ext.call("die")
        assert help in died.value.help
