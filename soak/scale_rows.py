"""Ten thousand processes on a hundred nodes, in one host. The nodes are simulated by one program,
so that the cost of the host itself is measured."""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from exthost.cluster.cluster import Cluster
from exthost.cluster.placer import AgentStart, HeldPlace, Node, PlaceRequest
from exthost.config import spec_from_mapping
from exthost.config.cluster import ClusterSettings
from exthost.dialects.morphir.dialect import DIALECT
from exthost.extension.extension import Extension
from soak.row import Row
from tests.extensions.proc import our_descriptors

NODES = 100
PROCESSES_PER_NODE = 100
IDLE_SECONDS = 10.0
ROUNDS = 201
CALLS = 100
WAIT_SECONDS = 900.0  # a busy machine may give a small part of a core
# The stats of an extension count its processes, so they are not free.
POLL_SECONDS = 0.2

MAX_DESCRIPTORS_PER_NODE = 3
MAX_IDLE_SHARE = 0.05
MAX_CALL_RATIO = 1.1


class SimulatedNodes:
    """A placer whose agents are connections of one program."""

    has_ended = False
    can_grow = False

    def __init__(self, count: int) -> None:
        self._nodes = [Node(id=f"n{n}", name=f"n{n}") for n in range(count)]
        self._program = subprocess.Popen(
            [sys.executable, "-m", "soak.simulated_agents"], stdin=subprocess.PIPE
        )

    def _send(self, *words: str) -> None:
        assert self._program.stdin is not None
        self._program.stdin.write(" ".join(words).encode() + b"\n")
        self._program.stdin.flush()

    def drop(self) -> None:
        """Lose all nodes."""
        self._send("drop")

    async def nodes(self) -> list[Node]:
        return self._nodes

    async def hold(self, request: PlaceRequest) -> HeldPlace:
        assert request.preferred is not None
        return HeldPlace(id=request.id, node=request.preferred)

    async def release(self, place: HeldPlace) -> None:
        pass

    async def start_agent(self, node: Node, start: AgentStart) -> None:
        self._send("connect", start.address, start.nonce)

    async def wait_agent_ended(self, node: Node, image: str) -> str:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def stop_agent(self, node: Node, image: str) -> None:
        pass

    async def close(self) -> None:
        assert self._program.stdin is not None
        self._program.stdin.close()
        self._program.wait()


def scale_rows(scale: float) -> list[Row]:
    """Return the row. `scale` is the part of the nodes."""
    nodes = max(2, round(NODES * scale))
    return [Row(f"scale: {nodes} nodes", lambda _: _run(nodes), flat=False)]


async def _run(count: int) -> str:
    async with _started(1) as (_, one):
        before = _descriptors()
        began = time.monotonic()
        async with _started(count) as (nodes, extension):
            started = time.monotonic() - began
            size = extension.stats.processes
            descriptors = (_descriptors() - before) / count
            assert descriptors <= MAX_DESCRIPTORS_PER_NODE, f"{descriptors:.2f} descriptors a node"
            idle = await _idle_share()
            ratio = await _call_ratio(extension, one)
            nodes.drop()
            began = time.monotonic()
            await _wait_for_processes(extension, 0)
            await _wait_for_processes(extension, size)
            returned = time.monotonic() - began
            assert (_descriptors() - before) / count <= MAX_DESCRIPTORS_PER_NODE
            assert extension.stats.crashes == 0
    assert idle <= MAX_IDLE_SHARE, f"idle: {idle:.1%} of a core"
    assert ratio <= MAX_CALL_RATIO, f"a call costs {ratio:.2f} of one with one node"
    return (
        f"{size:,} processes in {started:.0f} s, {descriptors:.2f} descriptors a node, "
        f"idle {idle:.1%} of a core, a call costs {ratio:.2f} of one with one node, "
        f"all nodes lost and back in {returned:.0f} s"
    )


@asynccontextmanager
async def _started(count: int) -> AsyncIterator[tuple[SimulatedNodes, Extension]]:
    """Yield this many nodes, and an extension that fills them."""
    nodes = SimulatedNodes(count)
    size = count * PROCESSES_PER_NODE
    cluster, extension = _pool(nodes, size)
    try:
        await extension.start()
        await _wait_for_processes(extension, size)
        yield nodes, extension
    finally:
        await extension.close()
        await cluster.close()


async def _wait_for_processes(extension: Extension, count: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while extension.stats.processes != count:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(POLL_SECONDS)


def _pool(nodes: SimulatedNodes, size: int) -> tuple[Cluster, Extension]:
    cluster = Cluster(ClusterSettings(silence=600.0, place=600.0), lambda: nodes)
    spec = spec_from_mapping(
        {
            "name": "scale",
            "source": {"type": "process", "command": sys.executable},
            "pool": {
                "engine": "local",
                "min": size,
                "max": size,
                "per_node": PROCESSES_PER_NODE,
            },
            "limits": {"start": "10m", "handshake": "10m", "idle": "1h"},
        }
    )
    return cluster, Extension(spec, DIALECT, spawn=cluster.spawner(spec))


async def _call_ratio(many: Extension, one: Extension) -> float:
    """Return how much processor time of the host a call of `many` takes, as a part of one of `one`:
    the median of blocks in turns. The simulated nodes are on the same machine, so the elapsed time
    of a call depends on how busy the machine is."""
    ratios = []
    for _ in range(ROUNDS):
        seconds = [await _use_processor(extension) for extension in (many, one)]
        ratios.append(seconds[0] / seconds[1])
    return statistics.median(ratios)


async def _use_processor(extension: Extension) -> float:
    began = time.process_time()
    for n in range(CALLS):
        await extension.call("echo", n, timeout=600)
    return time.process_time() - began


async def _idle_share() -> float:
    await asyncio.sleep(2)  # what the starts have left to do
    began, used = time.monotonic(), time.process_time()
    await asyncio.sleep(IDLE_SECONDS)
    return (time.process_time() - used) / (time.monotonic() - began)


def _descriptors() -> int:
    return len(our_descriptors())
