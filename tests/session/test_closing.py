"""Closing an extension, by any task and at any moment: its process always ends.

The host ends a process in steps: it closes its stdin and waits, sends SIGTERM and waits, and then
sends SIGKILL. SHORT_SHUTDOWN is a dialect with short waits, and with ENDLESS_SHUTDOWN a process
that ignores the first two steps never ends. The program is the hostile extension of the tests:
`echo` returns its argument, `keep` is never answered, and with the flag "stubborn" it ignores the
end of stdin and SIGTERM.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import uvloop

from exthost.errors import ExtensionGone
from exthost.events import Bus, Exited, Spawned
from exthost.extension.extension import Extension
from exthost.model.shutdown_steps import CloseStdin, Terminate, Write
from exthost.session.process_lifetime import scale_steps
from tests.dialects.requirements import shows
from tests.extensions.harness import (
    ENDLESS_SHUTDOWN,
    SHORT_SHUTDOWN,
    Ledger,
    check_call_counts,
    error_of,
    hostile_extension,
    pid_of,
    result_or_error,
    unstarted_extension,
    wait_until,
    with_shutdown_waits,
)
from tests.extensions.proc import is_gone

ROOT = Path(__file__).parents[2]


# -- closing by other tasks --------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.both_loops
async def test_fifty_extensions_are_closed_by_fifty_other_tasks() -> None:
    extensions = [unstarted_extension() for _ in range(50)]
    await asyncio.gather(*(ext.start() for ext in extensions))
    pids = [pid_of(ext) for ext in extensions]
    random.Random(3).shuffle(extensions)
    await asyncio.gather(*(asyncio.create_task(ext.close()) for ext in extensions))
    assert {ext.state for ext in extensions} == {"stopped"}
    assert all(map(is_gone, pids))


CLOSED = "X1006"
CLOSED_DURING_CALL = "X1005"

# Starts fifty extensions, calls and closes each in its own task. `{run}` runs `main`.
PROGRAM = """
import asyncio, random
from tests.extensions.harness import unstarted_extension

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # no warnings because of a slow machine
    extensions = [unstarted_extension() for _ in range(50)]
    await asyncio.gather(*(ext.start() for ext in extensions))
    random.shuffle(extensions)
    async def call_and_close(ext):
        assert await ext.call("echo", 1) == 1
        await ext.close()
    tasks = [asyncio.create_task(call_and_close(ext)) for ext in extensions]
    await asyncio.gather(*tasks)

{run}
print("closed")
"""


@pytest.mark.more
@pytest.mark.parametrize(
    "run",
    ["asyncio.run(main())", "import uvloop\nuvloop.run(main())"],
    ids=["asyncio", "uvloop"],
)
def test_closing_fifty_extensions_causes_no_warning(run: str) -> None:
    result = run_program(PROGRAM.replace("{run}", run))
    assert (result.returncode, result.stdout, result.stderr) == (0, "closed\n", "")


def run_program(text: str, *, timeout: float = 55) -> subprocess.CompletedProcess[str]:
    """Run a Python program with every warning as an error, and with asyncio's debug mode."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", text],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


async def test_closing_is_idempotent() -> None:
    ext = unstarted_extension()
    await ext.start()
    pid = pid_of(ext)
    await asyncio.gather(*(ext.close() for _ in range(10)))
    await ext.close()
    assert ext.state == "stopped" and is_gone(pid)
    error = await error_of(ext.call("echo"))
    assert (error.kind, error.code) == ("ExtensionGone", CLOSED)
    check_call_counts(ext, 0)


async def test_closing_an_unstarted_extension_starts_no_process() -> None:
    bus = Bus()
    spawned: list[Spawned] = []
    bus.subscribe(Spawned, spawned.append)
    ext = unstarted_extension(bus=bus)
    await ext.close()
    assert ext.state == "stopped" and spawned == []


@pytest.mark.both_loops
@pytest.mark.parametrize("stage", ["start", "initialize", "capabilities"])
async def test_closing_during_the_handshake_ends_it_at_once(stage: str) -> None:
    ext = unstarted_extension(f"hang_at={stage}", dialect=ENDLESS_SHUTDOWN)
    starting = asyncio.ensure_future(error_of(ext.start()))
    call = asyncio.ensure_future(error_of(ext.call("echo")))
    await wait_until(lambda: ext.stats.pid is not None)
    pid = pid_of(ext)
    await ext.close()
    assert is_gone(pid) and ext.state == "stopped"
    assert isinstance(await starting, ExtensionGone)
    assert (await call).code == CLOSED
    check_call_counts(ext, 1, gone=1)


