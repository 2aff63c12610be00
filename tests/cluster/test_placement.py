"""Starting processes on nodes: the nodes that are used, and the errors of starts."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest

import exthost
from exthost.cluster.cluster import Cluster
from exthost.cluster.local_nodes import LocalNodes
from exthost.cluster.placer import Node, Placement
from exthost.config.cluster import ClusterSettings
from exthost.config.extension_settings import PoolSettings
from exthost.errors import ConfigError, Refused, SpawnFailed
from exthost.model.launch_plan import LaunchPlan
from exthost.model.spec import Pool, Spec
from exthost.process.environment import Variables
from tests.cluster.remote import remote
from tests.extensions.harness import error_of, hostile_command, wait_until

# The time that the cluster allows for the replies to three starts.
SPAWN_LIMIT_SECONDS = 60.0

PLAN = LaunchPlan(argv=("true",), env=Variables({}))


class UnconnectedNodes:
    """A placer whose node processes never connect."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.released: list[Placement] = []

    async def nodes(self) -> list[Node]:
        return [Node(id=name, name=name) for name in self.names]

    async def place(self, placement: Placement) -> None:
        pass

    has_ended = False

    async def wait_ended(self, placement: Placement) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def release(self, placement: Placement) -> None:
        self.released.append(placement)

    async def close(self) -> None:
        pass


async def test_a_node_that_never_connects_is_an_error_that_names_the_request() -> None:
    placer = UnconnectedNodes("far")
    cluster = Cluster(ClusterSettings(place=0.05), lambda: placer)
    pool = Pool(engine="local", resources=(("CPU", 2), ("tape", 1)))
    spawn = cluster.spawner(Spec(id="a", dialect="morphir", argv=("true",), pool=pool))
    error = await error_of(spawn(PLAN, "a"))
    await cluster.close()
    assert isinstance(error, SpawnFailed) and error.code == "X0422"
    assert "node far" in error.message and "asked for: CPU 2, tape 1" in error.message
    assert len(placer.released) == 1


# A node process that connects and replies to its order with the last argument.
HOSTILE_NODE = """
import socket, sys, time
nonce = sys.stdin.readline().split()[0]
host, _, port = sys.argv[1].rpartition(":")
control = socket.create_connection((host, int(port)))
control.sendall(nonce.encode() + b"\\n")
control.recv(65536)
control.sendall(sys.argv[2].encode() + b"\\n")
while True:
    time.sleep(0.1)
    control.sendall(b'{"beat": true}\\n')
"""


