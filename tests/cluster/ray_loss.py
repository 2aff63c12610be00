"""A pool on a Ray cluster of three nodes, of which something is killed under load."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from exthost.cluster.cluster import Cluster
from exthost.cluster.placer import Placer
from exthost.cluster.ray_nodes import RayNodes
from exthost.config import spec_from_mapping
from exthost.config.cluster import ClusterSettings
from exthost.extension.extension import Extension
from tests.cluster.load import PATIENT_BREAKER, REVIVED, Load, kill_repeatedly
from tests.cluster.loaded_host import kill_loaded_host
from tests.extensions.harness import IMPATIENT, Ledger, command, until
from tests.extensions.proc import MARK, all_pids, descendants_of, environment_of, read_process, runs

NODES = 3

# An actor takes seconds to start, many on a busy machine.
PLACE_SECONDS = 150.0

# Not the usual silence: beside much other work, this process may not run for seconds.
USUAL = ClusterSettings(place=PLACE_SECONDS, silence=30.0)

# A variable of everything that Ray starts on the nodes of one cluster.
CLUSTER_MARK = "RAY_EXTHOST_TEST_CLUSTER"

_PROGRAM = Path(__file__).parent / "ray_cluster.py"


class RayFailed(Exception):
    """Ray's own processes did not start."""


class RayCluster:
    """A cluster of some nodes; the pids of each node's own processes by its id.

    Its processes belong to no test, so they do not have the mark of those.
    """

    def __init__(self, count: int = NODES) -> None:
        self._folder = tempfile.mkdtemp(prefix="xr")  # short: paths of sockets are limited
        self.mark = Path(self._folder).name
        environ = {name: value for name, value in os.environ.items() if name != MARK}
        self._process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environ, CLUSTER_MARK: self.mark},
        )
        self.nodes: dict[str, dict[str, int]] = {}
        self._has_head = True
        try:
            first = self._read()
            self.address: str = first["address"]
            self._head: dict[str, int] = first["head"]
            for _ in range(count):
                self.add()
        except BaseException:
            self.close()
            raise

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RayFailed("Ray could not start its processes in time")
        message: dict[str, Any] = json.loads(line)
        return message

    def _ask(self, *words: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words).encode() + b"\n")
        self._process.stdin.flush()
        return self._read()

    def add(self) -> None:
        """Start a node."""
        node = self._ask("add")
        self.nodes[node["id"]] = node["pids"]

    def replace(self, id: str) -> None:
        """End what is left of a node, and start another."""
        del self.nodes[id]
        self._ask("remove", id)
        self.add()

    def drain(self, id: str) -> bool:
        """Have a node emptied."""
        return bool(self._ask("drain", id)["accepted"])

    def kill_head(self) -> None:
        """Kill the process that keeps Ray's account of the cluster."""
        self._has_head = False
        os.kill(self._head["gcs_server"], signal.SIGKILL)

    def count_actors(self) -> int:
        """Return the number of actors that Ray has not ended."""
        return int(self._ask("actors")["count"])

    def node_processes(self) -> list[int]:
        """Return the pids of our processes on the nodes."""
        mark = f"{CLUSTER_MARK}={self.mark}".encode()
        return [
            pid
            for pid in all_pids()
            if (observed := read_process(pid)) is not None
            and "exthost.cluster.node_process" in observed.command
            and mark in environment_of(pid)
        ]

    def is_empty(self) -> bool:
        """Return whether nothing of ours is left on any node."""
        return not self.node_processes() and (not self._has_head or self.count_actors() == 0)

    def has_file(self, path: str) -> bool:
        """Return whether a path is in Ray's own folder."""
        return Path(path).is_relative_to(self._folder)

    def logs(self) -> bytes:
        """Return everything that Ray has written."""
        files = (path for path in Path(self._folder).rglob("*") if path.is_file())
        return b"".join(path.read_bytes() for path in files)

    def close(self) -> None:
        """End the cluster."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class OnRay:
    """An extension whose processes run on a Ray cluster."""

    def __init__(
        self, extension: Extension, cluster: Cluster, ray: RayCluster, placers: list[RayNodes]
    ) -> None:
        self.extension = extension
        self.cluster = cluster
        self.ray = ray
        self.placers = placers

    @property
    def nodes(self) -> set[str]:
        """The ids of the nodes on which it has processes."""
        ends = [name.rpartition("/")[2] for name in self.extension.stats.nodes]
        return {id for id in self.ray.nodes if any(map(id.startswith, ends))}


@asynccontextmanager
async def on_ray(
    ray: RayCluster, cluster_settings: ClusterSettings = USUAL, **settings: Any
) -> AsyncIterator[OnRay]:
    """Start a pool of a process for each node. At the end every call is accounted for, and nothing
    is left on any node."""
    program, *args = command()
    size = len(ray.nodes)
    pool = {"engine": "ray", "min": size, "max": size, "resources": {"CPU": 1}, "spread": True}
    entry = {
        "name": "hostile",
        "source": {"type": "process", "command": program, "args": args},
        "pool": pool,
        "restart": REVIVED,
        "breaker": PATIENT_BREAKER,
        **settings,
        # With the mark, a process that is left is noticed at the end of the test.
        "env": {MARK: os.environ[MARK], **settings.get("env", {})},
    }
    spec, ledger = spec_from_mapping(entry), Ledger()
    placers: list[RayNodes] = []

    def make_placer() -> Placer:
        placers.append(RayNodes(ray.address))
        return placers[-1]

    cluster = Cluster(cluster_settings, make_placer)
    extension = Extension(spec, IMPATIENT, bus=ledger.bus, spawn=cluster.spawner(spec))
    try:
        await extension.start()
        await until(lambda: extension.stats.processes == size, PLACE_SECONDS)
        assert len(ray.node_processes()) == ray.count_actors() == size
        yield OnRay(extension, cluster, ray, placers)
    finally:
        await extension.close()
        await cluster.close()
    ledger.settle(extension)
    await asyncio.to_thread(_wait_until_empty, ray)


def _wait_until_empty(ray: RayCluster) -> None:
    asyncio.run(until(ray.is_empty))


# -- what is killed --------------------------------------------------------------------------


def ancestors_of(pid: int) -> list[int]:
    """Return the pids of a process's parent, and of all above it."""
    found: list[int] = []
    while (
        observed := read_process(found[-1] if found else pid)
    ) is not None and observed.parent > 0:
        found.append(observed.parent)
    return found


