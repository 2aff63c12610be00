"""Idle node processes are kept for the next start of the same extension."""

import os
import signal
import socket
import struct
from collections.abc import Iterator

import pytest

from exthost.cluster import idle_nodes
from exthost.cluster.idle_nodes import IdleNodeProcesses
from exthost.cluster.placer import Node, Placement
from tests.cluster.remote import remote
from tests.extensions.harness import wait_until
from tests.extensions.proc import is_running

NODE = Node(id="n", name="n", free={"CPU": 1.0})
OTHER_NODE = Node(id="m", name="m", free={"CPU": 1.0})


def placement(id: int, node: Node = NODE, **resources: float) -> Placement:
    return Placement(id=id, node=node, host_address="", nonce="", resources=resources)


class KeptProcesses:
    """Kept node processes, with the other end of the connection of each."""

    def __init__(self) -> None:
        self.idle = IdleNodeProcesses()
        self.released: list[int] = []
        self.peers: dict[int, socket.socket] = {}

    def keep(self, placement: Placement, extension: str = "a") -> None:
        our_end, self.peers[placement.id] = socket.socketpair()
        our_end.setblocking(False)
        self.idle.keep(extension, placement, our_end, lambda: self.released.append(placement.id))

    def take(self, extension: str = "a", node: Node = NODE, **resources: float) -> int | None:
        kept_process = self.idle.take(extension, node, resources)
        if kept_process is None:
            return None
        kept_process[1].close()
        return kept_process[0].id


@pytest.fixture
def kept_processes() -> Iterator[KeptProcesses]:
    kept_processes = KeptProcesses()
    yield kept_processes
    kept_processes.idle.close()
    for peer in kept_processes.peers.values():
        assert peer.recv(1) == b"", "each connection was closed"
        peer.close()


async def test_a_kept_process_is_used_only_for_the_same_extension_node_and_resources(
    kept_processes: KeptProcesses,
) -> None:
    kept_processes.keep(placement(1, CPU=1))
    assert kept_processes.take("b", CPU=1) is None
    assert kept_processes.take(CPU=2) is None
    assert kept_processes.take(node=OTHER_NODE, CPU=1) is None
    assert kept_processes.take(CPU=1) == 1
    assert kept_processes.take(CPU=1) is None
    assert kept_processes.released == []


async def test_a_kept_process_that_has_ended_is_released_and_not_used(
    kept_processes: KeptProcesses,
) -> None:
    kept_processes.keep(placement(1))
    kept_processes.keep(placement(2))
    kept_processes.keep(placement(3))
    kept_processes.peers[1].shutdown(socket.SHUT_RDWR)
    kept_processes.peers.pop(2).close()
    assert kept_processes.take() == 3
    assert kept_processes.released == [1, 2]


async def test_a_connection_that_was_reset_is_not_used(kept_processes: KeptProcesses) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        our_end = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()  # sends a reset
    our_end.setblocking(False)
    kept_processes.idle.keep("a", placement(1), our_end, lambda: kept_processes.released.append(1))
    assert kept_processes.take() is None and kept_processes.released == [1]


async def test_the_resources_of_kept_processes_count_as_free(kept_processes: KeptProcesses) -> None:
    kept_processes.keep(placement(1, CPU=2, GPU=1))
    kept_processes.keep(placement(2, OTHER_NODE, CPU=1))
    unknown = Node(id="u", name="u")
    nodes = kept_processes.idle.with_kept_resources([NODE, OTHER_NODE, unknown])
    assert [node.free for node in nodes] == [{"CPU": 3.0, "GPU": 1}, {"CPU": 2.0}, None]
    kept_processes.idle.drop_on(["n"])
    assert kept_processes.released == [1]
    assert kept_processes.take(node=OTHER_NODE, CPU=1) == 2


async def test_a_kept_process_that_is_not_used_is_released_after_a_while(
    kept_processes: KeptProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_nodes, "_KEPT_SECONDS", 0.01)
    kept_processes.keep(placement(1))
    await wait_until(lambda: kept_processes.released == [1])
    assert kept_processes.take() is None


@pytest.mark.more
async def test_the_next_process_of_an_extension_uses_the_same_node_process() -> None:
    async with remote(nodes=1, restart={"strategy": "immediate"}) as r:
        extension = await r.extension.start()
        (node_pid,), pids = r.node_pids, [extension.stats.pid or 0]
        for _ in range(3):
            os.kill(pids[-1], signal.SIGKILL)
            await wait_until(lambda: extension.stats.pid not in (None, pids[-1]))
            assert await extension.call("echo", 1) == 1
            assert r.node_pids == [node_pid]
            pids.append(extension.stats.pid or 0)
        assert len(set(pids)) == 4


@pytest.mark.more
async def test_a_kept_node_process_that_was_killed_is_replaced() -> None:
    async with remote(nodes=1, restart={"strategy": "on-demand"}) as r:
        extension = await r.extension.start()
        (node_pid,) = r.node_pids
        os.kill(extension.stats.pid or 0, signal.SIGKILL)
        await wait_until(lambda: extension.stats.processes == 0)
        assert r.node_pids == [node_pid]
        os.kill(node_pid, signal.SIGKILL)
        await wait_until(lambda: not is_running(node_pid))
        assert await extension.call("echo", 1) == 1
        assert node_pid not in r.node_pids


@pytest.mark.more
async def test_a_kept_node_process_ends_when_it_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(idle_nodes, "_KEPT_SECONDS", 0.01)
    async with remote(nodes=1, restart={"strategy": "on-demand"}) as r:
        extension = await r.extension.start()
        (node_pid,) = r.node_pids
        os.kill(extension.stats.pid or 0, signal.SIGKILL)
        await wait_until(lambda: not r.node_pids and not is_running(node_pid))
