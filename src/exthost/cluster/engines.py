"""The engines of a host by their names in `pool.engine`; each is opened by the first start."""

from collections.abc import Awaitable, Callable

from exthost.cluster.cluster import Cluster
from exthost.cluster.local_nodes import LocalNodes
from exthost.cluster.placer import Placer
from exthost.cluster.ray_nodes import RayNodes
from exthost.cluster.remote_child import RemoteChild
from exthost.config.cluster import ClusterSettings
from exthost.launch_plan import LaunchPlan
from exthost.spec import Spec

__all__ = ["Engines"]


class Engines:
    """Makes a cluster for each engine that is used."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._clusters: dict[str, Cluster] = {}

    def spawner(self, spec: Spec) -> Callable[[LaunchPlan, str], Awaitable[RemoteChild]] | None:
        """Return what starts a process of an extension on a node; None: it runs on this machine."""
        pool = spec.pool
        if pool.engine is None:
            return None
        if pool.engine not in self._clusters:
            make_placer = self._ray if pool.engine == "ray" else self._local
            self._clusters[pool.engine] = Cluster(self._settings, make_placer)
        return self._clusters[pool.engine].spawner(spec)

    def _local(self) -> Placer:
        return LocalNodes(self._settings.nodes)

    def _ray(self) -> Placer:
        return RayNodes(self._settings.address)

    async def close(self) -> None:
        """End every process on every node."""
        clusters, self._clusters = self._clusters, {}
        for cluster in clusters.values():
            await cluster.close()
