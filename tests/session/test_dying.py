"""An extension that exits, closes a pipe or stops reading: its calls fail at once, with evidence.

The evidence of an error is what the host knows about the end of the process: its exit status, its
last lines on stderr, and the last bytes of its stdout. Most tests have other calls in flight, and
check that each of them ended once.

The program is the hostile extension of the tests (`tests/extensions/hostile.py`), whose methods do
what their names say: `leave` exits, `half` exits in the middle of a line, `keep` is never answered.
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
from tests.extensions.harness import (
    ONE_HOUR,
    Ledger,
    check_call_counts,
    error_of,
    hostile_extension,
    pid_of,
    wait_until,
)
from tests.extensions.morphir_program import morphir_program
from tests.extensions.proc import is_running, resident_bytes

EXITED = "X1001"
CLOSED_ITS_PIPE = "X1002"  # its stdin or stdout, and still runs
READ_NOTHING = "X1004"  # for the time of limits.write


async def fatal_call(
    method: str, params: Any = None, *, other_calls: int = 3, **settings: Any
) -> tuple[ExthostError, list[ExthostError]]:
    """Return the error of the call that ends the process, and the errors of the other calls.

    The time limit of the calls is an hour, so the errors are not timeouts.
    """
    ledger = Ledger()
    async with hostile_extension(events=ledger.bus, limits={"call": ONE_HOUR}, **settings) as ext:
        others = [asyncio.ensure_future(error_of(ext.call("keep", n))) for n in range(other_calls)]
        await asyncio.sleep(0)
        fatal = await error_of(ext.call(method, params))
        other_errors = await asyncio.gather(*others)
        await wait_until(lambda: ext.state == "failed")
        later = await error_of(ext.call("echo", "too late"))
        assert later.extension == "hostile" and "restart" in later.help
        ledger.check_calls(ext, gone=other_calls + 1)
    return fatal, other_errors


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
async def test_an_exit_fails_every_call_in_flight_with_exit_status_and_stderr(
    method: str, params: Any, exit: str, stderr: str
) -> None:
    fatal, other_errors = await fatal_call(method, params)
    for error, name in [(fatal, method), *((error, "keep") for error in other_errors)]:
        assert isinstance(error, ExtensionGone)
        assert error.code == EXITED and name in error.message
        assert error.evidence.exit == exit and exit in error.message
        assert stderr in error.evidence.stderr
        assert error.evidence.argv[-1].endswith("hostile.py")
    # Each call has its own error object.
    assert len({id(error) for error in [fatal, *other_errors]}) == 1 + len(other_errors)


@pytest.mark.both_loops
async def test_a_crash_is_reported_without_waiting_for_more_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The host waits that long only for pipes that another process has open.
    monkeypatch.setattr("exthost.session.process_lifetime.LAST_OUTPUT_SECONDS", 3600.0)
    async with hostile_extension(limits={"call": ONE_HOUR}) as ext:
        await ext.call("echo")
        error = await error_of(ext.call("killed", {"signal": signal.SIGKILL}))
        assert error.evidence.exit == "killed by SIGKILL"


async def test_an_incomplete_line_before_the_exit_is_evidence() -> None:
    fatal, other_errors = await fatal_call("half", {"code": 4})
    for error in (fatal, *other_errors):
        assert error.code == EXITED and error.evidence.exit == "exited with 4"
        assert "ended inside a line" in error.message
        assert error.evidence.bytes.endswith('"resu')


@pytest.fixture
def short_wait_for_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait only briefly for the exit of a process with a closed pipe; it does not exit here."""
    monkeypatch.setattr("exthost.session.process_lifetime.EXIT_SECONDS", 0.1)


@pytest.mark.usefixtures("short_wait_for_exit")
@pytest.mark.both_loops
async def test_closing_stdout_without_an_exit_is_reported() -> None:
    fatal, _ = await fatal_call("close_stdout")
    assert isinstance(fatal, ExtensionGone) and fatal.code == CLOSED_ITS_PIPE
    assert "closed its stdout and still runs" in fatal.message and "close_stdout" in fatal.message


@pytest.mark.usefixtures("short_wait_for_exit")
async def test_closing_stdout_within_a_line_without_an_exit_is_reported() -> None:
    fatal, _ = await fatal_call("half_and_live")
    assert fatal.code == CLOSED_ITS_PIPE and "still runs" in fatal.message
    assert "ended inside a line" in fatal.message
    assert fatal.evidence.bytes.endswith('"resu')


@pytest.mark.usefixtures("short_wait_for_exit")
@pytest.mark.both_loops
async def test_closing_stdin_without_an_exit_is_reported_at_the_next_call() -> None:
    ledger = Ledger()
    async with hostile_extension(events=ledger.bus) as ext:
        assert await ext.call("close_stdin") == "closed"
        error = await error_of(ext.call("echo"))
        assert isinstance(error, ExtensionGone) and error.code == CLOSED_ITS_PIPE
        assert "closed its stdin and still runs" in error.message
        ledger.check_calls(ext, result=1, gone=1)


