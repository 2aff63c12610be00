"""Helpers to run the hostile extension on simulated nodes of this machine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from exthost.cluster.cluster import Cluster
from exthost.cluster.local_nodes import LocalNodes
from exthost.config import spec_from_mapping
from exthost.config.cluster import ClusterSettings
from exthost.extension.extension import Extension
from tests.extensions.harness import SHORT_SHUTDOWN, Ledger, hostile_command


class RemoteExtension:
    """An extension whose processes run on simulated nodes, with its placer and its ledger of
    calls."""

    def __init__(
        self, extension: Extension, nodes: LocalNodes, ledger: Ledger, cluster: Cluster
    ) -> None:
        self.extension = extension
        self.cluster = cluster
        self.nodes = nodes
        self.ledger = ledger

    @property
    def node_pids(self) -> list[int]:
        """Return the pids of the node processes."""
        return [process.pid for process in self.nodes.running.values()]

    def children(self) -> dict[int, int]:
        """Return the pid of the child of each node process, by the pid of the node process."""
        return {pid: next(iter(_children_of(pid)), 0) for pid in self.node_pids}

    def pids_of_node(self, name: str) -> list[int]:
        """Return the pids of all processes on a node, node processes first."""
        ids = [id for id, placed in self.nodes.placements.items() if placed.node.name == name]
        pids = [process.pid for id, process in self.nodes.running.items() if id in ids]
        return pids + [child for pid in pids for child in _children_of(pid)]


def _children_of(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@asynccontextmanager
async def remote(
    *flags: str,
    nodes: int = 3,
    cluster: ClusterSettings | None = None,
    argv: list[str] | None = None,
    **settings: Any,
) -> AsyncIterator[RemoteExtension]:
    """Yield a hostile extension that is not started. At the end, check that every call ended
    once."""
    program, *args = argv or hostile_command(*flags)
    source = {"type": "process", "command": program, "args": args}
    spec = spec_from_mapping({"name": "hostile", "source": source, **settings})
    placer = LocalNodes(nodes)
    ledger = Ledger()
    # Longer than the default: on a busy machine this process may not run for seconds.
    engine = Cluster(cluster or ClusterSettings(silence=60.0), lambda: placer)
    extension = Extension(spec, SHORT_SHUTDOWN, bus=ledger.bus, spawn=engine.spawner(spec))
    try:
        yield RemoteExtension(extension, placer, ledger, engine)
    finally:
        await extension.close()
        await engine.close()
    ledger.settle(extension)
    assert placer.running == {}
