"""Helpers for tests that kill a part of a Ray cluster of three nodes under load.

All nodes are on this machine. On each, Ray runs a raylet, the process that manages the node. The
host asks Ray to run an agent (`exthost.cluster.agent`) on a node, and the agent starts processes of
the extension there. `RayCluster` starts the cluster, `on_ray` a pool of an extension on it, and
`kill_on` kills one of these parts while calls are made.
"""

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
from tests.cluster.load import ALWAYS_RESTART, PATIENT_BREAKER, Load, kill_repeatedly
from tests.cluster.loaded_host import kill_loaded_host
from tests.extensions.harness import SHORT_SHUTDOWN, Ledger, hostile_command, wait_until
from tests.extensions.proc import (
    MARK,
    all_pids,
    descendants_of,
    environment_of,
    is_running,
    read_process,
)

NODES = 3

# An actor takes seconds to start, and longer on a busy machine.
PLACE_SECONDS = 150.0

# The silence is longer than the default: on a busy machine this process may not run for seconds.
CLUSTER_SETTINGS = ClusterSettings(place=PLACE_SECONDS, silence=30.0)

# A variable that all processes on the nodes of one cluster have.
CLUSTER_MARK = "RAY_EXTHOST_TEST_CLUSTER"

_PROGRAM = Path(__file__).parent / "ray_cluster.py"


class RayFailed(Exception):
    """The processes of Ray did not start."""


class RayCluster:
    """A cluster of several nodes. `nodes` has the pids of the processes of each node by its id.

    The processes of Ray belong to no test, so they do not have the variable MARK. `redis` is the
    address of a Redis in which the head keeps the state of the cluster; "" for none. `variables`
    are settings of Ray. `programs` is a folder that comes first in the PATH of Ray.
    `client_address` is the address for Ray's client, "" if that is not installed.
    """

    def __init__(self, count: int = NODES, redis: str = "", **variables: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="xr")  # short: paths of sockets are limited
        self.mark = Path(self._folder).name
        environ = {name: value for name, value in os.environ.items() if name != MARK}
        environ |= {CLUSTER_MARK: self.mark, **variables}
        if redis:
            environ["RAY_REDIS_ADDRESS"] = redis
        self.programs = Path(self._folder, "programs")
        self.programs.mkdir()
        environ["PATH"] = f"{self.programs}:{environ['PATH']}"
        self._process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
        )
        self.nodes: dict[str, dict[str, int]] = {}
        self._has_head = True
        try:
            first = self._read()
            self.address: str = first["address"]
            self.client_address: str = first["client"]
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

    def _send_command(self, *arguments: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(arguments).encode() + b"\n")
        self._process.stdin.flush()
        return self._read()

    def add(self) -> str:
        """Start a node, and return its id."""
        node = self._send_command("add")
        self.nodes[node["id"]] = node["pids"]
        return str(node["id"])

    def remove(self, id: str) -> None:
        """End the remaining processes of a node."""
        del self.nodes[id]
        self._send_command("remove", id)

    def replace(self, id: str) -> None:
        """End the remaining processes of a node, and start another node."""
        self.remove(id)
        self.add()

    def drain(self, id: str) -> bool:
        """Drain a node, and return whether Ray accepted it."""
        return bool(self._send_command("drain", id)["accepted"])

    def kill_head(self) -> None:
        """Kill the process of the head that manages the cluster."""
        self._has_head = False
        self._send_command("kill_gcs")

    def restart_head(self) -> None:
        """Start the process again that `kill_head` has killed. The cluster needs a Redis."""
        self._send_command("start_gcs")
        self._has_head = True

    def count_held(self) -> int:
        """Return the number of placement groups (reserved resources) that Ray has not removed."""
        return int(self._send_command("groups")["count"])

    def kill_client_servers(self) -> int:
        """Kill the processes of the head that serve Ray's clients, and return their number."""
        pids = self._find_processes("--mode=specific-server")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return len(pids)

    def agents(self) -> list[int]:
        """Return the pids of the agents on the nodes."""
        return self._find_processes("exthost.cluster.agent")

    def _find_processes(self, argument: str) -> list[int]:
        """Return the pids of the processes of this cluster that have this text in their command."""
        mark = f"{CLUSTER_MARK}={self.mark}".encode()
        return [
            pid
            for pid in all_pids()
            if (process := read_process(pid)) is not None
            and argument in process.command
            and mark in environment_of(pid)
        ]

    def is_empty(self) -> bool:
        """Return whether no agent runs on any node, and no resources are held."""
        return not self.agents() and (not self._has_head or self.count_held() == 0)

    def has_file(self, path: str) -> bool:
        """Return whether a path is in the folder of Ray."""
        return Path(path).is_relative_to(self._folder)

    def logs(self) -> bytes:
        """Return the content of all files that Ray has written."""
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
        """Return the ids of the nodes on which the extension has processes."""
        # The nodes are on one machine, so the name of each is HOSTNAME/BEGINNING_OF_ID.
        prefixes = [name.rpartition("/")[2] for name in self.extension.stats.nodes]
        return {id for id in self.ray.nodes if any(map(id.startswith, prefixes))}