@pytest.mark.both_loops
async def test_calls_in_flight_fail_with_the_closing_as_the_reason() -> None:
    ledger = Ledger()
    ext = unstarted_extension(bus=ledger.bus)
    await ext.start()
    calls = [asyncio.ensure_future(error_of(ext.call("keep", n))) for n in range(5)]
    await wait_until(lambda: ext.stats.in_flight == 5)
    await ext.close()
    for call in calls:
        error = await call
        assert isinstance(error, ExtensionGone) and error.code == CLOSED_DURING_CALL
        assert "closed during keep" in error.message
    ledger.check_calls(ext, gone=5)


async def test_replies_to_calls_in_flight_arrive_while_the_extension_closes() -> None:
    """The extension reads all requests before the end of its stdin, and answers them."""
    ext = unstarted_extension()
    await ext.start()
    calls = [asyncio.ensure_future(ext.call("echo", n)) for n in range(50)]
    await asyncio.sleep(0)  # the calls are made in this iteration of the loop
    assert ext.stats.in_flight == 50
    await ext.close()
    assert await asyncio.gather(*calls) == list(range(50))
    check_call_counts(ext, 50, result=50)


async def test_calls_made_together_with_the_close_have_an_outcome() -> None:
    ext = unstarted_extension()
    await ext.start()
    calls = [asyncio.ensure_future(result_or_error(ext.call("echo", n))) for n in range(20)]
    closer = asyncio.ensure_future(ext.close())
    outcomes = await asyncio.gather(*calls)
    await closer
    assert all(end == n or isinstance(end, ExtensionGone) for n, end in enumerate(outcomes))
    check_call_counts(ext, 20)


@pytest.mark.both_loops
async def test_closing_continues_if_its_task_is_cancelled() -> None:
    ext = unstarted_extension("ignore_eof", dialect=SHORT_SHUTDOWN)
    await ext.start()
    pid = pid_of(ext)
    closer = asyncio.ensure_future(ext.close())
    await wait_until(lambda: ext.state == "draining")
    closer.cancel()
    await asyncio.wait([closer])
    assert closer.cancelled()
    await wait_until(lambda: ext.state == "stopped")
    assert is_gone(pid)


@pytest.mark.both_loops
async def test_leaving_the_block_by_an_exception_ends_the_process() -> None:
    pid = 0
    with pytest.raises(ZeroDivisionError):
        async with hostile_extension() as ext:
            pid = pid_of(ext)
            raise ZeroDivisionError
    assert pid and is_gone(pid)


async def test_leaving_the_block_by_cancellation_ends_the_process() -> None:
    pids: list[int] = []

    async def use_extension() -> None:
        async with hostile_extension() as ext:
            pids.append(pid_of(ext))
            await ext.call("keep")

    user = asyncio.ensure_future(use_extension())
    await wait_until(lambda: bool(pids))
    user.cancel()
    await asyncio.wait([user])
    assert user.cancelled() and is_gone(pids[0])


# -- the end of the event loop --------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("when", ["ready", "in a call", "in the handshake", "closing", "stopped"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_end_of_the_loop_without_a_close_leaves_no_process(when: str, loop: str) -> None:
    extensions: list[Extension] = []
    pids: list[int] = []

    async def main() -> None:
        flags = {"in the handshake": ["hang_at=initialize"], "closing": ["stubborn"]}
        ext = unstarted_extension(*flags.get(when, []))
        extensions.append(ext)  # a reference that remains after the end of the loop
        if when == "in the handshake":
            asyncio.get_running_loop().create_task(result_or_error(ext.start()))
            await wait_until(lambda: ext.stats.pid is not None)
        else:
            await ext.start()
        pids.append(pid_of(ext))
        if when == "in a call":
            asyncio.get_running_loop().create_task(result_or_error(ext.call("keep")))
            await wait_until(lambda: ext.stats.in_flight == 1)
        if when == "closing":
            asyncio.get_running_loop().create_task(ext.close())
            await wait_until(lambda: ext.state == "draining")
        if when == "stopped":
            os.kill(pids[0], signal.SIGSTOP)

    loop_factory = uvloop.new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())
    assert is_gone(pids[0])
    del extensions[:]


