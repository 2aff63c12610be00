"""Starting processes on nodes: the nodes that are used, and the errors of starts.

A Cluster starts processes of extensions on nodes. Its placer (here LocalNodes, nodes on this
machine) lists the nodes, holds resources for a process, and starts an agent on a node. The agent
connects to the host, sends a hello, and starts processes. `spawn = cluster.spawner(spec)` is the
function by which an extension starts a process.
"""

import asyncio
import contextlib
import gc
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

import exthost
from exthost._version import __version__
from exthost.cluster import local_nodes
from exthost.cluster.cluster import Cluster
from exthost.cluster.local_nodes import LocalNodes
from exthost.cluster.placer import AgentStart, HeldPlace, Node, PlaceRequest
from exthost.config.cluster import ClusterSettings
from exthost.config.extension_settings import PoolSettings
from exthost.errors import ConfigError, Refused, SpawnFailed
from exthost.faces.http_server.metrics import Metrics
from exthost.launch.plan import admit
from exthost.model.launch_plan import LaunchPlan
from exthost.model.spec import Pool, Spec
from exthost.process.environment import Variables
from tests.cluster.remote import remote
from tests.extensions.harness import SHORT_SHUTDOWN, error_of, hostile_command, wait_until

# The time that the cluster allows for the replies to three starts.
SPAWN_LIMIT_SECONDS = 60.0

PLAN = LaunchPlan(argv=("true",), env=Variables({}))


class UnconnectedNodes(LocalNodes):
    """A placer whose agents never connect. They end when `ended` is set."""

    ended: asyncio.Event | None = None

    async def start_agent(self, node: Node, start: AgentStart) -> None:
        self.ended = asyncio.Event()

    async def wait_agent_ended(self, node: Node, image: str) -> str:
        assert self.ended is not None
        await self.ended.wait()
        return ""


async def test_a_node_that_never_connects_is_an_error_that_names_the_address() -> None:
    placer = UnconnectedNodes(1, {"CPU": 2, "tape": 1})
    cluster = Cluster(ClusterSettings(place=0.05), lambda: placer)
    pool = Pool(engine="local", resources=(("CPU", 2), ("tape", 1)))
    spawn = cluster.spawner(Spec(id="a", dialect="morphir", argv=("true",), pool=pool))
    error = await error_of(spawn(PLAN, "a"))
    await cluster.close()
    assert isinstance(error, SpawnFailed) and error.code == "X0422"
    assert "node local-1" in error.message and "127.0.0.1:" in error.message
    assert not placer._held


async def test_an_agent_that_ends_after_its_start_was_cancelled_is_not_logged() -> None:
    logged: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: logged.append(context))
    placer = UnconnectedNodes(1)
    cluster = Cluster(ClusterSettings(), lambda: placer)
    pool = Pool(engine="local")
    spawn = cluster.spawner(Spec(id="a", dialect="morphir", argv=("true",), pool=pool))
    start = asyncio.ensure_future(spawn(PLAN, "a"))
    await wait_until(lambda: placer.ended is not None)
    start.cancel()
    await asyncio.wait([start])
    assert placer.ended is not None
    placer.ended.set()
    await wait_until(lambda: not cluster.agents._opening)
    await cluster.close()
    del start
    gc.collect()  # asyncio logs an error that was not read when its task is collected
    assert logged == []


async def test_files_of_a_runtime_env_without_a_working_dir_are_an_error() -> None:
    cluster = Cluster(ClusterSettings(), LocalNodes)
    pool = Pool(engine="ray", files="runtime-env")
    spawn = cluster.spawner(Spec(id="a", dialect="morphir", argv=("true",), pool=pool))
    error = await error_of(spawn(PLAN, "a"))
    await cluster.close()
    assert isinstance(error, SpawnFailed) and (error.code, error.permanent) == ("X1992", True)


@pytest.mark.parametrize("engine", [None, "local"])
def test_an_image_without_ray_is_refused(engine: str | None) -> None:
    pool = Pool(engine=engine, image="registry.example.org/text:1")
    with pytest.raises(Refused) as caught:
        admit(Spec(id="a", dialect="morphir", argv=("true",), pool=pool), SHORT_SHUTDOWN, {})
    assert caught.value.code == "X1991" and caught.value.evidence.key == "pool.image"


