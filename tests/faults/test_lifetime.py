"""Starts and exits of a hostile child in every dialect: no process remains, and no call hangs.

The child is a program that misbehaves on command (`tests/faults/harness.py`). Each test adds a
trial for each dialect and each case, and `trials.run` runs a sample of them concurrently.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from exthost.authoring.testing.peers import PEERS, HostilePeer
from exthost.dialects import find
from exthost.errors import CallTimeout, ExtensionGone, ExthostError, HandshakeFailed
from exthost.extension.extension import Extension
from exthost.model.shutdown_steps import Write
from tests.extensions.clock import Clock, run_loop
from tests.extensions.harness import pid_of, result_or_error, wait_until
from tests.extensions.proc import is_gone, is_running, outside, read_process
from tests.faults.harness import (
    AT_ONCE_SECONDS,
    CALL_SECONDS,
    HostileRun,
    all_peers,
    extension,
    flags_at,
    run_hostile,
)
from tests.faults.trials import Trials

ROOT = Path(__file__).parents[2]
NO_RESTART = {"strategy": "never"}

# The code of the error if a process has closed its stdin or stdout, and still runs.
CLOSED_ITS_PIPE = "X1002"


def shutdown_waits(peer: HostilePeer) -> list[float]:
    """Return the seconds of each shutdown step of the dialect that waits. `Write` does not."""
    steps = find.find_dialect(peer.dialect).traits.shutdown_steps
    return [step.wait for step in steps if not isinstance(step, Write)]


async def kill_and_close(ext: Extension) -> None:
    """Kill the processes of an extension that a trial may have left, and close it. This does not
    wait for the shutdown steps."""
    ext.kill()
    await ext.close()


# -- shutdown -------------------------------------------------------------------------------


async def test_a_child_that_does_not_end_is_killed_after_the_shutdown_steps(
    folder: Path, clock: Clock
) -> None:
    """The child always ignores SIGTERM and the end of stdin. In two of the cases it is also stopped
    by SIGSTOP, or hangs in a call."""

    async def close_stubborn_child(peer: HostilePeer, case: str) -> None:
        ext = extension(peer, folder, "stubborn")
        try:
            await ext.start()
            child = HostileRun(ext, peer, ledger=None)
            pid = pid_of(ext)
            if case == "stopped":
                os.kill(pid, signal.SIGSTOP)
            elif case == "hanging":
                hanging = asyncio.ensure_future(child.do_or_error("hang", timeout=300))
                await clock.until(lambda: ext.stats.in_flight == 1)
            closing = asyncio.ensure_future(ext.close())
            await run_loop()
            for wait in shutdown_waits(peer):
                assert is_running(pid) and not closing.done()
                await clock.advance(wait)
            # No time passes here: the child must have ended when the waits of all steps are over.
            await clock.until(closing.done)
            await closing
            assert is_gone(pid) and ext.state == "stopped"
            if case == "hanging":  # the end of the child has also ended its call
                assert isinstance(await hanging, ExtensionGone)
            child.check_calls()
        finally:
            await kill_and_close(ext)

    clock.stop()
    trials = Trials("lifetime")
    for peer in all_peers():
        for case in ("stubborn", "stopped", "hanging"):
            trials.add(case, peer.dialect, partial(close_stubborn_child, peer, case))
    await trials.run(at_once=1)  # they move the same clock


async def test_a_call_of_a_stopped_child_times_out(folder: Path, clock: Clock) -> None:
    async def stop_in_a_call(peer: HostilePeer) -> None:
        # The shutdown steps of a stopped process cannot succeed, so the restart need not wait.
        async with run_hostile(peer, folder, step=0.01) as child:
            pid = outside(await child.do("pid"), pid_of(child.ext))

            def is_stopped() -> bool:
                process = read_process(pid)
                return process is not None and process.state == "T"

            call = asyncio.ensure_future(
                child.do_or_error("kill", signal=signal.SIGSTOP, timeout=CALL_SECONDS)
            )
            await wait_until(is_stopped)
            assert not call.done()
            await clock.advance(CALL_SECONDS)
            assert isinstance(await call, CallTimeout)
            await asyncio.wait_for(child.ext.restart(), CALL_SECONDS)
            await child.check_answers()

    trials = Trials("lifetime")
    for peer in all_peers():
        trials.add("SIGSTOP in a call", peer.dialect, partial(stop_in_a_call, peer))
    await trials.run(at_once=1)  # they move the same clock


# -- crashes ---------------------------------------------------------------------------------

# The command of each crash, and the exit status that the host must report. Half of a long answer is
# more than the beginning of its frame.
CRASHES: dict[str, tuple[dict[str, Any], str]] = {
    "exit 0": ({"do": "die", "code": 0}, "exited with 0"),
    "exit 3": ({"do": "die", "code": 3}, "exited with 3"),
    "SIGKILL": ({"do": "kill", "signal": signal.SIGKILL}, "killed by SIGKILL"),
    "SIGSEGV": ({"do": "kill", "signal": signal.SIGSEGV}, "killed by SIGSEGV"),
    "SIGABRT": ({"do": "kill", "signal": signal.SIGABRT}, "killed by SIGABRT"),
    "SIGBUS": ({"do": "kill", "signal": signal.SIGBUS}, "killed by SIGBUS"),
    "half an answer": ({"do": "half", "value": "x" * 99, "then": "die"}, "exited with 3"),
}


async def test_a_crash_during_a_call_is_reported_at_once_with_its_status(folder: Path) -> None:
    async def crash(peer: HostilePeer, command: dict[str, Any], status: str) -> None:
        async with run_hostile(peer, folder) as child:
            # Other calls, which the child has received and not answered. A serial dialect sends the
            # next call after the answer to the last one.
            kept_count = 0 if is_serial(peer) else 3
            kept_calls = [
                asyncio.ensure_future(child.do_or_error("keep", timeout=300))
                for _ in range(kept_count)
            ]
            # A call that is sent after the crash would go to the next process.
            await wait_until(lambda: child.ext.stats.in_flight == kept_count)
            options = {name: value for name, value in command.items() if name != "do"}
            began = time.monotonic()
            error = await child.do_or_error(command["do"], **options)
            assert time.monotonic() - began < AT_ONCE_SECONDS
            assert isinstance(error, ExtensionGone), error
            assert error.evidence.exit == status, error.evidence
            for call in kept_calls:
                loss = await call
                assert isinstance(loss, ExtensionGone) and loss.evidence.exit == status
            await child.check_answers()

    trials = Trials("lifetime")
    for peer in all_peers():
        for name, (command, status) in CRASHES.items():
            trials.add(name, peer.dialect, partial(crash, peer, command, status))
    await trials.run()


def is_serial(peer: HostilePeer) -> bool:
    """Return whether the dialect has only one call in flight at a time."""
    traits = find.find_dialect(peer.dialect).traits
    return traits.positional or traits.limits.max_in_flight == 1


@pytest.mark.more
async def test_closed_pipes_are_reported(folder: Path) -> None:
    async def close_descriptors(peer: HostilePeer, fds: list[int]) -> None:
        """Let the child close some of its stdin (0), stdout (1) and stderr (2)."""
        async with run_hostile(peer, folder) as child:
            first = await child.do_or_error("close", fds=fds)
            if 1 in fds:
                assert isinstance(first, ExtensionGone) and first.code == CLOSED_ITS_PIPE, first
            else:  # it can answer
                assert first == "closed"
            if fds == [2]:  # this is allowed; but after `close` a child waits and does not read
                assert isinstance(await child.do_or_error("echo", timeout=0.3), CallTimeout)
                await child.ext.restart()
            elif fds == [0]:  # the host sees this when it writes the next call
                second = await child.do_or_error("echo")
                assert isinstance(second, ExtensionGone) and second.code == CLOSED_ITS_PIPE, second
            await child.check_answers()  # of a new process

    async def write_half_and_close(peer: HostilePeer) -> None:
        async with run_hostile(peer, folder) as child:
            error = await child.do_or_error("half", value="x" * 99, then="close")
            assert isinstance(error, ExtensionGone) and "still runs" in error.message, error
            await child.check_answers()

    trials = Trials("lifetime")
    for peer in all_peers():
        for fds in ([0], [1], [2], [0, 1], [0, 1, 2]):
            trials.add(f"closes {fds}", peer.dialect, partial(close_descriptors, peer, fds))
        trials.add("half an answer, closed", peer.dialect, partial(write_half_and_close, peer))
    await trials.run(at_once=12)  # most of these trials wait for a time limit


# -- processes that remain -------------------------------------------------------------------


async def test_grandchildren_that_keep_the_pipes_open_are_killed(
    folder: Path,
) -> None:
    async def leave_grandchild(peer: HostilePeer, case: str) -> None:
        async with run_hostile(peer, folder) as child:
            pid = await child.fork()
            if case == "crash":
                began = time.monotonic()
                error = await child.do_or_error("die", code=5)
                assert isinstance(error, ExtensionGone) and error.evidence.exit == "exited with 5"
                assert time.monotonic() - began < AT_ONCE_SECONDS
                await wait_until(lambda: not is_running(pid), AT_ONCE_SECONDS)
                await child.check_answers()
        await wait_until(lambda: not is_running(pid), AT_ONCE_SECONDS)

    trials = Trials("lifetime")
    for peer in all_peers():
        for case in ("crash", "close"):
            trials.add(f"grandchild, {case}", peer.dialect, partial(leave_grandchild, peer, case))
    await trials.run()


@pytest.mark.more
async def test_a_daemon_that_keeps_the_pipes_open_does_not_delay_the_end(folder: Path) -> None:
    """The daemon has forked twice, called setsid, and ignores SIGTERM. In a namespace it ends with
    its extension. Without a namespace it cannot be found, but it does not delay the end of the
    extension."""

    async def start_daemon(peer: HostilePeer, case: str) -> None:
        pid = 0
        try:
            async with run_hostile(peer, folder) as child:
                pid = await child.fork(daemon=True)
                is_in_namespace = child.ext.enforced["pids"] != "process group"
                if case == "crash":
                    began = time.monotonic()
                    error = await child.do_or_error("die", code=5)
                    assert isinstance(error, ExtensionGone), error
                    assert time.monotonic() - began < AT_ONCE_SECONDS
                    await child.check_answers()
                began = time.monotonic()
            assert time.monotonic() - began < AT_ONCE_SECONDS
            if is_in_namespace:
                await wait_until(lambda: not is_running(pid), AT_ONCE_SECONDS)
        finally:
            if pid > 1 and is_running(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    trials = Trials("lifetime")
    for peer in all_peers():
        for case in ("crash", "close"):
            trials.add(f"daemon, {case}", peer.dialect, partial(start_daemon, peer, case))
    await trials.run()


async def test_leaving_the_block_by_an_exception_leaves_no_process(folder: Path) -> None:
    async def leave_block(peer: HostilePeer, exception_class: type[BaseException]) -> None:
        pids = []
        ready = asyncio.Event()

        async def use_extension() -> None:
            async with run_hostile(peer, folder, "stubborn") as child:
                pids.append(pid_of(child.ext))
                pids.append(await child.fork())
                call = asyncio.ensure_future(child.do_or_error("hang", timeout=300))
                await wait_until(lambda: child.ext.stats.in_flight == 1, CALL_SECONDS)
                ready.set()
                if exception_class is asyncio.CancelledError:
                    await call
                raise exception_class("on purpose")

        task = asyncio.ensure_future(use_extension())
        if exception_class is asyncio.CancelledError:
            await wait_until(lambda: ready.is_set() or task.done())
            task.cancel()
        with pytest.raises(exception_class):
            await task
        assert is_gone(pids[0])
        await wait_until(lambda: not is_running(pids[1]), AT_ONCE_SECONDS)

    trials = Trials("lifetime")
    for peer in all_peers():
        for exception_class in (RuntimeError, asyncio.CancelledError):
            trials.add(
                f"left by {exception_class.__name__}",
                peer.dialect,
                partial(leave_block, peer, exception_class),
            )
    await trials.run()


# A program that starts an extension in each dialect, each with a grandchild, and ends in some way.
PROGRAM = """
import asyncio, gc, os, sys
from pathlib import Path
from tests.extensions.harness import wait_until
from tests.faults.harness import HostileRun, all_peers, extension

