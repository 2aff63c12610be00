"""Nodes that join, drain, freeze or lag, and files that are sent to them."""

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
from exthost.cluster.local_nodes import LocalNodes
from exthost.cluster.remote_child import RemoteChild
from exthost.config.cluster import ClusterSettings
from exthost.errors import Refused, SpawnFailed
from tests.cluster.load import REVIVED, under_load
from tests.cluster.remote import Remote, remote
from tests.extensions.harness import HOSTILE, command, failing, until
from tests.extensions.proc import runs

pytestmark = pytest.mark.more


def see_cwd(pid: int | None) -> Path:
    return Path(f"/proc/{pid}/cwd").readlink()


def nodes_of(r: Remote) -> set[str]:
    return set(r.extension.stats.nodes)


async def test_a_node_that_joins_is_used_and_one_that_drains_is_emptied_without_a_lost_call() -> (
    None
):
    pool = {"engine": "local", "min": 2, "max": 2, "per_node": 1}
    async with remote(nodes=1, pool=pool, restart=REVIVED, limits={"idle": "1h"}) as r:
        await r.extension.start()
        async with under_load(r.extension) as load:
            await until(lambda: load.ends["result"] > 50)
            assert nodes_of(r) == {"local-1"}
            r.nodes.join("new")
            await until(lambda: nodes_of(r) == {"local-1", "new"})
            r.nodes.drain("local-1")
            r.nodes.join("newer")
            await until(lambda: nodes_of(r) == {"new", "newer"})
            before = load.ends["result"]
            await until(lambda: load.ends["result"] > before + 50)
        assert set(load.ends) == {"result"}, load.ends


async def test_a_draining_node_without_another_goes_on_until_there_is_one() -> None:
    async with remote(nodes=1, pool={"engine": "local"}, restart=REVIVED) as r:
        await r.extension.start()
        r.nodes.drain("local-1")
        (child,) = r.extension._supervisor.processes.workers
        await until(lambda: child.session.lifetime.child.is_node_draining)
        assert await r.extension.call("echo", 1) == 1
        r.nodes.join("new")
        await until(lambda: nodes_of(r) == {"new"})
        assert await r.extension.call("echo", 2) == 2


async def test_a_frozen_node_is_noticed_within_the_default_and_its_share_goes_to_the_others() -> (
    None
):
    pool = {"engine": "local", "min": 2, "max": 2}
    async with remote(
        cluster=ClusterSettings(),
        nodes=2,
        pool=pool,
        restart=REVIVED,
        breaker={"failures": 10**6},
    ) as r:
        await r.extension.start()
        await until(lambda: r.extension.stats.processes == 2)
        async with under_load(r.extension) as load:
            await until(lambda: load.ends["result"] > 20)
            frozen = r.node_pids[0]
            name = next(p.node.name for p in r.nodes.placements.values())
            began = time.monotonic()
            os.kill(frozen, signal.SIGSTOP)
            await until(lambda: load.ends["ExtensionGone"] > 0)
            # The setting is 5 s, and beats are a second apart; the rest is for a busy machine.
            assert 3 < time.monotonic() - began < 30
            await until(lambda: r.extension.stats.processes == 2)
            assert name not in nodes_of(r)
            await until(lambda: not runs(frozen))
        assert set(load.ends) == {"result", "ExtensionGone"}


class Lagging(LocalNodes):
    """Lists a node as alive on which nothing can be started any more."""

    async def place(self, placement: object) -> None:
        await super().place(placement)  # type: ignore[arg-type]
        if placement.node.name == "local-1":  # type: ignore[attr-defined]
            self.running[placement.id].kill()  # type: ignore[attr-defined]


async def test_a_node_that_is_dead_and_still_listed_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.cluster.remote.LocalNodes", Lagging)
    pool = {"engine": "local", "min": 2, "max": 2, "per_node": 2}
    async with remote(nodes=2, pool=pool) as r:
        await r.extension.start()
        await until(lambda: r.extension.stats.processes == 2)
        assert r.extension.stats.nodes == {"local-2": 2}


async def test_a_node_that_cannot_reach_the_host_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with remote() as r:
        cluster = r.cluster
        await cluster._listener.open()
        cluster._listener.address = "127.0.0.1:1"
        error = await failing(r.extension.start())
        assert isinstance(error, SpawnFailed) and error.code == "X0426"
        assert "127.0.0.1:1" in error.message and "on node local-" in error.message


async def test_the_folder_of_an_extension_is_sent_and_its_pins_are_checked_there(
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
        (copy,) = (tmp_path / "node" / "folders").iterdir()
        assert see_cwd(host["a"].stats.pid) == copy

    pinned = {**entry, "sha256": {"package": "0" * 64}}
    async with exthost.Host.from_config({"extensions": [pinned]}) as host:
        cause = host["a"].cause
        assert isinstance(cause, Refused) and cause.code == "X0386"
        assert "on node local-" in cause.message
        error = await failing(host["a"].call("echo", 1))
        assert "on node local-" in str(error)


async def test_a_copy_of_the_host_has_null_in_place_of_every_connection() -> None:
    async with remote() as r:
        extension = await r.extension.start()
        (worker,) = extension._supervisor.processes.workers
        child = worker.session.lifetime.child
        assert isinstance(child, RemoteChild) and child._control is not None
        fds = [child.stdin, child.stdout, child.stderr, child.exit_fd, child._control.fileno()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
            copy = os.fork()
        if copy == 0:
            left = [fd for fd in fds if os.readlink(f"/proc/self/fd/{fd}") != os.devnull]  # noqa: PTH115
            os._exit(len(left))
        _, status = await asyncio.to_thread(os.waitpid, copy, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert await extension.call("echo", 1) == 1


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


def test_a_fork_of_the_host_keeps_no_connection_of_a_process_on_a_node() -> None:
    words = [sys.executable, "-c", FORKED_HOST, *command("ignore_eof")]
    environ = {**os.environ, "PYTHONPATH": str(Path(exthost.__file__).parents[1])}
    host = subprocess.Popen(words, stdout=subprocess.PIPE, env=environ)
    assert host.stdout is not None
    copy = 0
    try:
        copy, child = (int(word) for word in host.stdout.readline().split())
        host.kill()
        host.wait()
        # The node sees the end of its connection, though the copy lives.
        asyncio.run(until(lambda: not runs(child)))
        assert runs(copy)
    finally:
        host.kill()
        if copy:
            os.kill(copy, signal.SIGKILL)
        host.wait()
        host.stdout.close()
