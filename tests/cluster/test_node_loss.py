"""SIGKILL of a child, a node process, a node and the host under load: every call ends once, and
nothing is left. `python -m soak cluster` repeats each twenty times."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.load import PATIENT_BREAKER, REVIVED, Load, kill_repeatedly
from tests.cluster.remote import Remote, remote
from tests.extensions.driving import until
from tests.extensions.looking import runs

pytestmark = pytest.mark.more

ROOT = Path(__file__).parents[2]
POOL = {"engine": "local", "min": 3, "max": 3}


def kill_child(r: Remote) -> Callable[[], bool]:
    pid = r.extension.stats.pid or 0
    os.kill(pid, signal.SIGKILL)
    return lambda: not runs(pid)


def kill_node_process(r: Remote) -> Callable[[], bool]:
    pid, child = r.node_pids[0], r.children()[r.node_pids[0]]
    os.kill(pid, signal.SIGKILL)
    return lambda: not runs(pid) and not runs(child)


def kill_node(r: Remote) -> Callable[[], bool]:
    """Kill everything on the node of the first process."""
    name = next(iter(r.nodes.placements.values())).node.name
    pids = r.pids_of_node(name)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return lambda: not any(map(runs, pids))


KILLS: dict[str, Callable[[Remote], Callable[[], bool]]] = {
    "child": kill_child,
    "node process": kill_node_process,
    "node": kill_node,
}


async def repeated(what: str, rounds: int, **settings: Any) -> tuple[Load, dict[str, int]]:
    """Kill this often. Return the account of the calls, and the host's own."""
    async with remote(
        pool=POOL, restart=REVIVED, breaker=PATIENT_BREAKER, nodes=3, **settings
    ) as r:
        await r.extension.start()
        await until(lambda: r.extension.stats.processes == 3)

        async def kill() -> Callable[[], bool]:
            await until(lambda: bool(r.nodes.placements))
            return KILLS[what](r)

        load = await kill_repeatedly(r.extension, rounds, kill, 3)
        stats = r.extension.stats
    return load, {"calls": stats.calls, "result": stats.result, "gone": stats.gone}


@pytest.mark.parametrize("what", KILLS)
async def test_every_call_ends_once_whatever_is_killed(what: str) -> None:
    load, counts = await repeated(what, 3)
    assert counts["calls"] == load.made
    assert counts["result"] == load.ends["result"] and counts["gone"] == load.ends["ExtensionGone"]
    assert set(load.ends) <= {"result", "ExtensionGone"}, load.ends


async def test_calls_that_may_be_repeated_have_a_result_though_a_node_is_killed() -> None:
    load, _ = await repeated("node", 3, retry="once")
    # A call is sent again once; only the second loss of the same call is an error.
    assert set(load.ends) <= {"result", "ExtensionGone"}
    assert load.ends["ExtensionGone"] <= 1, load.ends


HOST = """
import asyncio, sys
from exthost import Host
from exthost.errors import ExthostError
async def work(ext):
    while True:
        try:
            await ext.call("echo", 1)
        except ExthostError:
            pass
        await asyncio.sleep(0.005)
async def main():
    source = {"type": "process", "command": sys.argv[1], "args": sys.argv[2:]}
    entry = {"name": "a", "dialect": "morphir", "source": source,
             "pool": {"engine": "local", "min": 2, "max": 2}}
    async with Host.from_config({"extensions": [entry]}) as host:
        ext = host["a"]
        while ext.stats.processes < 2:
            await asyncio.sleep(0.01)
        print(*(s.lifetime.child.pid for s in ext._supervisor.processes.sessions), flush=True)
        await asyncio.gather(*(work(ext) for _ in range(4)))
asyncio.run(main())
"""


def kill_host(hostile: str = str(ROOT / "tests" / "extensions" / "hostile.py")) -> None:
    """Start a host with two processes on nodes, kill it under load, and wait until nothing of it
    is left."""
    words = [sys.executable, "-c", HOST, sys.executable, "-S", "-E", hostile, "ignore_eof"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    host = subprocess.Popen(words, stdout=subprocess.PIPE, env=environ)
    assert host.stdout is not None
    try:
        pids = [int(word) for word in host.stdout.readline().split()]
        assert len(pids) == 2 and all(map(runs, pids))
    finally:
        host.kill()
        host.wait()
        host.stdout.close()
    asyncio.run(until(lambda: not any(map(runs, pids))))


def test_nothing_is_left_of_a_host_that_is_killed_under_load() -> None:
    for _ in range(2):
        kill_host()
