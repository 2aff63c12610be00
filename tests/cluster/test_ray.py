"""A pool on a Ray cluster of three nodes on this machine."""

import asyncio
import importlib.util

import pytest

from exthost.cluster import ray_nodes
from exthost.cluster.ray_nodes import RayNodes
from exthost.errors import SpawnFailed
from tests.cluster.load import under_load
from tests.cluster.ray_loss import (
    KILLS,
    PLACE_SECONDS,
    PROCESSES,
    RayCluster,
    RayFailed,
    kill_on,
    on_ray,
)
from tests.extensions.driving import failing, until

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: exthost[ray]"
    ),
]

SECRET = "s3cr3t-of-an-extension"


async def test_a_pool_on_three_nodes_outlives_what_is_killed_and_loses_no_call_to_a_drain() -> None:
    try:
        ray = await asyncio.to_thread(RayCluster, "a", "b")
    except RayFailed as failed:
        pytest.skip(str(failed))
    try:
        async with on_ray(ray, env={"API_TOKEN": SECRET}) as r:
            assert await r.extension.call("echo", {"x": 1}) == {"x": 1}
            assert len(r.nodes) == PROCESSES  # spread
            error = await failing(r.extension.call("leave", {"code": 3}))
            assert error.evidence.exit == "exited with 3"

            for what in ("actor", "node", "driver"):
                load = await kill_on(r, what, 1)
                assert set(load.ends) <= {"result", "ExtensionGone"}, (what, load.ends)

            async with under_load(r.extension) as load:
                emptied = next(iter(r.nodes))
                name = next(
                    name for name, node in ray.nodes.items() if node["id"].startswith(emptied)
                )
                await asyncio.to_thread(ray.add, "joined")
                assert await asyncio.to_thread(ray.drain, name)
                await until(lambda: bool(r.nodes) and emptied not in r.nodes, PLACE_SECONDS)
            assert set(load.ends) == {"result"}, load.ends
            assert SECRET.encode() not in await asyncio.to_thread(ray.logs)
    finally:
        await asyncio.to_thread(ray.close)


def test_what_is_killed_here_is_part_of_what_the_soak_kills() -> None:
    assert {"actor", "node", "driver"} < set(KILLS)


def test_no_cluster_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_nodes, "_INIT_SECONDS", 3.0)  # Ray itself would try for long
    with pytest.raises(SpawnFailed) as caught:
        RayNodes("127.0.0.1:1")
    assert caught.value.code == "X0424" and "127.0.0.1:1" in caught.value.message
