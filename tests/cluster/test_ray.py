"""Pools of processes on Ray clusters of this machine: a node that is started for a host, and a
cluster of three nodes (the fixture `ray`) of which a test kills a part.

On each node, Ray starts an agent of exthost, and the agent starts processes of extensions. The head
is the node that manages the cluster. `on_ray(ray)` starts a pool with one process on each node.
`python -m soak ray` kills each part twenty times.
"""

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
        pid = extension.stats.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await wait_until(lambda: extension.stats.crashes == 2)
        assert await extension.call("echo", 2) == 2


async def test_a_pool_on_three_ray_nodes_behaves_like_a_local_pool(
    ray: RayCluster, tmp_path: Path
) -> None:
    """The steps share one pool, because starting it on Ray takes most of the time."""
    make_certificates(tmp_path / "cluster")
    encrypted = replace(CLUSTER_SETTINGS, certificates=str(tmp_path / "cluster"), is_encrypted=True)
    async with on_ray(ray, encrypted, env={"API_TOKEN": SECRET}) as on_cluster:
        extension = on_cluster.extension
        assert on_cluster.nodes == set(ray.nodes)
        assert sum(extension.stats.nodes.values()) == NODES
        assert await extension.call("echo", {"x": 1}) == {"x": 1}
        check_agents_use_the_sent_package(ray)
        await check_that_a_call_can_be_cancelled(extension)
        assert await stream_on(on_cluster, {"events": 3}) == [0, 1, 2]
        await check_that_no_call_fails_in_a_restart_and_a_drain(ray, on_cluster)
        await check_that_a_drain_finishes_calls(extension)
        assert SECRET.encode() not in await asyncio.to_thread(ray.logs)


def check_agents_use_the_sent_package(ray: RayCluster) -> None:
    for pid in ray.agents():
        variables = dict(variable.decode().partition("=")[::2] for variable in environment_of(pid))
        assert ray.has_file(variables["PYTHONPATH"])


async def check_that_a_call_can_be_cancelled(extension: Extension) -> None:
    call = asyncio.create_task(extension.call("keep", 1))
    await wait_until(lambda: extension.stats.in_flight == 1)
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled() and extension.stats.cancelled == 1


async def check_that_no_call_fails_in_a_restart_and_a_drain(
    ray: RayCluster, on_cluster: OnRay
) -> None:
    """Restart the extension, and drain a node, while calls are made without a pause."""
    extension = on_cluster.extension
    old_pid = extension.stats.pid
    async with under_load(extension) as load:
        await extension.restart()
        assert extension.stats.pid != old_pid
        await wait_until(lambda: extension.stats.processes == NODES, PLACE_SECONDS)
        drained_node = min(on_cluster.nodes)
        assert await asyncio.to_thread(ray.drain, drained_node)
        await wait_until(lambda: drained_node not in on_cluster.nodes, PLACE_SECONDS)
        await asyncio.to_thread(ray.replace, drained_node)
    assert set(load.ends) == {"result"}, load.ends


async def check_that_a_drain_finishes_calls(extension: Extension) -> None:
    last_call = asyncio.create_task(extension.call("echo", 5))
    await asyncio.sleep(0)
    await extension.drain()
    assert await last_call == 5


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
        events = [event async for event in stream]
        # It asks for no resources. Nevertheless it is not on the head, which has no processors.
        assert OnRay(extension, on_cluster.cluster, on_cluster.ray, []).nodes
        return events


@pytest.mark.parametrize("part", KILLS)
async def test_every_call_ends_once_when_any_part_of_a_ray_cluster_is_killed(
    ray: RayCluster, part: str
) -> None:
    async with on_ray(ray) as on_cluster:
        load = await kill_on(on_cluster, part, 1)
        stats = on_cluster.extension.stats
        assert stats.calls == load.made and stats.result == load.ends["result"]
        assert stats.gone == load.ends["ExtensionGone"]
        assert set(load.ends) <= {"result", "ExtensionGone"}, load.ends


