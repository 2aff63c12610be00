"""Many concurrent calls next to a hostile extension, many cancelled calls, and restarts: no call is
lost, no answer is wrong, and no call stays pending.

A hostile extension is a program that misbehaves on command (`tests/faults/harness.py`). Each test
adds a trial for each dialect, and `trials.run` runs a sample of them. `check_calls` checks that
each call ended exactly once.
"""

import asyncio
import random
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from exthost.authoring.testing.peers import HostilePeer
from exthost.errors import ExthostError
from tests.extensions.harness import wait_until
from tests.faults.harness import CALL_SECONDS, HostileRun, all_peers, run_hostile
from tests.faults.trials import Trials


async def misbehave(child: HostileRun, rng: random.Random) -> None:
    """Send random hostile commands until cancelled."""
    behaviours = [
        lambda: child.spew((b"noise\n", 20_000), timeout=1),
        lambda: child.spew((b"\xff" * 100, 3_000), timeout=0.2),
        lambda: child.spew((b"e\n", 20_000), fd=2, timeout=1),
        lambda: child.do_or_error("half", then="die", timeout=1),
        lambda: child.do_or_error("die"),
        lambda: child.do_or_error("hang", timeout=0.1),
        lambda: child.do_or_error("close", fds=[1], timeout=1),
        lambda: child.do_or_error("echo", value="x" * 200_000, timeout=1),
    ]
    while True:
        await rng.choice(behaviours)()


@pytest.mark.more
async def test_a_hostile_neighbour_does_not_affect_a_thousand_calls_of_another(
    folder: Path,
) -> None:
    async def call_next_to_hostile_child(peer: HostilePeer) -> None:
        policy = {"strategy": "immediate", "max_retries": 1000}
        async with (
            run_hostile(peer, folder, watched=False, restart=policy) as hostile_child,
            run_hostile(peer, folder, watched=False) as good_child,
        ):
            misbehaving = asyncio.ensure_future(misbehave(hostile_child, random.Random(6)))
            numbers = iter(range(1000))

            async def make_calls() -> None:
                for n in numbers:
                    assert await good_child.do(value={"n": n}, timeout=CALL_SECONDS) == {"n": n}

            await asyncio.gather(*(make_calls() for _ in range(8)))
            assert not misbehaving.done()
            misbehaving.cancel()
            await asyncio.wait([misbehaving])
            assert good_child.ext.stats.restarts == 0 and good_child.ext.stats.dropped == {}
            good_child.check_calls(result=1000)

    trials = Trials("pipes")
    for peer in all_peers():
        trials.add("a hostile neighbour", peer.dialect, partial(call_next_to_hostile_child, peer))
    await trials.run(at_once=2)


@pytest.mark.more
async def test_many_cancelled_calls_leave_no_pending_call(folder: Path) -> None:
    """Calls are cancelled or time out before they are sent, while they are in flight, and when
    their answer arrives."""

    async def cancel_many_calls(peer: HostilePeer, watched: bool) -> None:
        rng = random.Random(9)
        calls = 100 if peer.dialect == "cigen" else 300
        policy = {"strategy": "immediate", "max_retries": 1000}
        async with run_hostile(peer, folder, watched=watched, restart=policy) as child:
            ends: Counter[str] = Counter()

            async def make_call(n: int) -> None:
                behaviour, limit = rng.choice(["echo", "echo", "keep"]), rng.choice([0.02, 10])
                task = asyncio.ensure_future(child.do_or_error(behaviour, value=n, timeout=limit))
                for _ in range(rng.choice([0, 0, 1, 2, 5, 20])):
                    await asyncio.sleep(0)
                if behaviour == "keep" or rng.random() < 0.5:
                    task.cancel()
                await asyncio.wait([task])
                if task.cancelled():
                    ends["cancelled"] += 1
                elif isinstance(task.result(), ExthostError):
                    ends["lost"] += 1
                else:
                    assert task.result() == n
                    ends["result"] += 1

            for start in range(0, calls, 50):
                await asyncio.gather(*(make_call(n) for n in range(start, start + 50)))
                assert child.ext.stats.in_flight == child.ext.stats.waiting == 0
            assert sum(ends.values()) == calls and ends["cancelled"] > 0
            await child.check_answers()

    trials = Trials("pipes")
    for peer in all_peers():
        for watched in (False, True):
            trials.add("cancellations", peer.dialect, partial(cancel_many_calls, peer, watched))
    await trials.run(at_once=2)


@pytest.mark.more
async def test_restarts_under_a_storm_of_calls_lose_no_call(folder: Path) -> None:
    """At a restart the old process answers its calls while the new one starts. If the process is
    killed instead, its calls fail."""

    async def restart_under_load(peer: HostilePeer, method: str) -> None:
        policy = {"strategy": "immediate", "max_retries": 1000}
        async with run_hostile(peer, folder, watched=False, restart=policy) as child:
            ends: Counter[str] = Counter()
            is_over = False

            async def make_calls(n: int) -> None:
                while not is_over:
                    value = await child.do_or_error("echo", value=n, timeout=CALL_SECONDS)
                    if isinstance(value, ExthostError):
                        ends[value.kind] += 1
                    else:
                        assert value == n
                        ends["result"] += 1

            workers = [asyncio.ensure_future(make_calls(n)) for n in range(6)]
            for _ in range(4):
                if method == "restart":
                    await child.ext.restart()
                else:
                    pid = child.ext.stats.pid
                    child.ext.kill()
                    await wait_until(lambda pid=pid: child.ext.stats.pid not in (pid, None), 60)  # type: ignore[misc]
                before = ends["result"]
                await wait_until(lambda before=before: ends["result"] > before + 20, 60)  # type: ignore[misc]
            is_over = True
            await asyncio.gather(*workers)
            allowed = {"result"} if method == "restart" else {"result", "ExtensionGone"}
            assert set(ends) <= allowed, ends
            child.check_calls()

    trials = Trials("lifetime")
    for peer in all_peers():
        for method in ("restart", "kill"):
            trials.add(
                f"{method} under a storm", peer.dialect, partial(restart_under_load, peer, method)
            )
    await trials.run(at_once=2)