async def test_resources_that_are_not_free_in_time_are_an_error_that_names_them() -> None:
    placer = UnconnectedNodes(1, {"CPU": 2})
    holder = PlaceRequest(id=-1, preferred=None, resources={"CPU": 2})
    await placer.hold(holder)
    cluster = Cluster(ClusterSettings(place=0.05), lambda: placer)
    pool = Pool(engine="local", resources=(("CPU", 2),))
    spawn = cluster.spawner(Spec(id="a", dialect="morphir", argv=("true",), pool=pool))
    error = await error_of(spawn(PLAN, "a"))
    await cluster.close()
    assert error.code == "X1976" and "asked for: CPU 2" in error.message


async def test_a_start_that_waits_goes_to_the_node_that_joins() -> None:
    placer = LocalNodes(1, {"CPU": 1})
    (node,) = await placer.nodes()
    await placer.hold(PlaceRequest(id=1, preferred=node, resources={"CPU": 1}))
    waiting = asyncio.ensure_future(
        placer.hold(PlaceRequest(id=2, preferred=node, resources={"CPU": 1}))
    )
    await asyncio.sleep(0)
    assert not waiting.done()
    placer.join("new")
    assert (await waiting).node.name == "new"


# An agent that sends its third argument as hello, replies to its order with the second one, and
# then sends heartbeats. A header has the size and kind of a frame (5 is a message, 6 a heartbeat),
# and the number of the stream.
HOSTILE_AGENT = """
import json, socket, sys, time
nonce = sys.stdin.readline().strip()
host, _, port = sys.argv[1].rpartition(":")
connection = socket.create_connection((host, int(port)))
connection.sendall(nonce.encode() + b"\\n")
def send(stream, text, kind=5):
    header = (len(text) << 8 | kind).to_bytes(4, "big") + stream.to_bytes(4, "big")
    connection.sendall(header + text)
send(0, sys.argv[3].encode())
received = b""
while b'"order"' not in received:
    received += connection.recv(65536)
send(4, sys.argv[2].encode())
while True:
    time.sleep(0.1)
    send(0, b"", 6)
"""

HELLO = '{"hello": {"version": "%s", "protocol": 1}}'


class HostileNodes(LocalNodes):
    """A placer whose agents reply to each order with the same text."""

    def __init__(self, reply: str, hello: str = HELLO % __version__) -> None:
        super().__init__(1)
        self._reply = reply
        self._hello = hello

    async def start_agent(self, node: Node, start: AgentStart) -> None:
        program = (HOSTILE_AGENT, start.address, self._reply, self._hello)
        process = subprocess.Popen(  # noqa: ASYNC220 - as `LocalNodes` does
            [sys.executable, "-S", "-E", "-c", *program],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(f"{start.nonce}\n".encode())
        process.stdin.flush()
        self.agents[node.id] = process


@pytest.mark.more
async def test_an_agent_of_another_version_is_reported() -> None:
    placer = HostileNodes("{}", HELLO % "7.0.0")
    cluster = Cluster(ClusterSettings(), lambda: placer)
    spawn = cluster.spawner(Spec(id="a", dialect="morphir", argv=("true",), pool=Pool()))
    error = await error_of(spawn(PLAN, "a"))
    await cluster.close()
    assert error.code == "X0430" and "7.0.0" in error.message


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ('{"started": -1}', "X0423"),
        ('{"started": true}', "X0423"),
        ('{"started": 1e999}', "X0423"),
        ('{"failed": 1}', "X0423"),
    ],
)
async def test_an_agent_with_an_invalid_reply_is_lost_before_the_place_limit(
    reply: str, code: str
) -> None:
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
    placer = UnconnectedNodes(1)
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
async def test_a_start_fails_if_every_node_has_its_maximum_of_processes_for_too_long() -> None:
    pool = {"engine": "local", "per_node": 1, "max": 2}
    async with remote(nodes=1, pool=pool) as r:
        await r.extension.start()  # this may take long, because it starts the agent
        r.cluster._settings = replace(r.cluster._settings, place=0.5)
        (node,) = await r.nodes.nodes()
        spawn = r.extension._starter.spawn
        error = await error_of(spawn(PLAN, "hostile"))  # type: ignore[arg-type]
        assert error.code == "X0421" and "each of the 1 suitable nodes" in error.message
        assert node.name == "local-1"


