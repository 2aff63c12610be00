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
from tests.extensions.harness import IMPATIENT, Ledger, command


class Remote:
    """An extension whose processes run on nodes, the placer of those, and the account of calls."""

    def __init__(
        self, extension: Extension, nodes: LocalNodes, ledger: Ledger, cluster: Cluster
    ) -> None:
        self.extension = extension
        self.cluster = cluster
        self.nodes = nodes
        self.ledger = ledger

    @property
    def node_pids(self) -> list[int]:
        """The pids of the node processes."""
        return [process.pid for process in self.nodes.running.values()]

    def children(self) -> dict[int, int]:
        """The pid of each node process, and of what it has started."""
        return {pid: next(iter(_children_of(pid)), 0) for pid in self.node_pids}

    def pids_of_node(self, name: str) -> list[int]:
        """The pids of all processes on a node, node processes first."""
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
) -> AsyncIterator[Remote]:
    """One hostile extension that is not started. At the end every call is accounted for."""
    program, *args = argv or command(*flags)
    source = {"type": "process", "command": program, "args": args}
    spec = spec_from_mapping({"name": "hostile", "source": source, **settings})
    placer = LocalNodes(nodes)
    ledger = Ledger()
    # Not the usual silence: beside much other work, this process may not run for seconds.
    engine = Cluster(cluster or ClusterSettings(silence=60.0), lambda: placer)
    extension = Extension(spec, IMPATIENT, bus=ledger.bus, spawn=engine.spawner(spec))
    try:
        yield Remote(extension, placer, ledger, engine)
    finally:
        await extension.close()
        await engine.close()
    ledger.settle(extension)
    assert placer.running == {}
