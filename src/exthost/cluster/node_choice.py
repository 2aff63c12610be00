"""Chooses the node for the next process of an extension.

A node is a machine of the cluster. A cluster may list a node as alive for many seconds after it has
died, so a node whose connections were lost a short time ago is used only if no other node has room.
"""

from collections.abc import Collection, Iterable, Mapping

from exthost.cluster.placer import Node
from exthost.errors import SpawnFailed
from exthost.model.spec import Pool


def choose_node(
    nodes: Iterable[Node],
    pool: Pool,
    counts: Mapping[str, int],
    suspects: Collection[str],
    extension: str,
) -> Node:
    """Return the node for the next process. `counts` has the number of the extension's processes by
    the id of their node. `suspects` are the ids of nodes that were lost a short time ago. Raises
    SpawnFailed if no node can run the process."""
    alive = [node for node in nodes if not node.is_draining]
    wanted = dict(pool.resources or ())
    suitable = [node for node in alive if _is_suitable(node, pool, wanted)]
    if alive and not suitable:
        raise SpawnFailed(
            "X0425",
            f"no node has the resources it needs: asked for {_format_request(pool)}; "
            f"there is {'; '.join(_format_node(node, wanted) for node in alive)}",
            extension=extension,
            help="add such a node, or change pool.resources and pool.labels",
        )
    free = [node for node in suitable if counts.get(node.id, 0) < (pool.per_node or float("inf"))]
    if not free:
        raise SpawnFailed(
            "X0421",
            f"no node has room for it: {len(alive)} alive, "
            f"pool.per_node is {pool.per_node or 'not set'}",
            extension=extension,
            help="add a node, or raise pool.per_node",
        )
    spreads = pool.spread is not False

    def rank(node: Node) -> tuple[bool, bool, int]:
        # The smallest rank is chosen: False is smaller than True.
        count = counts.get(node.id, 0)
        return (
            not _has_amounts(node.free, wanted),
            node.id in suspects,
            count if spreads else -count,
        )

    return min(free, key=rank)


def _is_suitable(node: Node, pool: Pool, wanted: Mapping[str, float]) -> bool:
    has_labels = all(node.labels.get(name) == value for name, value in pool.labels or ())
    return has_labels and _has_amounts(node.resources, wanted)


def _has_amounts(amounts: Mapping[str, float] | None, wanted: Mapping[str, float]) -> bool:
    return amounts is None or all(amounts.get(name, 0) >= n for name, n in wanted.items())


def _format_request(pool: Pool) -> str:
    amounts = [f"{name} {n:g}" for name, n in pool.resources or ()]
    labels = [f"{name}={value}" for name, value in pool.labels or ()]
    return ", ".join(amounts + labels)


def _format_node(node: Node, wanted: Mapping[str, float]) -> str:
    amounts = ", ".join(f"{name} {(node.resources or {}).get(name, 0):g}" for name in wanted)
    labels = ", ".join(f"{name}={value}" for name, value in node.labels.items())
    return f"{node.name} with {', '.join(part for part in (amounts, labels) if part) or 'nothing'}"
