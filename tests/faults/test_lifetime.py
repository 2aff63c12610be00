"""The life and death of a hostile child, in every dialect: none is left, no call hangs."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exthost.authoring.testing.peers import PEERS, HostilePeer
from exthost.dialects import find
from exthost.errors import CallTimeout, ExtensionGone, ExthostError, HandshakeFailed
from exthost.model.shutdown_steps import Write
from tests.extensions.clock import Clock, run_loop
from tests.extensions.harness import Ledger, outcome, pid_of, until
from tests.extensions.proc import gone, runs
from tests.faults.harness import (
    AT_ONCE_SECONDS,
    CALL_SECONDS,
    HostileRun,
    at,
    every,
    extension,
    hurried,
    run_hostile,
)
from tests.faults.trials import Trials

ROOT = Path(__file__).parents[2]
NEVER = {"strategy": "never"}


def waits(peer: HostilePeer) -> list[float]:
    """Return the seconds of each shutdown step of the dialect."""
    steps = find.find_dialect(peer.dialect).traits.shutdown_steps
    return [step.wait for step in steps if not isinstance(step, Write)]


# -- ending it --------------------------------------------------------------------------------


async def test_one_that_will_not_end_is_dead_at_the_end_of_its_dialects_grace(
    folder: Path, clock: Clock
) -> None:
    """With the real ladders: SIGTERM and end-of-file ignored, or stopped, or in a call."""

    async def stubborn(peer: HostilePeer, way: str) -> None:
        ext = extension(peer, folder, "stubborn")
        await ext.start()
        child = HostileRun(ext, peer, None)
        pid = pid_of(ext)
        if way == "stopped":
            os.kill(pid, signal.SIGSTOP)
        elif way == "hanging":
            hanging = asyncio.ensure_future(child.end("hang", timeout=300))
            await clock.until(lambda: ext.stats.in_flight == 1)
        closing = asyncio.ensure_future(ext.close())
        await run_loop()
        for wait in waits(peer):
            await clock.advance(wait)
        await clock.until(closing.done)  # the kernel's part: no time passes here
        await closing
        assert gone(pid) and ext.state == "stopped"
        if way == "hanging":
            assert isinstance(await hanging, ExtensionGone)
        child.settle()

    clock.stop()
    trials = Trials("lifetime")
    for peer in every():
        for way in ("stubborn", "stopped", "hanging"):
            trials.add(way, peer.dialect, partial(stubborn, peer, way))
    await trials.run(at_once=1)


async def test_one_that_is_stopped_in_a_call_costs_its_caller_the_time_limit(folder: Path) -> None:
    async def frozen(peer: HostilePeer) -> None:
        async with run_hostile(peer, folder) as child:
            error = await child.end("kill", signal=signal.SIGSTOP, timeout=0.5)
            assert isinstance(error, CallTimeout)
            await asyncio.wait_for(child.ext.restart(), CALL_SECONDS)
            await child.is_well()

    trials = Trials("lifetime")
    for peer in every():
        trials.add("SIGSTOP in a call", peer.dialect, partial(frozen, peer))
    await trials.run()


# -- it dies ----------------------------------------------------------------------------------

DEATHS: dict[str, tuple[dict[str, Any], str]] = {
    "exit 0": ({"do": "die", "code": 0}, "exited with 0"),
    "exit 3": ({"do": "die", "code": 3}, "exited with 3"),
    "SIGKILL": ({"do": "kill", "signal": signal.SIGKILL}, "killed by SIGKILL"),
    "SIGSEGV": ({"do": "kill", "signal": signal.SIGSEGV}, "killed by SIGSEGV"),
    "SIGABRT": ({"do": "kill", "signal": signal.SIGABRT}, "killed by SIGABRT"),
    "SIGBUS": ({"do": "kill", "signal": signal.SIGBUS}, "killed by SIGBUS"),
    "half an answer": ({"do": "half", "value": "x" * 99, "then": "die"}, "exited with 3"),
}


async def test_a_crash_during_a_call_is_reported_at_once_with_its_status(folder: Path) -> None:
    async def dies(peer: HostilePeer, words: dict[str, Any], status: str) -> None:
        async with run_hostile(peer, folder) as child:
            at_once = 0 if serial(peer) else 3  # in turn, those would only wait behind it
            kept = [asyncio.ensure_future(child.end("keep", timeout=300)) for _ in range(at_once)]
            error = await fatal(child, words)
            assert isinstance(error, ExtensionGone), error
            assert error.evidence.exit == status, error.evidence
            for other in kept:
                loss = await other
                assert isinstance(loss, ExtensionGone) and loss.evidence.exit == status
            await child.is_well()

    async def fatal(child: HostileRun, words: dict[str, Any]) -> Any:
        return await child.end(words["do"], **{k: v for k, v in words.items() if k != "do"})

    trials = Trials("lifetime")
    for peer in every():
        for name, (words, status) in DEATHS.items():
            trials.add(name, peer.dialect, partial(dies, peer, words, status))
    await trials.run()


def serial(peer: HostilePeer) -> bool:
    traits = find.find_dialect(peer.dialect).traits
    return traits.positional or traits.limits.max_in_flight == 1


async def test_half_closed_pipes_are_reported_as_that(folder: Path) -> None:
    async def closes(peer: HostilePeer, fds: list[int]) -> None:
        async with run_hostile(peer, folder) as child:
            first = await child.end("close", fds=fds)
            if 1 in fds:
                assert isinstance(first, ExtensionGone) and first.code == "X1002", first
            else:
                assert first == "closed"
            if fds == [2]:  # nobody minds; it does not read any more, though
                assert isinstance(await child.end("echo", timeout=0.3), CallTimeout)
                await child.ext.restart()
            elif fds == [0]:
                second = await child.end("echo")
                assert isinstance(second, ExtensionGone) and second.code == "X1002", second
            await child.is_well()

    async def half_and_closed(peer: HostilePeer) -> None:
        async with run_hostile(peer, folder) as child:
            error = await child.end("half", value="x" * 99, then="close")
            assert isinstance(error, ExtensionGone) and "still runs" in error.message, error
            await child.is_well()

    trials = Trials("lifetime")
    for peer in every():
        for fds in ([0], [1], [2], [0, 1], [0, 1, 2]):
            trials.add(f"closes {fds}", peer.dialect, partial(closes, peer, fds))
        trials.add("half an answer, closed", peer.dialect, partial(half_and_closed, peer))
    await trials.run(at_once=12)  # most of them wait for what does not come


# -- what it leaves behind --------------------------------------------------------------------


async def test_grandchildren_that_keep_the_pipes_open_delay_nothing_and_are_gone(
    folder: Path,
) -> None:
    async def leaves(peer: HostilePeer, way: str) -> None:
        async with run_hostile(peer, folder) as child:
            pid = await child.fork()
            if way == "crash":
                began = time.monotonic()
                error = await child.end("die", code=5)
                assert isinstance(error, ExtensionGone) and error.evidence.exit == "exited with 5"
                assert time.monotonic() - began < AT_ONCE_SECONDS
                await until(lambda: not runs(pid), AT_ONCE_SECONDS)
                await child.is_well()
        await until(lambda: not runs(pid), AT_ONCE_SECONDS)

    trials = Trials("lifetime")
    for peer in every():
        for way in ("crash", "close"):
            trials.add(f"grandchild, {way}", peer.dialect, partial(leaves, peer, way))
    await trials.run()


async def test_a_daemon_that_keeps_the_pipes_open_delays_nothing(folder: Path) -> None:
    """Double fork, setsid, deaf to SIGTERM. Where its process tree is held in a namespace it is
    gone with its extension; where only the group is known it cannot be found, and the end of the
    extension is not held up by it."""

    async def daemon(peer: HostilePeer, way: str) -> None:
        pid = 0
        try:
            async with run_hostile(peer, folder) as child:
                pid = await child.fork(daemon=True)
                enclosed = child.ext.enforced["pids"] != "process group"
                if way == "crash":
                    began = time.monotonic()
                    error = await child.end("die", code=5)
                    assert isinstance(error, ExtensionGone), error
                    assert time.monotonic() - began < AT_ONCE_SECONDS
                    await child.is_well()
                began = time.monotonic()
            assert time.monotonic() - began < AT_ONCE_SECONDS
            if enclosed:
                await until(lambda: not runs(pid), AT_ONCE_SECONDS)
        finally:
            if pid > 1 and runs(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    trials = Trials("lifetime")
    for peer in every():
        for way in ("crash", "close"):
            trials.add(f"daemon, {way}", peer.dialect, partial(daemon, peer, way))
    await trials.run()


async def test_leaving_by_an_exception_or_a_cancellation_leaves_nothing(folder: Path) -> None:
    async def left(peer: HostilePeer, how: type[BaseException]) -> None:
        pids = []
        ready = asyncio.Event()

        async def user() -> None:
            async with run_hostile(peer, folder, "stubborn") as child:
                pids.append(pid_of(child.ext))
                pids.append(await child.fork())
                call = asyncio.ensure_future(child.end("hang", timeout=300))
                await until(lambda: child.ext.stats.in_flight == 1, CALL_SECONDS)
                ready.set()
                if how is asyncio.CancelledError:
                    await call
                raise how("on purpose")

        task = asyncio.ensure_future(user())
        if how is asyncio.CancelledError:
            await ready.wait()
            task.cancel()
        with pytest.raises(how):
            await task
        assert gone(pids[0])
        await until(lambda: not runs(pids[1]), AT_ONCE_SECONDS)

    trials = Trials("lifetime")
    for peer in every():
        for how in (RuntimeError, asyncio.CancelledError):
            trials.add(f"left by {how.__name__}", peer.dialect, partial(left, peer, how))
    await trials.run()


# A program that starts one in each dialect, each with a grandchild, and ends in its own way.
PROGRAM = """
import asyncio, gc, os, sys
from pathlib import Path
from tests.faults.harness import HostileRun, every, extension