@pytest.mark.both_loops
async def test_the_write_limit_ends_an_extension_that_stops_reading() -> None:
    ledger = Ledger()
    async with hostile_extension(
        events=ledger.bus, limits={"write": "0.3s", "call": ONE_HOUR}
    ) as ext:
        async with hostile_extension() as neighbour:
            assert await ext.call("deaf") == "deaf from now on"
            started_at = time.monotonic()
            large_call = asyncio.ensure_future(error_of(ext.call("echo", "x" * 2**22)))
            later_calls = [asyncio.ensure_future(error_of(ext.call("echo", n))) for n in range(5)]
            while not large_call.done():
                await neighbour.call("echo")  # the event loop is not blocked
            for error in [await large_call, *[await other for other in later_calls]]:
                assert isinstance(error, ExtensionGone) and error.code == READ_NOTHING
                assert "has not read its stdin for 0.3 s" in error.message
            assert time.monotonic() - started_at > 0.25
        ledger.check_calls(ext, result=1, gone=6)


async def test_the_write_limit_does_not_end_a_slow_reader(tmp_path: Path, clock: Clock) -> None:
    """The write limit applies to the time without progress, not to the whole 16 MiB."""
    async with hostile_extension(limits={"write": "2s"}) as ext:
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
            await run_loop()  # the host writes to the free space in the pipe
        assert await call == text


@pytest.mark.both_loops
@pytest.mark.parametrize("method", ["leave", "killed"])
async def test_an_exit_is_noticed_while_a_grandchild_keeps_the_pipe_open(method: str) -> None:
    # Without a PID namespace, so that this process knows the pids.
    async with hostile_extension(lifetime="plain") as ext:
        grandchild = await ext.call("grandchild")
        waiting = asyncio.ensure_future(error_of(ext.call("keep")))
        error = await error_of(ext.call(method, {"code": 5, "signal": signal.SIGABRT}))
        exit = "exited with 5" if method == "leave" else "killed by SIGABRT"
        assert error.evidence.exit == (await waiting).evidence.exit == exit
        check_call_counts(ext, 3, result=1, gone=2)
        # The grandchild is in the process group of the extension, which is killed.
        await wait_until(lambda: not is_running(grandchild))


async def test_closing_kills_the_grandchildren_of_the_process_group() -> None:
    async with hostile_extension(lifetime="plain") as ext:
        grandchild = await ext.call("grandchild")
        assert is_running(grandchild)
    await wait_until(lambda: not is_running(grandchild))


@pytest.mark.more
async def test_a_flood_on_stderr_is_read_and_only_its_end_is_kept() -> None:
    async with hostile_extension() as ext:
        before = resident_bytes()
        flood = asyncio.ensure_future(ext.call("stderr", {"bytes": 64_000_000}))
        await run_loop()  # this call is sent first
        assert await ext.call("echo", 1) == 1
        assert await flood == "flooded"
        assert resident_bytes() - before < 20_000_000  # of 64 MB
        error = await error_of(ext.call("leave", {"code": 1}))
        assert error.evidence.stderr[-2:] == ("the last line of stderr", "leaving, as I was told")
        assert len(error.evidence.stderr) <= 20  # lines
        check_call_counts(ext, 3, result=2, gone=1)


async def test_an_exit_fails_a_thousand_calls_without_blocking_the_loop() -> None:
    asyncio.get_running_loop().set_debug(False)  # the tracebacks of the debug mode take long
    async with hostile_extension() as ext:
        await ext.call("stderr", {"bytes": 100_000})
        calls = [asyncio.ensure_future(error_of(ext.call("keep", n))) for n in range(1000)]
        await wait_until(lambda: ext.stats.in_flight == 1000)
        gc.disable()  # a collection of objects of earlier tests may take longer
        try:
            os.kill(pid_of(ext), signal.SIGKILL)
            longest_step, last = 0.0, time.thread_time()  # processor time of this thread
            while not all(call.done() for call in calls):
                await asyncio.sleep(0)
                now = time.thread_time()
                longest_step, last = max(longest_step, now - last), now
        finally:
            gc.enable()
        assert {(await call).evidence.exit for call in calls} == {"killed by SIGKILL"}
        assert longest_step < 0.25
        check_call_counts(ext, 1001, result=1, gone=1000)


@pytest.mark.parametrize(("stderr", "help"), [("", "wrote nothing"), ("why", "see its stderr")])
async def test_the_help_points_to_stderr_only_if_something_was_written(
    stderr: str, help: str
) -> None:
    # An extension that answers `fail` with an error without a text, and exits at `die`.
    program = morphir_program(
        f"""
        if method == "die":
            sys.exit({stderr!r} or 1)
        if method == "fail":
            error = ""
        """
    )
    async with exthost.connect(
        [sys.executable, "-S", "-E", "-c", program], dialect="morphir"
    ) as ext:
        with pytest.raises(errors.CallFailed) as call_failed:
            await ext.call("fail")
        assert call_failed.value.message.endswith("error: it gives no reason")
        with pytest.raises(errors.ExtensionGone) as exited:
            await ext.call("die")
        assert help in exited.value.help
