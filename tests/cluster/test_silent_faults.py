"""Faults that nothing reports: a connection that drops everything, a host that was paused, and a
host without free file descriptors.

A host runs processes on nodes through agents. Each end of the connection sends heartbeats, and
gives up the other after a time of silence. `remote(…)` yields `r`, an extension on nodes that are
simulated on this machine, with `r.nodes` and `r.cluster`.
"""

import asyncio
import contextlib
import itertools
import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exthost.cluster.local_nodes import LocalNodes
from exthost.cluster.placer import AgentStart, Node
from exthost.config.cluster import ClusterSettings
from exthost.errors import ExtensionGone
from tests.cluster.remote import remote
from tests.extensions.harness import error_of, hostile_command, wait_until
from tests.extensions.proc import is_running

pytestmark = pytest.mark.more

ROOT = Path(__file__).parents[2]
SILENCE_SECONDS = 2.0


class DroppingProxy:
    """Forwards connections to the host, until it drops everything without closing them."""

    def __init__(self) -> None:
        self.target: tuple[str, int] = "", 0
        self.is_dropping = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host_reader, host_writer = await asyncio.open_connection(*self.target)
        for source, target in ((reader, host_writer), (host_reader, writer)):
            task = asyncio.create_task(self._forward(source, target))
            self._tasks.add(task)

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                if not self.is_dropping:
                    target.write(data)
        except ConnectionError:
            pass
        finally:
            target.close()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


@contextlib.asynccontextmanager
async def dropping_proxy() -> AsyncIterator[tuple[DroppingProxy, str]]:
    """Yield a proxy and its address."""
    proxy = DroppingProxy()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield proxy, f"{host}:{port}"
    finally:
        server.close()
        await proxy.close()


async def do_nothing(*_: object) -> None:
    pass


async def test_a_connection_that_drops_everything_is_noticed_at_both_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with dropping_proxy() as (proxy, address):
        settings = ClusterSettings(advertise=address, silence=SILENCE_SECONDS)
        # The host does not stop the agent, which has to notice by itself that the host is gone.
        monkeypatch.setattr(LocalNodes, "stop_agent", do_nothing)
        async with remote(nodes=1, cluster=settings) as r:
            # The agent connects to the proxy, which needs the address of the host.
            await r.cluster._listener.open()
            assert r.cluster._listener._socket is not None
            proxy.target = r.cluster._listener._socket.getsockname()
            extension = await r.extension.start()
            r.nodes.leave("local-1")  # so that no other process is started there
            child, agent = extension.stats.pid or 0, r.agent_pids[0]
            call_in_flight = asyncio.create_task(error_of(extension.call("keep", 1)))
            await wait_until(lambda: extension.stats.in_flight == 1)
            proxy.is_dropping = True
            error = await call_in_flight
            assert isinstance(error, ExtensionGone) and "has not answered for" in error.message
            await wait_until(lambda: not is_running(child) and _has_exited(agent))


def _has_exited(pid: int) -> bool:
    """Return whether a process has ended. It may be a zombie, because nobody waits for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# A program that runs a host, prints the pid of its extension, and waits for a line before a call.
# Then it prints what has happened meanwhile.
HOST = """
import asyncio, json, sys
import exthost, exthost.events

async def main():
    async with exthost.Host.from_config(json.loads(sys.argv[1])) as host:
        extension = host["a"]
        reasons = []
        host.events.subscribe(
            exthost.events.Exited, lambda event: reasons.append(f"{event.node}: {event.status}")
        )
        await extension.start()
        print(extension.stats.pid, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        result = await extension.call("echo", 7, timeout=60)
        stats = extension.stats
        print(json.dumps([result, stats.pid, stats.crashes, reasons]), flush=True)

asyncio.run(main())
"""


def test_the_pool_of_a_host_that_was_paused_is_replaced_and_the_reason_is_true() -> None:
    program, *args = hostile_command()
    entry = {
        "name": "a",
        "dialect": "morphir",
        "source": {"type": "process", "command": program, "args": args},
        "pool": {"engine": "local"},
        "restart": {"strategy": "never"},
    }
    config = {"cluster": {"silence": f"{SILENCE_SECONDS}s", "nodes": 1}, "extensions": [entry]}
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, json.dumps(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert host.stdin is not None and host.stdout is not None
    try:
        child = int(host.stdout.readline())
        host.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 60
        while is_running(child):  # the agent has ended it, because the host is silent
            assert time.monotonic() < deadline
            time.sleep(0.05)
        host.send_signal(signal.SIGCONT)
        host.stdin.write(b"\n")
        host.stdin.flush()
        result, pid, crashes, reasons = json.loads(host.stdout.readline())
    finally:
        host.kill()
        host.wait()
        host.stdin.close()
        host.stdout.close()
    assert result == 7 and pid != child and crashes == 0
    assert len(reasons) == 1 and "it has not heard from this host for" in reasons[0], reasons


def open_descriptors() -> set[int]:
    listed = list(Path("/proc/self/fd").iterdir())
    # The descriptor that was used to list them is closed by now.
    return {int(path.name) for path in listed if path.is_symlink()}


@contextlib.contextmanager
def free_descriptors(count: int) -> Iterator[None]:
    """Let this process open exactly this many more file descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = open_descriptors()
    # A limit is the first number that cannot be used, and numbers below it may be free.
    limit = next(n for n in itertools.count() if n - sum(fd < n for fd in used) == count)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def has_released_all_resources(nodes: LocalNodes) -> bool:
    return not nodes._held


async def test_a_start_without_free_descriptors_is_reported_as_such_and_leaves_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = open_descriptors()
    codes = []
    for count in range(5):  # the descriptors run out in another step of the start each time
        async with remote(nodes=1, sandbox="off", restart={"strategy": "never"}) as r:
            with free_descriptors(count):
                error = await error_of(r.extension.start())
            codes.append(error.code)
            await wait_until(partial(has_released_all_resources, r.nodes))
        assert open_descriptors() == before
    assert set(codes) == {"X0405"}
    assert "Traceback" not in caplog.text


class ExhaustingNodes(LocalNodes):
    """Leaves the host a single free descriptor after the start of an agent, so that the host cannot
    accept its connection."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.limits = contextlib.ExitStack()

    async def start_agent(self, node: Node, start: AgentStart) -> None:
        await super().start_agent(node, start)
        self.limits.enter_context(free_descriptors(1))


async def test_a_connection_that_the_host_cannot_accept_is_not_blamed_on_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.cluster.remote.LocalNodes", ExhaustingNodes)
    settings = ClusterSettings(place=3.0, silence=60.0)
    async with remote(nodes=1, cluster=settings, sandbox="off", restart={"strategy": "never"}) as r:
        assert isinstance(r.nodes, ExhaustingNodes)
        try:
            error = await error_of(r.extension.start())
        finally:
            r.nodes.limits.close()
        assert error.code == "X0405" and "Too many open files" in error.message, error
        assert "the host has no room" in error.message