def test_a_killed_program_leaves_no_process_on_any_node(ray: RayCluster) -> None:
    kill_host(ray)  # fails if processes remain


async def test_a_pool_ends_with_the_true_cause_after_the_head_and_starts_on_the_next_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray_nodes, "_LIST_SECONDS", 1.0)
    # After how many seconds without a head Ray ends its nodes, and its drivers; the default is 60.
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "15")
    ray = await asyncio.to_thread(RayCluster, 1)
    next_ray: RayCluster | None = None
    try:
        async with on_ray(ray) as on_cluster:
            extension = on_cluster.extension
            await asyncio.to_thread(ray.kill_head)
            error = await error_of(extension.restart())
            assert error.code == "X0424" and "its head did not answer" in error.message, error
            assert await extension.call("echo", 1) == 1

            await wait_until(lambda: extension.state != "ready", PLACE_SECONDS)
            cause = extension.cause
            assert cause is not None and cause.code == "X1001", cause
            assert "the cluster's own process on the node has ended" in cause.message
            await wait_until(
                lambda: extension.cause is not None and extension.cause.code == "X0424",
                PLACE_SECONDS,
            )

            await asyncio.to_thread(ray.close)
            port = ray.address.rpartition(":")[2]
            next_ray = await asyncio.to_thread(RayCluster, 1, RAY_GCS_SERVER_PORT=port)
            assert next_ray.address == ray.address
            await wait_until(lambda: extension.stats.processes == 1, PLACE_SECONDS)
            assert await extension.call("echo", 2) == 2
    finally:
        await asyncio.to_thread((next_ray or ray).close)


@pytest.fixture
def redis() -> Iterator[str]:
    """Start a Redis, and yield its address."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server: install the package redis-server of Debian")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # free, and closed again before Redis starts
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert any("Ready to accept connections" in line for line in process.stdout)
            # Its log is not read any more; it is far shorter than the buffer of the pipe.
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


async def test_a_pool_continues_while_a_head_with_redis_is_restarted(redis: str) -> None:
    ray = await asyncio.to_thread(RayCluster, 1, redis)
    try:
        async with on_ray(ray) as on_cluster:
            await check_that_no_call_fails_without_a_head(ray, on_cluster, seconds=0)
    finally:
        await asyncio.to_thread(ray.close)


async def test_a_pool_continues_while_its_head_is_gone_for_longer_than_a_minute(
    redis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without it, Ray ends its nodes, and its drivers, after 60 s.
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "300")
    ray = await asyncio.to_thread(RayCluster, 1, redis)
    try:
        async with on_ray(ray) as on_cluster:
            await check_that_no_call_fails_without_a_head(ray, on_cluster, seconds=70)
    finally:
        await asyncio.to_thread(ray.close)


async def check_that_no_call_fails_without_a_head(
    ray: RayCluster, on_cluster: OnRay, seconds: float
) -> None:
    """Kill the head under load, start it again after at least this many seconds, and restart the
    extension."""
    extension = on_cluster.extension
    before = extension.stats.pid
    async with under_load(extension) as load:
        await asyncio.to_thread(ray.kill_head)
        calls_at_kill = load.made
        await asyncio.sleep(seconds)
        await wait_until(lambda: load.ends["result"] > calls_at_kill + CALLS_PER_SECOND)
        await asyncio.to_thread(ray.restart_head)
        assert extension.stats.pid == before
        await extension.restart()  # Ray holds the resources of the new process
        assert extension.stats.pid != before
    assert set(load.ends) == {"result"}, load.ends


def test_a_missing_cluster_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ray itself would try for a long time.
    monkeypatch.setattr(ray_nodes, "_INIT_SECONDS", 3.0)
    monkeypatch.setattr(ray_nodes, "_END_SECONDS", 1.0)
    with pytest.raises(SpawnFailed) as caught:
        RayNodes("127.0.0.1:1")
    assert caught.value.code == "X0424" and "127.0.0.1:1" in caught.value.message
