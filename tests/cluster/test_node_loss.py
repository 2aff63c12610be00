"""A process, an agent, a node or the host is killed under load: every call ends once, and no
process remains.

A node is a machine on which an agent starts processes for the host. Here all nodes are on this
machine (`remote(nodes=3)`), and the processes are those of the hostile test extension.
`python -m soak cluster` repeats each case twenty times.
"""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.load import ALWAYS_RESTART, PATIENT_BREAKER, Load, kill_repeatedly
from tests.cluster.loaded_host import kill_loaded_host
from tests.cluster.remote import RemoteExtension, remote
from tests.extensions.harness import hostile_command, wait_until
from tests.extensions.proc import is_running

pytestmark = pytest.mark.more

POOL = {"engine": "local", "min": 3, "max": 3}


def kill_child(r: RemoteExtension) -> Callable[[], bool]:
    pid = r.extension.stats.pid or 0
    os.kill(pid, signal.SIGKILL)
    return lambda: not is_running(pid) and r.extension.stats.pid != pid


def kill_agent(r: RemoteExtension) -> Callable[[], bool]:
    pids = r.pids_of_node(_first_node(r))
    os.kill(pids[0], signal.SIGKILL)
    return lambda: not any(map(is_running, pids)) and r.extension.stats.pid not in pids


def _first_node(r: RemoteExtension) -> str:
    return next(iter(r.extension.stats.nodes))


def kill_node(r: RemoteExtension) -> Callable[[], bool]:
    """Kill everything on the node of the first process."""
    pids = r.pids_of_node(_first_node(r))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return lambda: not any(map(is_running, pids)) and r.extension.stats.pid not in pids


# Functions that kill a part, and return a condition: the part has ended, and been replaced.
KILLS: dict[str, Callable[[RemoteExtension], Callable[[], bool]]] = {
    "child": kill_child,
    "agent": kill_agent,
    "node": kill_node,
}


async def kill_under_load(
    part: str, rounds: int, nodes: int = 3, **settings: Any
) -> tuple[Load, dict[str, int]]:
    """Kill this part this often under load. Return how the calls ended, as the callers and as the
    host have counted them."""
    async with remote(
        pool=POOL, restart=ALWAYS_RESTART, breaker=PATIENT_BREAKER, nodes=nodes, **settings
    ) as r:
        await r.extension.start()
        await wait_until(lambda: r.extension.stats.processes == 3)

        async def kill() -> Callable[[], bool]:
            await wait_until(lambda: r.extension.stats.processes == 3)
            return KILLS[part](r)

        load = await kill_repeatedly(r.extension, rounds, kill, 3)
        stats = r.extension.stats
    return load, {"calls": stats.calls, "result": stats.result, "gone": stats.gone}


@pytest.mark.parametrize("part", KILLS)
async def test_every_call_ends_once_when_any_process_is_killed(part: str) -> None:
    load, counts = await kill_under_load(part, 3)
    assert counts["calls"] == load.made
    assert counts["result"] == load.ends["result"] and counts["gone"] == load.ends["ExtensionGone"]
    assert set(load.ends) <= {"result", "ExtensionGone"}, load.ends


async def test_with_retry_once_every_call_has_a_result_despite_a_killed_node() -> None:
    # A call is sent again only once. With six nodes no node has two processes, so a call cannot be
    # lost twice with the same node.
    load, _ = await kill_under_load("node", 3, nodes=6, retry="once")
    assert set(load.ends) == {"result"}, load.ends


def kill_host() -> float:
    """Kill a host with two processes on nodes, which ignore the end of stdin. Return after how many
    seconds no process remains."""
    program, *args = hostile_command("ignore_eof")
    entry = {
        "name": "a",
        "dialect": "morphir",
        "source": {"type": "process", "command": program, "args": args},
        "pool": {"engine": "local", "min": 2, "max": 2},
    }
    return kill_loaded_host({"extensions": [entry]}, 2)


def test_a_host_that_is_killed_under_load_leaves_no_process() -> None:
    for _ in range(2):
        kill_host()
