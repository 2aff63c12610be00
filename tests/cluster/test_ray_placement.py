"""The nodes of a Ray cluster on which processes run: several extensions, a full cluster, and a node
that joins.

The fixture `ray` is a cluster of three nodes on this machine, and `on_ray(ray)` starts a pool of
processes on it. Ray starts an agent on each node, and the agent starts processes of extensions.
"""

import asyncio
import importlib.util
from collections import Counter

import pytest

import exthost
from exthost.cluster import cluster
from exthost.config import spec_from_mapping
from exthost.extension.extension import Extension
from tests.cluster.load import under_load
from tests.cluster.ray_loss import NODES, PLACE_SECONDS, OnRay, RayCluster, on_ray, wait_until_held
from tests.cluster.test_placement import entry
from tests.extensions.harness import SHORT_SHUTDOWN, closed_at_end, wait_until

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: exthost[ray]"
    ),
]

# Each node has two processors, and each process needs one.
PER_NODE = 2


async def test_six_extensions_are_spread_over_three_ray_nodes_of_two_processors(
    ray: RayCluster,
) -> None:
    pool = {"engine": "ray", "resources": {"CPU": 1}}
    names = [f"x{n}" for n in range(NODES * PER_NODE)]
    config = {
        "extensions": [{**entry(pool=pool), "name": name} for name in names],
        "cluster": {"address": ray.address, "place": f"{PLACE_SECONDS:g}s", "silence": "30s"},
    }
    async with exthost.Host.from_config(config) as host:
        await asyncio.gather(*(host[name].start() for name in names))
        used = Counter(node for name in names for node in host[name].stats.nodes)
        assert list(used.values()) == [PER_NODE] * NODES, used
        assert len(ray.agents()) == NODES  # one for each node, not for each process
    await asyncio.to_thread(asyncio.run, wait_until(ray.is_empty))


async def start_another(on_cluster: OnRay) -> set[str]:
    """Start another extension on the same cluster, end it, and return the ids of its nodes."""
    spec = spec_from_mapping(
        {**entry(pool={"engine": "ray", "resources": {"CPU": 1}}), "name": "b"}
    )
    extension = Extension(spec, SHORT_SHUTDOWN, spawn=on_cluster.cluster.spawner(spec))
    async with closed_at_end(extension):
        await extension.start()
        return OnRay(extension, on_cluster.cluster, on_cluster.ray, []).nodes


async def test_a_pool_that_fills_a_ray_cluster_restarts_and_moves_without_losing_a_call(
    ray: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A start of another extension waits meanwhile, and goes to the node that joins.
    monkeypatch.setattr(cluster, "_MOVE_SECONDS", 0.0)
    size = NODES * PER_NODE
    async with on_ray(ray, pool={"max": size}) as r:
        extension = r.extension
        before = set(extension._supervisor.processes.workers)
        async with under_load(extension) as load:
            await extension.restart()
            await wait_until(lambda: extension.stats.processes == size, PLACE_SECONDS)
            assert not before & set(extension._supervisor.processes.workers)

            waiting = asyncio.create_task(start_another(r))
            # Ray holds the resources of the pool, and has the request of the other extension.
            await wait_until_held(ray, size + 1)
            assert not waiting.done()
            new_node = await asyncio.to_thread(ray.add)
            assert await waiting == {new_node}
            await wait_until(lambda: new_node in r.nodes, PLACE_SECONDS)
            # The old processes have ended, too.
            await wait_until(lambda: sum(extension.stats.nodes.values()) == size, PLACE_SECONDS)
        assert set(load.ends) == {"result"}, load.ends
        assert extension.stats.crashes == 0
    await asyncio.to_thread(ray.remove, new_node)