@pytest.mark.more
async def test_starts_that_wait_for_room_get_it_one_by_one_when_nodes_join() -> None:
    pool = {"engine": "local", "min": 3, "max": 3, "per_node": 1}
    async with remote(nodes=1, pool=pool) as r:
        await r.extension.start()
        await wait_until(lambda: len(r.cluster._waits["hostile"]) == 2)
        r.nodes.join("second")
        await wait_until(lambda: r.extension.stats.processes == 2)
        await wait_until(lambda: len(r.cluster._waits["hostile"]) == 1)
        r.nodes.join("third")
        await wait_until(lambda: r.extension.stats.processes == 3)
        assert r.extension.stats.nodes == {"local-1": 1, "second": 1, "third": 1}
        assert not r.cluster._waits["hostile"]


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
async def test_metrics_count_the_processes_of_each_node() -> None:
    async with exthost.Host.from_config({"extensions": [entry(pool={"engine": "local"})]}) as host:
        await host["a"].start()
        (node,) = host["a"].stats.nodes
        metrics = Metrics(host)
        expected = f'exthost_node_processes{{extension="a",node="{node}"}} 1.0\n'
        assert expected in metrics.text().body.decode()
        metrics.close()


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
        ({"listen": "0.0.0.0:0", "insecure": True}, "advertise"),
        ({"listen": "[::]:7700"}, "advertise"),
        ({"certificate": "host.pem"}, "certificate"),
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


async def test_a_start_that_waits_gets_the_place_that_is_released() -> None:
    placer = LocalNodes(1, {"CPU": 1})
    held_place = await placer.hold(PlaceRequest(id=1, preferred=None, resources={"CPU": 1}))
    waiting = asyncio.ensure_future(
        placer.hold(PlaceRequest(id=2, preferred=None, resources={"CPU": 1}, seconds=30))
    )
    await asyncio.sleep(0)
    assert not waiting.done()
    await placer.release(held_place)
    assert (await waiting).node == held_place.node


@pytest.mark.parametrize("steps", range(3))
async def test_a_start_that_is_cancelled_when_it_gets_its_place_gives_it_back(steps: int) -> None:
    placer = UnconnectedNodes(1, {"CPU": 1})
    cluster = Cluster(ClusterSettings(), lambda: placer)
    pool = Pool(engine="local", resources=(("CPU", 1),), per_node=1)
    spawn = cluster.spawner(Spec(id="a", dialect="morphir", argv=("true",), pool=pool))
    starts = [asyncio.ensure_future(spawn(PLAN, "a"))]
    await wait_until(lambda: bool(placer._held))
    placer.join("second")
    request = PlaceRequest(id=-1, preferred=None, excluded=["local-1"], resources={"CPU": 1})
    held_place = await placer.hold(request)
    starts.append(asyncio.ensure_future(spawn(PLAN, "a")))
    await wait_until(lambda: cluster._processes["a"].total() == 2)  # it waits for the CPU
    await placer.release(held_place)
    for _ in range(steps):
        await asyncio.sleep(0)
    starts[1].cancel()
    await asyncio.wait(starts[1:])
    assert [node for node, _ in placer._held.values()] == ["local-1"]
    assert cluster._processes["a"].total() == 1
    starts[0].cancel()
    await asyncio.wait(starts)
    await cluster.close()
    assert not placer._held


@pytest.mark.parametrize(
    ("can_grow", "resources", "code"),
    [
        # An autoscaler may add a node, so the start waits for its place.
        (True, (("CPU", 5),), "X0425"),
        (False, (("CPU", 5),), "X0425"),
        (True, None, "X0421"),
    ],
)
async def test_a_start_waits_for_a_larger_node_only_if_the_cluster_can_grow(
    can_grow: bool, resources: tuple[tuple[str, float], ...] | None, code: str
) -> None:
    requests: list[PlaceRequest] = []

    class FullNodes(LocalNodes):
        """Records the requests for a place, and has none."""

        async def hold(self, request: PlaceRequest) -> HeldPlace:
            requests.append(request)
            raise TimeoutError

    placer = FullNodes(1, {"CPU": 1})
    placer.can_grow = can_grow
    pool = Pool(engine="local", resources=resources)
    if resources is None:
        placer.drain("local-1")
    cluster = Cluster(ClusterSettings(), lambda: placer)
    spawn = cluster.spawner(Spec(id="a", dialect="morphir", argv=("true",), pool=pool))
    error = await error_of(spawn(PLAN, "a"))
    await cluster.close()
    assert error.code == code
    assert len(requests) == (can_grow and resources is not None)


async def test_the_reason_of_an_agent_that_ended_is_the_end_of_its_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A traceback may be longer than the part that is reported, and its last line is the error."""
    program = "import sys; sys.exit('x' * 20_000 + ' the error')"
    monkeypatch.setattr(local_nodes, "agent_command", lambda _: [sys.executable, "-c", program])
    placer = LocalNodes(1)
    [node] = await placer.nodes()
    await placer.start_agent(node, AgentStart(address="localhost:1", nonce=""))
    reason = await placer.wait_agent_ended(node, "")
    await placer.close()
    assert reason.endswith("x the error") and len(reason) < 5000