async def start_hostile(peer):
    ext = extension(peer, Path({folder!r}), "stubborn")
    await ext.start()
    run = HostileRun(ext, peer, ledger=None)
    print(ext.stats.pid, await run.fork(), flush=True)
    return run

async def send_calls(runs):
    calls = [asyncio.ensure_future(run.do("hang")) for run in runs]
    await wait_until(lambda: all(run.ext.stats.in_flight == 1 for run in runs))
    return calls

async def main():
    runs = await asyncio.gather(*map(start_hostile, all_peers()))
    {end}

asyncio.run(main())
"""
# The last statement of the program, and its exit status. -2 is the end by SIGINT.
ENDS = {
    "handle dropped": ("del runs; gc.collect()", 0),
    "an exception": ("raise RuntimeError('on purpose')", 1),
    "sys.exit": ("sys.exit(3)", 3),
    "Ctrl-C": ("os.kill(os.getpid(), 2); await asyncio.sleep(60)", -2),
    "in a call": ("calls = await send_calls(runs)", 0),
}


@pytest.mark.more
@pytest.mark.sampled
@pytest.mark.parametrize("case", ENDS)
def test_a_program_that_ends_without_closing_leaves_no_process(folder: Path, case: str) -> None:
    end, status = ENDS[case]
    text = PROGRAM.format(folder=str(folder), end=end)
    output = folder / "pids"  # has the pids also if the program does not end in time
    try:
        with output.open("wb") as stdout:
            result = subprocess.run(
                [sys.executable, "-c", text],
                cwd=ROOT,
                stdout=stdout,
                stderr=subprocess.PIPE,
                timeout=180,
                check=False,
            )
        assert result.returncode == status, result.stderr.decode()
        pids = [int(word) for word in output.read_text().split()]
        assert len(pids) == 2 * len(all_peers()), result.stderr.decode()
        deadline = time.monotonic() + AT_ONCE_SECONDS
        while remaining := [pid for pid in pids if is_running(pid)]:
            assert time.monotonic() < deadline, remaining
            time.sleep(0.01)
    finally:
        for pid in map(int, output.read_text().split()):
            if is_running(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    for peer in all_peers():
        Trials("lifetime").count(peer.dialect)


# -- starts ----------------------------------------------------------------------------------


class BadStart(NamedTuple):
    """A start that fails.

    stage    when the child runs the command: "start", before it reads anything, or "handshake",
             instead of its reply to the first request
    command  what the child does then
    codes    the possible codes of the error, which depend on the dialect
    exit     the exit status of the child; "" if it does not end by itself
    """

    stage: str
    command: dict[str, Any]
    codes: set[str]
    exit: str = ""


HANDSHAKE_LOST = "X0501"  # the process has ended, or has closed its stdin or stdout
NO_REPLY_IN_TIME = "X0504"
NOT_THE_PROTOCOL = "X0505"  # the output cannot be read any further
FAULTY_REPLY = "X0508"

# Eight bytes and the end of a line, nine times. In some dialects they are lines that are not JSON,
# in others a length that is too large.
INVALID_FRAMES = [[(b"\xff" * 8 + b"\n").hex(), 9]]

BAD_STARTS = {
    "dies at its start": BadStart("start", {"do": "die"}, {HANDSHAKE_LOST}, "exited with 3"),
    "dies in the handshake": BadStart(
        "handshake", {"do": "die"}, {HANDSHAKE_LOST}, "exited with 3"
    ),
    "half a handshake, dies": BadStart(
        "handshake", {"do": "half", "then": "die"}, {HANDSHAKE_LOST}, "exited with 3"
    ),
    "half a handshake, closes": BadStart(
        "handshake", {"do": "half", "then": "close"}, {HANDSHAKE_LOST, FAULTY_REPLY}
    ),
    "hangs in the handshake": BadStart("handshake", {"do": "hang"}, {NO_REPLY_IN_TIME}),
    "never reads": BadStart("start", {"do": "hang"}, {NO_REPLY_IN_TIME}),
    "closes its pipes": BadStart("handshake", {"do": "close", "fds": [0, 1]}, {HANDSHAKE_LOST}),
    "is killed": BadStart(
        "handshake", {"do": "kill", "signal": signal.SIGKILL}, {HANDSHAKE_LOST}, "killed by SIGKILL"
    ),
    "stops itself": BadStart(
        "handshake", {"do": "kill", "signal": signal.SIGSTOP}, {NO_REPLY_IN_TIME}
    ),
    "writes invalid frames": BadStart(
        "handshake",
        {"do": "spew", "out": INVALID_FRAMES, "then": "die"},
        {HANDSHAKE_LOST, NOT_THE_PROTOCOL},
        "exited with 3",
    ),
}


@pytest.mark.more
async def test_a_failed_start_is_the_error_of_start_and_of_every_call(folder: Path) -> None:
    async def fail_to_start(peer: HostilePeer, case: BadStart) -> None:
        # Only a child that does nothing any more must reach the limit.
        seconds = 0.6 if case.codes == {NO_REPLY_IN_TIME} else CALL_SECONDS
        async with run_hostile(
            peer,
            folder,
            *flags_at(case.stage, **case.command),
            start=False,
            limits={"handshake": f"{seconds}s"},
            restart=NO_RESTART,
        ) as child:
            calls = [asyncio.ensure_future(child.do_or_error("echo")) for _ in range(3)]
            error = await result_or_error(child.ext.start())
            assert isinstance(error, HandshakeFailed) and error.code in case.codes, error
            if not case.exit:
                assert not error.evidence.exit.startswith("exited"), error.evidence
            elif error.code == HANDSHAKE_LOST:
                assert error.evidence.exit == case.exit, error.evidence
            assert error.extension == "hostile" and error.help and error.evidence.argv
            for call in calls:
                error_of_call = await call
                assert isinstance(error_of_call, ExthostError)
                assert error_of_call.code == error.code, error_of_call
            assert child.ext.state == "failed"

    trials = Trials("lifetime")
    for peer in all_peers():
        for name, case in BAD_STARTS.items():
            trials.add(name, peer.dialect, partial(fail_to_start, peer, case))
    await trials.run()


@pytest.mark.more
async def test_a_crash_loop_ends_after_max_retries_and_no_call_hangs(folder: Path) -> None:
    """A child that dies when it is ready, or in every call, is started once and then restarted
    `max_retries` times."""
    max_retries = 3

    async def crash_again_and_again(peer: HostilePeer, case: str) -> None:
        pid_log = folder / f"{case}, {peer.dialect}"  # the child adds a line at each of its starts
        flags = flags_at("ready", do="die") if case == "dies when ready" else ()
        async with run_hostile(
            peer,
            folder,
            *flags,
            f"pid_log={pid_log}",
            start=False,
            restart={"strategy": "immediate", "max_retries": max_retries},
        ) as child:
            ext = child.ext
            first = await result_or_error(ext.start())
            starts, may_fall_back = 1 + max_retries, False
            if case == "dies in each call":
                assert not isinstance(first, ExthostError), first
            else:
                # If the host reads the end of a process together with its last answer, the start
                # fails in the handshake. A first start is then not repeated. In a dialect with a
                # fallback, another process is started for another handshake.
                starts = 1 if isinstance(first, HandshakeFailed) else starts
                may_fall_back = find.find_dialect(peer.dialect).fallback is not None
            most_starts = 2 * starts if may_fall_back else starts
            # Each call fails: it ends a process, or waits for a start that fails, or is refused.
            # The number of calls is only a limit, several times as large as that of processes.
            for _ in range(10 * most_starts):
                assert isinstance(await child.do_or_error("die"), ExthostError)
                if ext.state == "failed":
                    break
            await wait_until(lambda: ext.state == "failed", CALL_SECONDS)
            pids = pid_log.read_text().split()
            assert starts <= len(pids) <= most_starts
            assert isinstance(await child.do_or_error("echo"), ExthostError)
            assert pid_log.read_text().split() == pids  # a call does not start the extension

    trials = Trials("lifetime")
    for peer in all_peers():
        for case in ("dies when ready", "dies in each call"):
            trials.add(case, peer.dialect, partial(crash_again_and_again, peer, case))
    await trials.run()


def test_every_dialect_has_a_hostile_peer() -> None:
    assert set(PEERS) == set(find.BUILT_IN)
