"""Helpers to run the hostile extension on simulated nodes of this machine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from exthost.cluster.cluster import Cluster
from exthost.cluster.local_nodes import LocalNodes
from exthost.config import spec_from_mapping
from exthost.config.cluster import ClusterSettings
from exthost.extension.extension import Extension
from tests.extensions.driving import IMPATIENT, Ledger, command


class Remote:
    """An extension whose processes run on nodes, the placer of those, and the account of calls."""

    def __init__(self, extension: Extension, nodes: LocalNodes, ledger: Ledger) -> None:
        self.extension = extension
        self.nodes = nodes
        self.ledger = ledger

    @property
    def node_pids(self) -> list[int]:
        """The pids of the node processes."""
        return [process.pid for process in self.nodes.running.values()]


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
    engine = Cluster(cluster or ClusterSettings(), lambda: placer)
    extension = Extension(spec, IMPATIENT, bus=ledger.bus, spawn=engine.spawner(spec.pool))
    try:
        yield Remote(extension, placer, ledger)
    finally:
        await extension.close()
        await engine.close()
    ledger.settle(extension)
    assert placer.running == {}