@asynccontextmanager
async def on_ray(
    ray: RayCluster,
    cluster_settings: ClusterSettings = CLUSTER_SETTINGS,
    address: str = "",
    **settings: Any,
) -> AsyncIterator[OnRay]:
    """Start a pool with one process for each node. At the end, check that every call ended once and
    that no process remains on any node. `address` is an address of the cluster other than
    `ray.address`."""
    program, *args = hostile_command()
    pool = {"engine": "ray", "resources": {"CPU": 1}, **settings.pop("pool", {})}
    size = pool["min"] = pool["max"] = pool.get("max", len(ray.nodes))
    entry = {
        "name": "hostile",
        "source": {"type": "process", "command": program, "args": args},
        "pool": pool,
        "restart": ALWAYS_RESTART,
        "breaker": PATIENT_BREAKER,
        **settings,
        # With this variable, the test finds a process that remains at its end.
        "env": {MARK: os.environ[MARK], **settings.get("env", {})},
    }
    spec, ledger = spec_from_mapping(entry), Ledger()
    placers: list[RayNodes] = []

    def make_placer() -> Placer:
        placers.append(RayNodes(address or ray.address))
        return placers[-1]

    cluster = Cluster(cluster_settings, make_placer)
    # The ledger records every call, and `settle` checks that each of them ended once.
    extension = Extension(spec, SHORT_SHUTDOWN, bus=ledger.bus, spawn=cluster.spawner(spec))
    try:
        await extension.start()
        await wait_until(lambda: extension.stats.processes == size, PLACE_SECONDS)
        assert ray.count_held() == size and len(ray.agents()) <= len(ray.nodes)
        yield OnRay(extension, cluster, ray, placers)
    finally:
        await extension.close()
        await cluster.close()
    ledger.check_calls(extension)
    await asyncio.to_thread(_wait_until_empty, ray)


def _wait_until_empty(ray: RayCluster) -> None:
    asyncio.run(wait_until(ray.is_empty))


async def wait_until_held(ray: RayCluster, count: int) -> None:
    """Wait until Ray holds, or is to hold, the resources of this many processes."""
    async with asyncio.timeout(PLACE_SECONDS):
        while await asyncio.to_thread(ray.count_held) != count:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.1)


# -- the parts that can be killed --------------------------------------------------------------


def ancestors_of(pid: int) -> list[int]:
    """Return the pids of the parent of a process and of all further ancestors."""
    pids: list[int] = []
    while (process := read_process(pids[-1] if pids else pid)) is not None and process.parent > 0:
        pids.append(process.parent)
    return pids


class Victim:
    """A process of the pool, with its agent, its node and its raylet, the process of Ray that
    manages the node."""

    def __init__(self, pool: OnRay) -> None:
        self.pid = pool.extension.stats.pid or 0
        agents = pool.ray.agents()
        self.agent = next(pid for pid in ancestors_of(self.pid) if pid in agents)
        agent = read_process(self.agent)
        assert agent is not None
        words = agent.command.split()
        # An agent ends with the process of this option, which is its raylet.
        self.raylet = int(words[words.index("--with") + 1])
        raylets = {pids["raylet"]: id for id, pids in pool.ray.nodes.items()}
        self.node = raylets[self.raylet]
        self.node_pids = list(pool.ray.nodes[self.node].values())


# A function that returns the pids to kill, and the pids that must end with them.
Kill = Callable[[OnRay, Victim], tuple[Collection[int], Collection[int]]]


def _child(pool: OnRay, victim: Victim) -> tuple[Collection[int], Collection[int]]:
    return [victim.pid], descendants_of(victim.pid)


def _agent(pool: OnRay, victim: Victim) -> tuple[Collection[int], Collection[int]]:
    return [victim.agent], descendants_of(victim.agent)


def _raylet(pool: OnRay, victim: Victim) -> tuple[Collection[int], Collection[int]]:
    return [victim.raylet], [victim.agent, *descendants_of(victim.agent)]


def _node(pool: OnRay, victim: Victim) -> tuple[Collection[int], Collection[int]]:
    """Kill all processes of a node, as if the machine had lost its power."""
    pids = {
        *victim.node_pids,
        *descendants_of(victim.raylet),
        victim.agent,
        *descendants_of(victim.agent),
    }
    return pids, pids


def _connection(pool: OnRay, victim: Victim) -> tuple[Collection[int], Collection[int]]:
    """Kill the process through which the host talks to Ray. The pool must continue to work."""
    return [pool.placers[-1]._process.pid], [pool.placers[-1]._process.pid]


KILLS: dict[str, Kill] = {
    "child": _child,
    "agent": _agent,
    "raylet": _raylet,
    "node": _node,
    "connection": _connection,
}


async def kill_on(pool: OnRay, part: str, rounds: int) -> Load:
    """Kill this part of the cluster this often under load, and return the counts of calls."""

    async def kill() -> Callable[[], bool]:
        """Kill the part once. The result is a condition that `kill_repeatedly` waits for: none."""
        await wait_until(lambda: is_running(pool.extension.stats.pid or 0), PLACE_SECONDS)
        victim = Victim(pool)
        killed, ended_pids = KILLS[part](pool, victim)
        for pid in killed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended with another process
        await wait_until(lambda: not any(map(is_running, ended_pids)), 90)
        if part in ("raylet", "node"):
            await asyncio.to_thread(pool.ray.replace, victim.node)
        return lambda: True

    return await kill_repeatedly(pool.extension, rounds, kill, NODES)


def kill_host(ray: RayCluster) -> float:
    """Kill a program with a pool on the cluster, whose processes ignore the end of stdin. Return
    after how many seconds no process remains on any node."""
    program, *args = hostile_command("ignore_eof")
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