def test_a_closed_loop_leaves_no_process_after_the_extension_is_deleted() -> None:
    """No task is cancelled. asyncio warns of the tasks, so this is a separate program."""
    program = """
import asyncio
from tests.extensions.harness import unstarted_extension
from tests.extensions.proc import is_gone

loop = asyncio.new_event_loop()

async def main():
    ext = unstarted_extension()
    await ext.start()
    return ext
ext = loop.run_until_complete(main())
pid = ext.stats.pid
loop.close()
del ext, loop
import gc
gc.collect()
print("gone" if is_gone(pid) else "running")
"""
    result = run_program(program)
    assert result.stdout == "gone\n"


# -- shutdown steps -------------------------------------------------------------------------


async def close_and_measure(ext: Extension, bus: Bus) -> tuple[str, float]:
    """Start and close the extension; return its exit status and the seconds until its end."""
    exits: list[Exited] = []
    bus.subscribe(Exited, exits.append)
    await ext.start()
    assert await ext.call("echo", 1) == 1
    started_at = time.monotonic()
    await ext.close()
    (exit,) = exits
    return exit.status, time.monotonic() - started_at


async def test_an_extension_that_exits_at_end_of_file_is_not_waited_for() -> None:
    bus = Bus()
    status, _ = await close_and_measure(unstarted_extension(bus=bus, dialect=ENDLESS_SHUTDOWN), bus)
    assert status == "exited with 0"


async def test_an_extension_that_ignores_end_of_file_is_terminated_after_the_wait(
    tmp_path: Path,
) -> None:
    bus = Bus()
    report = tmp_path / "report"
    ext = unstarted_extension(
        "ignore_eof", f"term_file={report}", dialect=with_shutdown_waits(0.1, 3600), bus=bus
    )
    status, seconds = await close_and_measure(ext, bus)
    # The extension writes this to the file when it gets SIGTERM.
    assert status == "exited with 0" and report.read_text() == "told"
    assert seconds >= 0.1


@pytest.mark.both_loops
async def test_an_extension_that_ignores_end_of_file_and_sigterm_is_killed() -> None:
    bus = Bus()
    ext = unstarted_extension("stubborn", dialect=SHORT_SHUTDOWN, bus=bus)
    status, seconds = await close_and_measure(ext, bus)
    assert status == "killed by SIGKILL"
    assert seconds >= 0.2  # both waits of SHORT_SHUTDOWN


@pytest.mark.parametrize("stop", ["0s", "400ms"])
async def test_limits_stop_limits_the_time_of_all_steps(stop: str) -> None:
    bus = Bus()
    ext = unstarted_extension("stubborn", dialect=ENDLESS_SHUTDOWN, bus=bus, limits={"stop": stop})
    status, seconds = await close_and_measure(ext, bus)
    assert status == "killed by SIGKILL"
    assert (0.0 if stop == "0s" else 0.4) <= seconds < 60  # less than ENDLESS_SHUTDOWN


@shows("nexo-life-07")
def test_the_waits_of_the_steps_are_scaled_to_the_limit() -> None:
    steps = (Write(b"\n"), CloseStdin(wait=3), Terminate(wait=1))
    assert scale_steps(steps, 1) == (Write(b"\n"), CloseStdin(wait=0.75), Terminate(wait=0.25))
    assert scale_steps(steps, None) == steps
    assert scale_steps((), 5) == ()


async def test_a_stopped_process_is_killed_after_the_waits() -> None:
    ext = unstarted_extension(dialect=SHORT_SHUTDOWN)
    await ext.start()
    pid = pid_of(ext)
    os.kill(pid, signal.SIGSTOP)
    await ext.close()
    assert is_gone(pid)


async def test_an_exit_during_the_closing_is_not_an_error() -> None:
    ext = unstarted_extension("stubborn", dialect=ENDLESS_SHUTDOWN)
    await ext.start()
    pid = pid_of(ext)
    closer = asyncio.ensure_future(ext.close())
    await wait_until(lambda: ext.state == "draining")
    os.kill(pid, signal.SIGKILL)
    await closer
    assert ext.state == "stopped" and is_gone(pid)