async def one(peer):
    ext = extension(peer, Path({folder!r}), "stubborn")
    await ext.start()
    run = HostileRun(ext, peer, None)
    print(ext.stats.pid, await run.fork(), flush=True)
    return run

async def main():
    runs = await asyncio.gather(*map(one, every()))
    {end}

asyncio.run(main())
"""
ENDS = {
    "handle dropped": "del runs; gc.collect()",
    "an exception": "raise RuntimeError('on purpose')",
    "sys.exit": "sys.exit(3)",
    "Ctrl-C": "os.kill(os.getpid(), 2); await asyncio.sleep(60)",
    "in a call": "[asyncio.ensure_future(h.do('hang')) for h in runs]; await asyncio.sleep(0.1)",
}


@pytest.mark.sampled
@pytest.mark.parametrize("way", ENDS)
def test_a_program_that_ends_without_closing_leaves_no_process(folder: Path, way: str) -> None:
    text = PROGRAM.format(folder=str(folder), end=ENDS[way])
    ran = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, timeout=180, check=False
    )
    pids = [int(word) for word in ran.stdout.split()]
    assert len(pids) == 2 * len(every()), ran.stderr.decode()
    deadline = time.monotonic() + AT_ONCE_SECONDS
    while left := [pid for pid in pids if runs(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
    for peer in every():
        Trials("lifetime").count(peer.dialect)


# -- starting it ------------------------------------------------------------------------------

BAD_STARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "dies at its start": ("start", {"do": "die"}),
    "dies in the handshake": ("handshake", {"do": "die"}),
    "half a handshake, dies": ("handshake", {"do": "half", "then": "die"}),
    "half a handshake, closes": ("handshake", {"do": "half", "then": "close"}),
    "hangs in the handshake": ("handshake", {"do": "hang"}),
    "never reads": ("start", {"do": "hang"}),
    "closes its pipes": ("handshake", {"do": "close", "fds": [0, 1]}),
    "is killed": ("handshake", {"do": "kill", "signal": signal.SIGKILL}),
    "stops itself": ("handshake", {"do": "kill", "signal": signal.SIGSTOP}),
    "writes what is no frame": (
        "handshake",
        {"do": "spew", "out": [[(b"\xff" * 8 + b"\n").hex(), 9]], "then": "die"},
    ),
}


async def test_a_failed_start_is_reported_once_and_by_every_call(folder: Path) -> None:
    async def fails(peer: HostilePeer, stage: str, words: dict[str, Any]) -> None:
        flags = at(stage, **words)
        limits = {"handshake": "0.6s"}
        async with run_hostile(
            peer, folder, *flags, start=False, limits=limits, restart=NEVER
        ) as child:
            calls = [asyncio.ensure_future(child.end("echo")) for _ in range(3)]
            error = await outcome(child.ext.start())
            assert isinstance(error, HandshakeFailed), error
            assert error.extension == "hostile" and error.help and error.evidence.argv
            for call in calls:
                assert isinstance(await call, ExthostError)
            assert child.ext.state == "failed"

    trials = Trials("lifetime")
    for peer in every():
        for name, (stage, words) in BAD_STARTS.items():
            trials.add(name, peer.dialect, partial(fails, peer, stage, words))
    await trials.run()


async def test_a_crash_loop_ends_with_its_budget_and_no_call_hangs(folder: Path) -> None:
    """Shakes hands and dies; and dies in every call: spawned exactly 1 + max_retries times."""

    async def loop(peer: HostilePeer, flags: tuple[str, ...]) -> None:
        pid_log = folder / f"pids-{peer.dialect}-{len(flags)}"
        policy = {"strategy": "immediate", "max_retries": 3}
        ledger = Ledger()
        ext = extension(
            peer, folder, *flags, f"pid_log={pid_log}",
            ledger=ledger, dialect=hurried(peer, 0.3), restart=policy,
        )  # fmt: skip
        child = HostileRun(ext, peer, ledger)
        await outcome(ext.start())
        for _ in range(40):
            assert isinstance(await child.end("die"), ExthostError)
            if ext.state == "failed":
                break
        await until(lambda: ext.state == "failed", CALL_SECONDS)
        assert len(pid_log.read_text().split()) == 4
        assert isinstance(await child.end("echo"), ExthostError)
        assert len(pid_log.read_text().split()) == 4  # asking does not start it
        await ext.close()
        child.settle()

    trials = Trials("lifetime")
    for peer in every():
        trials.add("dies when ready", peer.dialect, partial(loop, peer, at("ready", do="die")))
        trials.add("dies in each call", peer.dialect, partial(loop, peer, ()))
    await trials.run()


def test_every_dialect_has_its_row() -> None:
    assert set(PEERS) == set(find.BUILT_IN)
