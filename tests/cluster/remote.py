"""Helpers to run an extension on nodes that are simulated on this machine.

A node is an agent process, which starts processes of the extension and is connected to the host.
The extension is the hostile test extension (`tests/extensions/hostile.py`), whose flags and calls
say what it does.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from exthost.cluster.cluster import Cluster
from exthost.cluster.local_nodes import LocalNodes
from exthost.config import spec_from_mapping
from exthost.config.cluster import ClusterSettings
from exthost.extension.extension import Extension
from exthost.process.procfs import children_of
from tests.extensions.harness import SHORT_SHUTDOWN, Ledger, hostile_command


class RemoteExtension:
    """An extension whose processes run on simulated nodes. `nodes` starts the agents and decides on
    which node a process runs, and `ledger` counts the calls."""

    def __init__(
        self, extension: Extension, nodes: LocalNodes, ledger: Ledger, cluster: Cluster
    ) -> None:
        self.extension = extension
        self.cluster = cluster
        self.nodes = nodes
        self.ledger = ledger

    @property
    def agent_pids(self) -> list[int]:
        """The pids of the agents."""
        return [process.pid for process in self.nodes.agents.values()]

    def pids_of_node(self, name: str) -> list[int]:
        """Return the pids of all processes on a node, its agent first."""
        agent = self.nodes.agents[name].pid
        return [agent, *children_of(agent)]


@asynccontextmanager
async def remote(
    *flags: str,
    nodes: int = 3,
    cluster: ClusterSettings | None = None,
    resources: dict[str, float] | None = None,
    argv: list[str] | None = None,
    **settings: Any,
) -> AsyncIterator[RemoteExtension]:
    """Yield a hostile extension that is not started. At the end, check that every call ended once
    (by a ledger, which counts them), and that no agent and no resource is left."""
    program, *args = argv or hostile_command(*flags)
    source = {"type": "process", "command": program, "args": args}
    spec = spec_from_mapping({"name": "hostile", "source": source, **settings})
    placer = LocalNodes(nodes, resources)
    ledger = Ledger()
    # A node that is silent for this long counts as lost. It is longer than the default, because on
    # a busy machine this process may not run for seconds.
    engine = Cluster(cluster or ClusterSettings(silence=60.0), lambda: placer)
    extension = Extension(spec, SHORT_SHUTDOWN, bus=ledger.bus, spawn=engine.spawner(spec))
    try:
        yield RemoteExtension(extension, placer, ledger, engine)
    finally:
        await extension.close()
        await engine.close()
    ledger.check_calls(extension)
    assert placer.agents == {} and not placer._held