class Victim:
    """A process of the pool, and what is above it."""

    def __init__(self, r: OnRay) -> None:
        self.pid = r.extension.stats.pid or 0
        above = ancestors_of(self.pid)
        raylets = {pids["raylet"]: id for id, pids in r.ray.nodes.items()}
        place = next(n for n, pid in enumerate(above) if pid in raylets)
        self.raylet = above[place]
        self.actor = above[place - 1]
        self.node = raylets[self.raylet]
        self.node_pids = list(r.ray.nodes[self.node].values())


# Returns the pids that are killed, and those that must end with them.
Kill = Callable[[OnRay, Victim], tuple[Collection[int], Collection[int]]]


def _child(r: OnRay, victim: Victim) -> tuple[Collection[int], Collection[int]]:
    return [victim.pid], descendants_of(victim.pid)


def _actor(r: OnRay, victim: Victim) -> tuple[Collection[int], Collection[int]]:
    return [victim.actor], descendants_of(victim.actor)


def _raylet(r: OnRay, victim: Victim) -> tuple[Collection[int], Collection[int]]:
    return [victim.raylet], descendants_of(victim.raylet)


def _node(r: OnRay, victim: Victim) -> tuple[Collection[int], Collection[int]]:
    pids = {*victim.node_pids, *descendants_of(victim.raylet)}
    return pids, pids


def _connection(r: OnRay, victim: Victim) -> tuple[Collection[int], Collection[int]]:
    """The process of ours that talks to Ray: every actor ends."""
    left = [pid for node_process in r.ray.node_processes() for pid in descendants_of(node_process)]
    return [r.placers[-1]._process.pid], left


KILLS: dict[str, Kill] = {
    "child": _child,
    "actor": _actor,
    "raylet": _raylet,
    "node": _node,
    "connection": _connection,
}


async def kill_on(r: OnRay, what: str, rounds: int) -> Load:
    """Kill this often. Return the account of the calls."""

    async def kill() -> Callable[[], bool]:
        await until(lambda: runs(r.extension.stats.pid or 0), PLACE_SECONDS)
        victim = Victim(r)
        killed, left = KILLS[what](r, victim)
        for pid in killed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended with another
        await until(lambda: not any(map(runs, left)), 90)
        if what in ("raylet", "node"):
            await asyncio.to_thread(r.ray.replace, victim.node)
        return lambda: True

    return await kill_repeatedly(r.extension, rounds, kill, NODES)


def kill_host(ray: RayCluster) -> float:
    """Kill a program with a pool on the cluster, whose processes do not end with their stdin.
    Return how many seconds later nothing of it is left on any node."""
    program, *args = command("ignore_eof")
    entry = {
        "name": "hostile",
        "dialect": "morphir",
        "source": {"type": "process", "command": program, "args": args},
        "pool": {"engine": "ray", "min": NODES, "max": NODES, "resources": {"CPU": 1}},
        "env": {MARK: os.environ[MARK]},
    }
    cluster = {"address": "auto", "place": f"{PLACE_SECONDS:g}s"}
    config = {"extensions": [entry], "cluster": cluster}
    return kill_loaded_host(config, NODES, ray.is_empty, RAY_ADDRESS=ray.address)
