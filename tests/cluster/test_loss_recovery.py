"""The loss of a node is not a crash of the extension, and processes are spread over the nodes.

A node is a machine of a cluster. An agent on it starts processes for the host, and if the agent is
gone, the node is lost. Here nodes are agents on this machine: `remote(nodes=2)` yields `r`, an
extension on the nodes "local-1" and "local-2"; `r.nodes` adds and removes nodes.
"""

import asyncio
import os
import signal
from typing import Any

import pytest

from exthost.cluster.cluster import Cluster
from exthost.cluster.local_nodes import LocalNodes
from exthost.config import spec_from_mapping
from exthost.config.cluster import ClusterSettings
from exthost.extension.extension import Extension
from exthost.extension.startup import Start
from tests.cluster.load import under_load
from tests.cluster.remote import remote
from tests.extensions.harness import SHORT_SHUTDOWN, error_of, hostile_command, wait_until

pytestmark = pytest.mark.more

NEVER = {"strategy": "never"}


async def test_a_pool_recovers_from_a_lost_node_whatever_its_restart_strategy_says() -> None:
    pool = {"engine": "local", "min": 3, "max": 3}
    async with remote(pool=pool, restart=NEVER, breaker={"failures": 1}) as r:
        await r.extension.start()
        await wait_until(lambda: r.extension.stats.processes == 3)
        for _ in range(2):
            os.kill(r.agent_pids[0], signal.SIGKILL)
            await wait_until(lambda: r.extension.stats.processes < 3)
            await wait_until(lambda: r.extension.stats.processes == 3)
        assert r.extension.stats.crashes == 0 and r.extension.stats.breaker == "closed"
        assert await r.extension.call("echo", 1) == 1


async def test_a_start_whose_node_is_lost_during_the_handshake_tries_other_nodes() -> None:
    async with remote("hang_at=initialize", pool={"engine": "local"}, restart=NEVER) as r:
        starting = asyncio.ensure_future(error_of(r.extension.start()))
        await wait_until(lambda: bool(r.extension._supervisor.processes.starts))
        (start,) = r.extension._supervisor.processes.starts
        lost: set[str] = set()
        for _ in range(3):
            await wait_until(lambda: start.session is not None and _node_of(start) not in lost)
            assert r.extension.state == "starting"
            lost.add(_node_of(start))
            os.kill(r.nodes.agents[_node_of(start)].pid, signal.SIGKILL)
        error = await starting
        assert lost == {"local-1", "local-2", "local-3"}
        assert error.code == "X0423" and "was lost while the process started" in error.message


def _node_of(start: Start) -> str:
    assert start.session is not None
    return start.session.lifetime.child.node


async def test_a_single_process_comes_back_when_a_node_joins() -> None:
    async with remote(nodes=1, pool={"engine": "local"}, restart=NEVER) as r:
        await r.extension.start()
        agent = r.agent_pids[0]
        r.nodes.leave("local-1")
        os.kill(agent, signal.SIGKILL)
        await wait_until(lambda: r.extension.state == "backoff")
        r.nodes.join("new")
        await wait_until(lambda: set(r.extension.stats.nodes) == {"new"})
        assert await r.extension.call("echo", 1) == 1
        assert r.extension.stats.crashes == 0


async def test_a_crash_on_a_node_is_still_a_crash() -> None:
    async with remote(nodes=1, pool={"engine": "local"}, restart=NEVER) as r:
        await r.extension.start()
        os.kill(r.extension.stats.pid or 0, signal.SIGKILL)
        await wait_until(lambda: r.extension.state == "failed")
        assert r.extension.stats.crashes == 1


async def test_calls_avoid_a_node_that_has_become_silent() -> None:
    pool = {"engine": "local", "min": 2, "max": 2}
    async with remote(nodes=2, pool=pool) as r:
        await r.extension.start()
        await wait_until(lambda: r.extension.stats.processes == 2)
        frozen, other = sorted(r.extension.stats.nodes)
        os.kill(r.nodes.agents[frozen].pid, signal.SIGSTOP)
        sessions = r.extension._supervisor.processes.workers
        children = {session.lifetime.child.node: session for session in sessions}
        await wait_until(lambda: children[frozen].lifetime.child.is_node_silent)
        answers = await asyncio.gather(*(r.extension.call("echo", n) for n in range(50)))
        assert answers == list(range(50))
        assert not children[frozen].pending and not children[other].lifetime.child.is_node_silent
        os.kill(r.nodes.agents[frozen].pid, signal.SIGCONT)
        await wait_until(lambda: not children[frozen].lifetime.child.is_node_silent)


async def test_six_extensions_are_spread_over_three_nodes_of_two_processors() -> None:
    nodes = LocalNodes(3, {"CPU": 2})
    cluster = Cluster(ClusterSettings(silence=60.0), lambda: nodes)
    program, *args = hostile_command()
    source = {"type": "process", "command": program, "args": args}
    pool = {"engine": "local", "resources": {"CPU": 1}}
    specs = [spec_from_mapping({"name": f"x{n}", "source": source, "pool": pool}) for n in range(6)]
    extensions = [Extension(spec, SHORT_SHUTDOWN, spawn=cluster.spawner(spec)) for spec in specs]
    try:
        await asyncio.gather(*(extension.start() for extension in extensions))
        used = [name for extension in extensions for name in extension.stats.nodes]
        assert sorted(used) == ["local-1", "local-1", "local-2", "local-2", "local-3", "local-3"]
        assert len(cluster.agents.connections) == 3  # one for each node, not for each process
    finally:
        for extension in extensions:
            await extension.close()
        await cluster.close()


@pytest.mark.parametrize(
    ("limits", "can_grow"),
    [
        ({"resources": {"CPU": 1}}, False),
        ({"per_node": 1}, False),
        # The placer waits for a new node, and not for room on a node with its `per_node` processes.
        ({"per_node": 1, "resources": {"CPU": 0.5}}, True),
    ],
)
async def test_a_restart_of_a_pool_that_fills_the_cluster_goes_process_by_process(
    limits: dict[str, Any], can_grow: bool
) -> None:
    pool = {"engine": "local", "min": 3, "max": 3, **limits}
    async with remote(nodes=3, resources={"CPU": 1}, pool=pool) as r:
        r.nodes.can_grow = can_grow
        await r.extension.start()
        await wait_until(lambda: r.extension.stats.processes == 3)
        before = set(r.extension._supervisor.processes.workers)
        async with under_load(r.extension) as load:
            await wait_until(lambda: load.ends["result"] > 20)
            await r.extension.restart()
            await wait_until(lambda: r.extension.stats.processes == 3)
        after = set(r.extension._supervisor.processes.workers)
        assert not before & after
        assert set(load.ends) == {"result"}, load.ends
