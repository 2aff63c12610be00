"""The clusters of a host, one for each engine that an extension uses.

The engine (`pool.engine`) is the software that starts processes on nodes: "ray" uses a Ray cluster,
and "local" simulates nodes on this machine. A node is a machine of the cluster. A cluster is
created, and its modules are imported, when the first extension uses it, so that a host whose
extensions use none starts faster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exthost.cluster.cluster import Cluster
    from exthost.cluster.placer import Node, Placer
    from exthost.cluster.remote_child import RemoteChild
    from exthost.config.cluster import ClusterSettings
    from exthost.model.launch_plan import LaunchPlan
    from exthost.model.spec import Spec


class Engines:
    """The clusters of one host, by engine."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._clusters: dict[str, Cluster] = {}
        # Done when the clusters are closed: then nothing waits for Ray to connect any more.
        self._closing: Future[None] = Future()

    def spawner(self, spec: Spec) -> Callable[[LaunchPlan, str], Awaitable[RemoteChild]] | None:
        """Return a function that starts a process of this extension on a node, or None if it runs
        as a local process."""
        engine = spec.pool.engine
        return None if engine is None else self._cluster(engine).spawner(spec)

    async def nodes(self, engine: str) -> list[Node]:
        """Return the nodes of an engine that are alive. Raises SpawnFailed, and ConfigError."""
        return await self._cluster(engine).nodes()

    def _cluster(self, engine: str) -> Cluster:
        if engine not in self._clusters:
            from exthost.cluster.cluster import Cluster

            make_placer = self._make_ray_placer if engine == "ray" else self._make_local_placer
            self._clusters[engine] = Cluster(self._settings, make_placer)
        return self._clusters[engine]

    def _make_local_placer(self) -> Placer:
        from exthost.cluster.local_nodes import LocalNodes

        return LocalNodes(self._settings.nodes)

    def _make_ray_placer(self) -> Placer:
        from exthost.cluster.ray_nodes import RayNodes

        return RayNodes(self._settings.address, self._settings.runtime_env, self._closing)

    async def close(self) -> None:
        """End every process on every node."""
        self._closing.set_result(None)
        self._closing = Future()
        clusters, self._clusters = self._clusters, {}
        for cluster in clusters.values():
            await cluster.close()
