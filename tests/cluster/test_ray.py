"""Pools on Ray clusters of this machine: a node that is started for a host, and a cluster of three
nodes of which a test kills a part. `python -m soak ray` kills each part twenty times."""

import asyncio
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import exthost
from exthost.cluster import ray_nodes
from exthost.cluster.certificates import make_certificates
from exthost.cluster.ray_nodes import RayNodes
from exthost.config import spec_from_mapping
from exthost.errors import SpawnFailed
from exthost.extension.extension import Extension
from tests.cluster.load import CALLS_PER_SECOND, under_load
from tests.cluster.ray_loss import (
    CLUSTER_SETTINGS,
    KILLS,
    NODES,
    PLACE_SECONDS,
    OnRay,
    RayCluster,
    kill_host,
    kill_on,
    on_ray,
)
from tests.cluster.test_placement import entry
from tests.extensions.harness import closed_at_end, error_of, wait_until
from tests.extensions.proc import environment_of
from tests.toys import askback

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: exthost[ray]"
    ),
]

SECRET = "s3cr3t-of-an-extension"


async def test_calls_and_crashes_of_a_pool_on_ray() -> None:
    pool = {"engine": "ray", "min": 2, "max": 2, "resources": {"CPU": 0.5}}
    restart = {"strategy": "immediate", "max_retries": 50}
    config = {
        "extensions": [entry(pool=pool, restart=restart)],
        "cluster": {"address": "local", "place": "150s"},
    }
    async with exthost.Host.from_config(config) as host:
        extension = host["a"]
        assert await extension.call("echo", {"x": 1}) == {"x": 1}
        await wait_until(lambda: extension.stats.processes == 2, 120)
        assert sum(extension.stats.nodes.values()) == 2
        error = await error_of(extension.call("leave", {"code": 3}))
        assert error.evidence.exit == "exited with 3"
        os.kill(extension.stats.pid or 0, signal.SIGKILL)
        await wait_until(lambda: extension.stats.crashes == 2)
        assert await extension.call("echo", 2) == 2


async def test_a_pool_on_three_ray_nodes_behaves_like_a_local_pool(
    ray: RayCluster, tmp_path: Path
) -> None:
    make_certificates(tmp_path / "cluster")
    encrypted = replace(CLUSTER_SETTINGS, certificates=str(tmp_path / "cluster"), is_encrypted=True)
    async with on_ray(ray, encrypted, env={"API_TOKEN": SECRET}) as r:
        extension = r.extension
        assert r.nodes == set(ray.nodes) and sum(extension.stats.nodes.values()) == NODES
        assert await extension.call("echo", {"x": 1}) == {"x": 1}
        for pid in ray.agents():  # agents use the package that was sent to Ray
            variables = dict(
                variable.decode().partition("=")[::2] for variable in environment_of(pid)
            )
            assert ray.has_file(variables["PYTHONPATH"])

        call = asyncio.create_task(extension.call("keep", 1))
        await wait_until(lambda: extension.stats.in_flight == 1)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled() and extension.stats.cancelled == 1

        assert await stream_on(r, {"events": 3}) == [0, 1, 2]

        before = extension.stats.pid
        async with under_load(extension) as load:
            await extension.restart()
            assert extension.stats.pid != before
            await wait_until(lambda: extension.stats.processes == NODES, PLACE_SECONDS)
            drained_node = sorted(r.nodes)[0]
            assert await asyncio.to_thread(ray.drain, drained_node)
            await wait_until(lambda: drained_node not in r.nodes, PLACE_SECONDS)
            await asyncio.to_thread(ray.replace, drained_node)
        assert set(load.ends) == {"result"}, load.ends

        last_call = asyncio.create_task(extension.call("echo", 5))
        await asyncio.sleep(0)
        await extension.drain()
        assert await last_call == 5
        assert SECRET.encode() not in await asyncio.to_thread(ray.logs)


async def stream_on(on_cluster: OnRay, params: object) -> list[object]:
    """Return the events of a stream of another extension on the same nodes."""
    program = Path(askback.__file__).with_name("askback_child.py")
    source = {"type": "process", "command": sys.executable, "args": ["-S", "-E", str(program)]}
    spec = spec_from_mapping({"name": "toy", "source": source, "pool": {"engine": "ray"}})

    async def config_get(_: object) -> str:
        return "toy"

    extension = Extension(
        spec,
        askback.DIALECT,
        handlers={"config.get": config_get},
        spawn=on_cluster.cluster.spawner(spec),
    )
    async with closed_at_end(extension), extension.stream("run", params) as stream:
        return [event async for event in stream]


@pytest.mark.parametrize("part", KILLS)
async def test_every_call_ends_once_when_any_part_of_a_ray_cluster_is_killed(
    ray: RayCluster, part: str
) -> None:
    async with on_ray(ray) as r:
        load = await kill_on(r, part, 1)
        stats = r.extension.stats
        assert stats.calls == load.made and stats.result == load.ends["result"]
        assert stats.gone == load.ends["ExtensionGone"]
        assert set(load.ends) <= {"result", "ExtensionGone"}, load.ends


def test_a_killed_program_leaves_no_process_on_any_node(ray: RayCluster) -> None:
    kill_host(ray)


async def test_calls_work_without_the_head_of_a_cluster_and_starts_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray_nodes, "_ANSWER_SECONDS", 5.0)
    ray = await asyncio.to_thread(RayCluster, 1)
    try:
        async with on_ray(ray) as r:
            ray.kill_head()
            error = await error_of(r.extension.restart())
            assert error.code == "X0424", error
            assert await r.extension.call("echo", 1) == 1
    finally:
        await asyncio.to_thread(ray.close)


@pytest.fixture
def redis() -> Iterator[str]:
    """Start a Redis, and yield its address."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server: install the package redis-server of Debian")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # free, and closed again before Redis starts
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert any("Ready to accept connections" in line for line in process.stdout)
    # Its log is not read any more; it is far shorter than the buffer of the pipe.
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait()
    process.stdout.close()


async def test_a_pool_continues_while_a_head_with_redis_is_restarted(redis: str) -> None:
    ray = await asyncio.to_thread(RayCluster, 1, redis)
    try:
        async with on_ray(ray) as r:
            before = r.extension.stats.pid
            async with under_load(r.extension) as load:
                await asyncio.to_thread(ray.kill_head)
                calls_at_kill = load.made
                await wait_until(lambda: load.ends["result"] > calls_at_kill + CALLS_PER_SECOND)
                await asyncio.to_thread(ray.restart_head)
                assert r.extension.stats.pid == before
                await r.extension.restart()  # Ray holds the resources of the new process
                assert r.extension.stats.pid != before
            assert set(load.ends) == {"result"}, load.ends
    finally:
        await asyncio.to_thread(ray.close)


def test_a_missing_cluster_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ray itself would try for a long time.
    monkeypatch.setattr(ray_nodes, "_INIT_SECONDS", 3.0)
    monkeypatch.setattr(ray_nodes, "_END_SECONDS", 1.0)
    with pytest.raises(SpawnFailed) as caught:
        RayNodes("127.0.0.1:1")
    assert caught.value.code == "X0424" and "127.0.0.1:1" in caught.value.message
