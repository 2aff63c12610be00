"""A pool on a Ray cluster of several nodes, of which something is killed under load."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
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
from tests.extensions.driving import IMPATIENT, Ledger, command, until
from tests.extensions.looking import all_pids, runs

PROCESSES = 2

# An actor takes seconds to start, many on a busy machine.
PLACE_SECONDS = 150.0


class RayFailed(Exception):
    """Ray's own processes did not start."""


class RayCluster:
    """The nodes, by their names."""

    def __init__(self, *names: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="xr")  # short: paths of sockets are limited
        program = Path(__file__).parent / "ray_cluster.py"
        self._process = subprocess.Popen(
            [sys.executable, str(program), self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._count = 0
        self.nodes: dict[str, dict[str, Any]] = {}
        try:
            self.address: str = self._read()["address"]
            for name in names:
                self.add(name)
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

    def _ask(self, words: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(words.encode() + b"\n")
        self._process.stdin.flush()
        return self._read()

    def add(self, name: str = "") -> None:
        """Start a node."""
        self._count += 1
        name = name or f"more-{self._count}"
        self.nodes[name] = self._ask(f"add {name}")

    def drain(self, name: str) -> bool:
        """Have a node emptied."""
        return bool(self._ask(f"drain {self.nodes[name]['id']}")["drained"])

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

    def __init__(self, extension: Extension, ray: RayCluster, placers: list[RayNodes]) -> None:
        self.extension = extension
        self.ray = ray
        self.placers = placers

    @property
    def nodes(self) -> set[str]:
        """The ids of the nodes, as far as their names have them."""
        return {name.rpartition("/")[2] for name in self.extension.stats.nodes}


@asynccontextmanager
async def on_ray(ray: RayCluster, **settings: Any) -> AsyncIterator[OnRay]:
    """Start a pool on the nodes. At the end every call is accounted for."""
    program, *args = command()
    entry = {
        "name": "hostile",
        "source": {"type": "process", "command": program, "args": args},
        "pool": {"engine": "ray", "min": PROCESSES, "max": PROCESSES, "resources": {"CPU": 1}},
        "restart": REVIVED,
        "breaker": PATIENT_BREAKER,
        **settings,
    }
    spec, ledger = spec_from_mapping(entry), Ledger()
    placers: list[RayNodes] = []

    def make_placer() -> Placer:
        placers.append(RayNodes(ray.address))
        return placers[-1]

    cluster = Cluster(ClusterSettings(place=PLACE_SECONDS, silence=30.0), make_placer)
    extension = Extension(spec, IMPATIENT, bus=ledger.bus, spawn=cluster.spawner(spec))
    try:
        await extension.start()
        await until(lambda: extension.stats.processes == PROCESSES, PLACE_SECONDS)
        yield OnRay(extension, ray, placers)
    finally:
        await extension.close()
        await cluster.close()
    ledger.settle(extension)


def parent_of(pid: int) -> int:
    """Return the pid of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def tree_of(pid: int) -> list[int]:
    """Return the pids of a process and of all below it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            found += [int(word) for word in task.read_text().split()]
    return found


def kill_child(r: OnRay) -> Callable[[], bool]:
    pid = r.extension.stats.pid or 0
    os.kill(pid, signal.SIGKILL)
    return lambda: not runs(pid)


def kill_actor(r: OnRay) -> Callable[[], bool]:
    worker = parent_of(parent_of(r.extension.stats.pid or 0))
    left = tree_of(worker)
    os.kill(worker, signal.SIGKILL)
    return lambda: not any(map(runs, left))


def kill_raylet(r: OnRay) -> Callable[[], bool]:
    raylet = parent_of(parent_of(parent_of(r.extension.stats.pid or 0)))
    left = tree_of(raylet)
    os.kill(raylet, signal.SIGKILL)
    r.ray.add()
    return lambda: not any(map(runs, left))


def kill_node(r: OnRay) -> Callable[[], bool]:
    """Kill a raylet with everything that it has started."""
    left = tree_of(parent_of(parent_of(parent_of(r.extension.stats.pid or 0))))
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    r.ray.add()
    return lambda: not any(map(runs, left))


def kill_driver(r: OnRay) -> Callable[[], bool]:
    """Kill the process of ours that talks to Ray: every actor ends."""
    driver = r.placers[-1]._process.pid
    left = [pid for pid in all_pids() if is_node_process(pid)]
    os.kill(driver, signal.SIGKILL)
    return lambda: not any(map(runs, left))


def is_node_process(pid: int) -> bool:
    try:
        return b"exthost.cluster.node_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


KILLS: dict[str, Callable[[OnRay], Callable[[], bool]]] = {
    "child": kill_child,
    "actor": kill_actor,
    "raylet": kill_raylet,
    "node": kill_node,
    "driver": kill_driver,
}


async def kill_on(r: OnRay, what: str, rounds: int) -> Load:
    """Kill this often. Return the account of the calls."""

    async def kill() -> Callable[[], bool]:
        await until(lambda: runs(r.extension.stats.pid or 0))
        return await asyncio.to_thread(KILLS[what], r)

    # A pool that has lost all its processes begins with one, and grows as it is used.
    return await kill_repeatedly(r.extension, rounds, kill, 1)


async def repeated(what: str, rounds: int) -> Load:
    """Kill this often, on a cluster of three nodes made for it."""
    ray = await asyncio.to_thread(RayCluster, "a", "b", "c")
    try:
        async with on_ray(ray) as r:
            return await kill_on(r, what, rounds)
    finally:
        await asyncio.to_thread(ray.close)
