"""Pools of processes on several nodes: nodes that join, drain, freeze or die, files that are sent
to nodes, and forks of the host.

A node is a machine of a cluster, on which an agent starts processes for the host. A draining node
gets no new processes. Here every node is an agent on this machine: `remote(nodes=2)` yields `r`,
an extension on two nodes "local-1" and "local-2", and `r.nodes`, which adds and drains nodes.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import exthost
from exthost.cluster import cluster
from exthost.cluster.local_nodes import LocalNodes
from exthost.cluster.placer import AgentStart, Node
from exthost.config.cluster import ClusterSettings
from exthost.errors import Refused, SpawnFailed
from exthost.faces.cli.traffic_lines import traffic_line
from tests.cluster.load import ALWAYS_RESTART, under_load
from tests.cluster.remote import RemoteExtension, remote
from tests.extensions.harness import HOSTILE, error_of, hostile_command, wait_until
from tests.extensions.proc import is_running

pytestmark = pytest.mark.more


def read_cwd(pid: int | None) -> Path:
    return Path(f"/proc/{pid}/cwd").readlink()


def nodes_of(r: RemoteExtension) -> set[str]:
    return set(r.extension.stats.nodes)


async def test_new_nodes_are_used_and_draining_nodes_are_emptied() -> None:
    pool = {"engine": "local", "min": 2, "max": 2, "per_node": 1}
    async with remote(nodes=1, pool=pool, restart=ALWAYS_RESTART, limits={"idle": "1h"}) as r:
        await r.extension.start()
        async with under_load(r.extension) as load:
            await wait_until(lambda: load.ends["result"] > 50)
            assert nodes_of(r) == {"local-1"}
            r.nodes.join("new")
            await wait_until(lambda: nodes_of(r) == {"local-1", "new"})
            r.nodes.drain("local-1")
            r.nodes.join("newer")
            await wait_until(lambda: nodes_of(r) == {"new", "newer"})
            before = load.ends["result"]
            await wait_until(lambda: load.ends["result"] > before + 50)
        assert set(load.ends) == {"result"}, load.ends


async def test_a_draining_node_is_used_until_another_node_joins() -> None:
    async with remote(nodes=1, pool={"engine": "local"}, restart=ALWAYS_RESTART) as r:
        await r.extension.start()
        r.nodes.drain("local-1")
        (session,) = r.extension._supervisor.processes.workers
        await wait_until(lambda: session.lifetime.child.is_node_draining)
        assert await r.extension.call("echo", 1) == 1
        r.nodes.join("new")
        await wait_until(lambda: nodes_of(r) == {"new"})
        assert await r.extension.call("echo", 2) == 2


async def test_processes_move_one_by_one_to_a_node_that_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "_MOVE_SECONDS", 0.0)
    pool = {"engine": "local", "min": 4, "max": 4}
    async with remote(nodes=1, pool=pool, restart=ALWAYS_RESTART) as r:
        await r.extension.start()
        await wait_until(lambda: r.extension.stats.nodes == {"local-1": 4})
        async with under_load(r.extension) as load:
            await wait_until(lambda: load.ends["result"] > 50)
            r.nodes.join("new")
            await wait_until(lambda: r.extension.stats.nodes == {"local-1": 2, "new": 2})
        assert set(load.ends) == {"result"}, load.ends
        assert r.extension.stats.crashes == 0


async def test_a_frozen_node_is_detected_and_its_processes_start_on_other_nodes() -> None:
    pool = {"engine": "local", "min": 2, "max": 2}
    async with remote(
        cluster=ClusterSettings(),
        nodes=2,
        pool=pool,
        restart=ALWAYS_RESTART,
        breaker={"failures": 10**6},
    ) as r:
        await r.extension.start()
        await wait_until(lambda: r.extension.stats.processes == 2)
        async with under_load(r.extension) as load:
            await wait_until(lambda: load.ends["result"] > 20)
            name = next(iter(nodes_of(r)))
            frozen_pid = r.nodes.agents[name].pid
            connections = {item.node: item for item in r.cluster.agents.connections}
            os.kill(frozen_pid, signal.SIGSTOP)
            await wait_until(lambda: load.ends["ExtensionGone"] > 0)
            # A node is lost after 5 s of silence, the default. On a busy machine the silence may
            # begin before the stop, because the agent sends its heartbeats late.
            assert time.monotonic() - connections[name]._last_received > ClusterSettings().silence
            await wait_until(lambda: r.extension.stats.processes == 2)
            # A new agent may have been started on the node meanwhile. The frozen one is not used.
            assert name not in nodes_of(r) or r.nodes.agents[name].pid != frozen_pid
            await wait_until(lambda: not is_running(frozen_pid))
        assert set(load.ends) == {"result", "ExtensionGone"}


class UnreliableNodes(LocalNodes):
    """Lists the nodes, or raises `error` if there is one."""

    error: Exception | None = None
    failures = 0

    async def nodes(self) -> list[Node]:
        if self.error is not None:
            self.failures += 1
            raise self.error
        return await super().nodes()


async def test_processes_still_move_after_the_list_of_nodes_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.cluster.remote.LocalNodes", UnreliableNodes)
    monkeypatch.setattr(cluster, "_LIST_SECONDS", 0.01)
    async with remote(nodes=2, pool={"engine": "local"}, restart=ALWAYS_RESTART) as r:
        await r.extension.start()
        nodes = r.nodes
        assert isinstance(nodes, UnreliableNodes)
        nodes.error = OSError("out of descriptors")
        await wait_until(lambda: nodes.failures > 1)
        nodes.error = None
        (name,) = nodes_of(r)
        nodes.drain(name)
        await wait_until(lambda: not {name} & nodes_of(r))


class LaggingNodes(LocalNodes):
    """Lists a node as alive although no process can be started on it."""

    async def start_agent(self, node: Node, start: AgentStart) -> None:
        await super().start_agent(node, start)
        if node.name == "local-1":
            self.agents[node.id].kill()


async def test_a_dead_node_that_is_still_listed_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.cluster.remote.LocalNodes", LaggingNodes)
    pool = {"engine": "local", "min": 2, "max": 2, "per_node": 2}
    async with remote(nodes=2, pool=pool) as r:
        await r.extension.start()
        await wait_until(lambda: r.extension.stats.processes == 2)
        assert r.extension.stats.nodes == {"local-2": 2}


async def test_a_node_that_cannot_reach_the_host_is_reported() -> None:
    async with remote() as r:
        cluster = r.cluster
        await cluster._listener.open()
        cluster._listener.address = "127.0.0.1:1"  # nothing listens there
        error = await error_of(r.extension.start())
        assert isinstance(error, SpawnFailed) and error.code == "X0426"
        assert "127.0.0.1:1" in error.message and "on node local-" in error.message


async def test_the_folder_of_an_extension_is_sent_and_its_pins_are_checked_on_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "node"))
    folder = tmp_path / "extension"
    folder.mkdir()
    (folder / "hostile.py").write_bytes(HOSTILE.read_bytes())
    entry = {
        "name": "a",
        "dialect": "morphir",
        "source": {"type": "process", "command": "python3", "args": ["-S", "-E", "hostile.py"]},
        "cwd": str(folder),
        "pool": {"engine": "local", "files": "sent"},
        "restart": {"strategy": "never"},
    }
    async with exthost.Host.from_config({"extensions": [entry]}) as host:
        assert await host["a"].call("echo", 1) == 1
        copy = read_cwd(host["a"].stats.pid)
        assert copy.parent == tmp_path / "node" / "folders"
        for _ in range(3):  # a cache that the program writes changes nothing
            (copy / "__pycache__").mkdir(exist_ok=True)
            (copy / "__pycache__" / "a.pyc").write_text("cache")
            await host["a"].restart()
            assert read_cwd(host["a"].stats.pid) == copy
    assert list((tmp_path / "node" / "folders").iterdir()) == []  # nothing uses it any more

    pinned = {**entry, "sha256": {"package": "0" * 64}}
    async with exthost.Host.from_config({"extensions": [pinned]}) as host:
        cause = host["a"].cause
        assert isinstance(cause, Refused) and cause.code == "X0386"
        assert "on node local-" in cause.message
        error = await error_of(host["a"].call("echo", 1))
        assert "on node local-" in str(error)


async def test_a_forked_host_has_dev_null_instead_of_each_connection() -> None:
    async with remote() as r:
        extension = await r.extension.start()
        fds = [connection.descriptor for connection in r.cluster.agents.connections]
        assert len(fds) == 1
        with warnings.catch_warnings():
            # About a fork in a program with threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            forked_pid = os.fork()
        if forked_pid == 0:
            open_fds = [fd for fd in fds if os.readlink(f"/proc/self/fd/{fd}") != os.devnull]  # noqa: PTH115
            os._exit(len(open_fds))  # the parent reads the number as the exit status
        _, status = await asyncio.to_thread(os.waitpid, forked_pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert await extension.call("echo", 1) == 1


# A program that runs a host, forks it, and prints the pids of the fork and of the extension.
FORKED_HOST = """
import asyncio, os, signal, sys
from exthost import Host
async def main():
    source = {"type": "process", "command": sys.argv[1], "args": sys.argv[2:]}
    entry = {"name": "a", "dialect": "morphir", "source": source, "pool": {"engine": "local"}}
    async with Host.from_config({"extensions": [entry], "cluster": {"silence": "10m"}}) as host:
        await host["a"].call("echo", 1)
        copy = os.fork()
        if copy == 0:
            signal.pause()
        assert await host["a"].call("echo", 2) == 2
        print(copy, host["a"].stats.pid, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def test_a_fork_of_the_host_does_not_keep_a_connection_open() -> None:
    argv = [sys.executable, "-c", FORKED_HOST, *hostile_command("ignore_eof")]
    environ = {**os.environ, "PYTHONPATH": str(Path(exthost.__file__).parents[1])}
    host = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environ)
    assert host.stdout is not None
    forked_pid = 0
    try:
        forked_pid, child = (int(word) for word in host.stdout.readline().split())
        host.kill()
        host.wait()
        # The connection to the node is closed although the fork still runs.
        asyncio.run(wait_until(lambda: not is_running(child)))
        assert is_running(forked_pid)
    finally:
        host.kill()
        if forked_pid:
            os.kill(forked_pid, signal.SIGKILL)
        host.wait()
        host.stdout.close()


async def test_trace_records_have_the_node_of_their_process() -> None:
    program, *args = hostile_command()
    source = {"type": "process", "command": program, "args": args}
    entry = {"name": "x", "dialect": "morphir", "source": source, "pool": {"engine": "local"}}
    async with exthost.Host.from_config({"extensions": [entry]}, trace=True) as host:
        await host["x"].call("echo", 1)
        (node,) = host["x"].stats.nodes
        assert host.trace is not None
        records = [record for record in host.trace.after(0) if record.pid]
        assert {"spawned", "request", "reply"} <= {record.kind for record in records}
        assert {record.node for record in records} == {node}
        assert f" x@{node} → echo #" in "\n".join(map(traffic_line, records))