class HostileNodes(LocalNodes):
    """A placer whose node processes reply to each order with the same text."""

    def __init__(self, reply: str) -> None:
        super().__init__(1)
        self._reply = reply

    async def place(self, placement: Placement) -> None:
        argv = [sys.executable, "-S", "-E", "-c", HOSTILE_NODE, placement.host_address, self._reply]
        process = subprocess.Popen(  # noqa: ASYNC220 - as `LocalNodes` does
            argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdin is not None
        process.stdin.write(f"{placement.nonce} \n".encode())
        process.stdin.flush()
        self.running[placement.id], self.placements[placement.id] = process, placement


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ('{"started": -1}', "X0423"),
        ('{"started": true}', "X0423"),
        ('{"started": 1e999}', "X0423"),
        ('{"started": 4711}', "X0432"),
    ],
)
async def test_a_node_that_opens_no_streams_fails_before_the_place_limit(
    reply: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exthost.cluster.cluster._STREAM_SECONDS", 0.2)
    # This node process does not end by itself.
    monkeypatch.setattr("exthost.cluster.local_nodes._END_SECONDS", 0.01)
    cluster = Cluster(ClusterSettings(place=60.0), lambda: HostileNodes(reply))
    pool = Pool(engine="local")
    spawn = cluster.spawner(Spec(id="a", dialect="morphir", argv=("true",), pool=pool))
    began = time.monotonic()
    error = await error_of(spawn(PLAN, "a"))
    await cluster.close()
    assert isinstance(error, SpawnFailed) and error.code == code, error
    # On a busy machine a process may take seconds to start.
    assert time.monotonic() - began < 0.8 * SPAWN_LIMIT_SECONDS


async def test_unknown_connections_are_named_as_the_cause_of_a_failed_start() -> None:
    placer = UnconnectedNodes("far")
    cluster = Cluster(ClusterSettings(place=3.0), lambda: placer)
    spawn = cluster.spawner(Spec(id="a", dialect="morphir", argv=("true",), pool=Pool()))
    starting = asyncio.ensure_future(error_of(spawn(PLAN, "a")))
    await wait_until(lambda: bool(cluster._listener.address))
    await wait_until(lambda: bool(cluster._listener._expected))
    host, _, port = cluster._listener.address.rpartition(":")
    unknown_connections = [(await asyncio.open_connection(host, int(port)))[1] for _ in range(300)]
    error = await starting
    await cluster.close()
    for connection in unknown_connections:
        connection.close()
        with contextlib.suppress(OSError):
            await connection.wait_closed()
    assert error.code == "X0431" and f"{host}:{port}" in error.message, error


@pytest.mark.more
@pytest.mark.parametrize(
    ("pool", "expected"),
    [(Pool(per_node=1), 2), (Pool(engine="local"), 3), (Pool(spread=False), 1)],
)
async def test_processes_are_placed_on_the_expected_number_of_nodes(
    pool: Pool, expected: int
) -> None:
    node_names: Sequence[str] = ("a", "b", "c") if expected == 3 else ("a", "b")
    async with remote(nodes=len(node_names), pool=_pool_settings(pool)) as r:
        await r.extension.start()
        expected_processes = expected if pool.per_node else 3
        await wait_until(lambda: r.extension.stats.processes == expected_processes)
        assert len(r.extension.stats.nodes) == expected
        assert sum(r.extension.stats.nodes.values()) == expected_processes


def _pool_settings(pool: Pool) -> dict[str, object]:
    settings: dict[str, object] = {"engine": "local", "min": 2 if pool.per_node else 3, "max": 3}
    if pool.per_node is not None:
        settings["per_node"] = pool.per_node
    if pool.spread is not None:
        settings["spread"] = pool.spread
    return settings


@pytest.mark.more
async def test_a_start_fails_if_every_node_has_its_maximum_of_processes() -> None:
    async with remote(nodes=1, pool={"engine": "local", "per_node": 1, "max": 2}) as r:
        await r.extension.start()
        (node,) = await r.nodes.nodes()
        spawn = r.extension._starter.spawn
        error = await error_of(spawn(PLAN, "hostile"))  # type: ignore[arg-type]
        assert error.code == "X0421" and "1 alive" in error.message
        assert node.name == "local-1"


def entry(**settings: object) -> dict[str, object]:
    program, *args = hostile_command()
    source = {"type": "process", "command": program, "args": args}
    return {"name": "a", "dialect": "morphir", "source": source, **settings}


@pytest.mark.more
async def test_a_host_starts_a_pool_with_resources_on_a_node() -> None:
    pool = {"engine": "local", "resources": {"CPU": 1}}
    config = {"extensions": [entry(pool=pool)], "defaults": {"pool": {"max": 2}}}
    async with exthost.Host.from_config(config) as host:
        assert await host["a"].call("echo", 1) == 1
        assert sum(host["a"].stats.nodes.values()) == 1


@pytest.mark.more
async def test_pins_are_checked_on_the_node() -> None:
    pinned = entry(pool={"engine": "local"}, sha256={"interpreter": "0" * 64})
    async with exthost.Host.from_config({"extensions": [pinned]}) as host:
        error = await error_of(host["a"].call("echo", 1))
        cause = host["a"].cause
        assert isinstance(cause, Refused) and cause.code == "X0386"
        assert "on node local-" in cause.message and "interpreter" in str(error)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"listen": "10.0.0.5:7700"}, "insecure = true"),
        ({"listen": "0.0.0.0:0", "insecure": False}, "insecure = true"),
        ({"listen": "localhost"}, "HOST:PORT"),
        ({"listen": "127.0.0.1:70000"}, "HOST:PORT"),
        ({"silence": "0s"}, "silence"),
        ({"nodes": 0}, "nodes"),
        ({"adress": "auto"}, "adress"),
    ],
)
def test_mistakes_in_the_cluster_section_are_reported(
    settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        exthost.Host.from_config({"extensions": [], "cluster": settings})
    assert reason in str(caught.value)


@pytest.mark.more
async def test_a_connection_without_a_host_can_use_nodes() -> None:
    argv = hostile_command()
    pool: PoolSettings = {"engine": "local"}
    async with exthost.connect(argv, dialect="morphir", pool=pool) as ext:
        assert await ext.call("echo", 1) == 1
        assert sum(ext.stats.nodes.values()) == 1
