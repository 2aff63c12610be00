"""A host on a machine outside a Ray cluster runs a pool of an extension there, through Ray's client
(`ray://HEAD:10001`).

Ray starts agents on the nodes, which start the processes of the pool. `ray` is a cluster of three
nodes on this machine, and `on_ray(ray)` starts a pool with one process on each.
"""

import asyncio
import importlib.util

import pytest

from tests.cluster.load import under_load
from tests.cluster.ray_loss import NODES, PLACE_SECONDS, RayCluster, on_ray, wait_until_held
from tests.extensions.harness import wait_until

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None or importlib.util.find_spec("grpc") is None,
        reason="Ray's client is not installed: ray[client]",
    ),
]


async def test_a_pool_is_placed_drained_and_restarted_through_rays_client(ray: RayCluster) -> None:
    async with on_ray(ray, address=ray.client_address, pool={"per_node": 2}) as r:
        extension = r.extension
        assert r.nodes == set(ray.nodes)
        nodes = {node.id: node for node in await r.cluster.nodes()}
        # Each node has two processors, and one of them is held for a process of the pool.
        assert [(nodes[id].free or {})["CPU"] for id in ray.nodes] == [1] * NODES

        async with under_load(extension) as load:
            before = extension.stats.pid
            await extension.restart()
            assert extension.stats.pid != before
            await wait_until(lambda: extension.stats.processes == NODES, PLACE_SECONDS)
            # Only the resources of these processes are still held.
            await wait_until_held(ray, NODES)
            drained_node = sorted(r.nodes)[0]
            assert await asyncio.to_thread(ray.drain, drained_node)
            try:
                await wait_until(lambda: drained_node not in r.nodes, PLACE_SECONDS)
            finally:  # other tests need all nodes
                await asyncio.to_thread(ray.replace, drained_node)
        assert set(load.ends) == {"result"}, load.ends


async def test_a_lost_connection_of_rays_client_is_replaced_by_the_next_start(
    ray: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How many seconds Ray's client tries to connect again; the default is 30.
    monkeypatch.setenv("RAY_CLIENT_RECONNECT_GRACE_PERIOD", "2")
    async with on_ray(ray, address=ray.client_address) as r:
        # The process that served the client of another test may not have ended yet.
        assert ray.kill_client_servers() >= 1
        await wait_until(lambda: r.placers[0].has_ended, PLACE_SECONDS)
        assert await r.extension.call("echo", 1) == 1
        await r.extension.restart()
        assert len(r.placers) == 2
        assert await r.extension.call("echo", 2) == 2
