"""Chooses the node for the next process of an extension, and finds a process that should move to
another node.

A node is a machine of the cluster. A cluster may list a node as alive for many seconds after it has
died. So a node whose connections were lost a short time ago is used only if no other node has the
resources free.
"""

from collections.abc import Collection, Iterable, Mapping

from exthost.cluster.placement_errors import NodesFull, describe_request
from exthost.cluster.placer import Node
from exthost.errors import PlacementFailed
from exthost.model.spec import Pool


def choose_node(
    nodes: Iterable[Node],
    pool: Pool,
    counts: Mapping[str, int],
    totals: Mapping[str, int],
    suspects: Collection[str],
    extension: str,
) -> Node:
    """Return the node that is best for the next process. Raises PlacementFailed if no node can run
    the process.

    pool       the settings of the extension's processes, such as the resources that each needs
    counts     id of a node → how many processes of the extension run there
    totals     id of a node → how many processes of all extensions of the host run there
    suspects   the ids of nodes that were lost a short time ago
    extension  the id of the extension, for errors
    """
    nodes = list(nodes)
    alive = [node for node in nodes if not node.is_draining]
    wanted = dict(pool.resources or ())
    suitable = [node for node in alive if _is_suitable(node, pool, wanted)]
    if alive and not suitable:
        raise PlacementFailed(
            "X0425",
            f"no node has the resources it needs: asked for {describe_request(pool)}; "
            f"there is {'; '.join(_format_node(node, pool) for node in alive)}",
            extension=extension,
            help="add such a node, or change pool.resources and pool.labels",
        )
    full = full_nodes(suitable, pool, counts)
    free = [node for node in suitable if node.id not in full]
    if not free:
        raise _nodes_full_error(nodes, suitable, pool, extension)
    spreads = pool.spread is not False  # None, not set, means true

    def rank(node: Node) -> tuple[bool, bool, int, int]:
        # The smallest rank is chosen: False is smaller than True.
        count, total = counts.get(node.id, 0), totals.get(node.id, 0)
        return (
            not _has_amounts(node.free, wanted),
            node.id in suspects,
            count if spreads else -count,
            total if spreads else -total,
        )

    return min(free, key=rank)


def find_move(
    nodes: Iterable[Node],
    pool: Pool,
    counts: Mapping[str, int],
    totals: Mapping[str, int],
    suspects: Collection[str],
    extension: str,
) -> tuple[str, Node] | None:
    """Return the id of the node with the most processes, and the node to which one of them should
    move; None if the processes are spread evenly already. The parameters are those of
    `choose_node`."""
    if pool.spread is False:
        return None
    nodes = list(nodes)
    try:
        node = choose_node(nodes, pool, counts, totals, suspects, extension)
    except PlacementFailed:
        return None
    if node.id in suspects or not _has_amounts(node.free, dict(pool.resources or ())):
        return None
    crowded = max((node.id for node in nodes), key=lambda id: counts.get(id, 0))
    difference = counts.get(crowded, 0) - counts.get(node.id, 0)
    # With a difference of one, a move would only swap the two nodes.
    return (crowded, node) if difference >= 2 else None


def full_nodes(nodes: Iterable[Node], pool: Pool, counts: Mapping[str, int]) -> set[str]:
    """Return the ids of the nodes that have `per_node` processes of the extension."""
    if not pool.per_node:
        return set()
    return {node.id for node in nodes if counts.get(node.id, 0) >= pool.per_node}


def _is_suitable(node: Node, pool: Pool, wanted: Mapping[str, float]) -> bool:
    has_labels = all(node.labels.get(name) == value for name, value in pool.labels or ())
    return has_labels and not _is_closed(node, wanted) and _has_amounts(node.resources, wanted)


def _is_closed(node: Node, wanted: Mapping[str, float]) -> bool:
    """Return whether a node runs none of these processes: an operator who wants no processes on a
    node, such as the head of a cluster, gives it no CPUs."""
    return node.resources is not None and not node.resources.get("CPU") and "CPU" not in wanted


def _has_amounts(amounts: Mapping[str, float] | None, wanted: Mapping[str, float]) -> bool:
    """Return whether these amounts of resources are enough. Unknown amounts (None) count as
    enough."""
    return amounts is None or all(amounts.get(name, 0) >= amount for name, amount in wanted.items())


def _format_node(node: Node, pool: Pool) -> str:
    """Return what the node has of the resources and labels that the pool asks for."""
    if _is_closed(node, dict(pool.resources or ())):
        return f"{node.name}, which has no CPUs and runs nothing"
    values = [f"{name}={node.labels[name]}" for name, _ in pool.labels or () if name in node.labels]
    if node.resources is None:
        unknown = "and unknown resources" if pool.resources else ""
        return f"{node.name} with {', '.join(values) or 'no such label'} {unknown}".rstrip()
    amounts = [f"{name} {node.resources.get(name, 0):.15g}" for name, _ in pool.resources or ()]
    return f"{node.name} with {', '.join(amounts + values) or 'nothing'}"


def _nodes_full_error(
    nodes: list[Node], suitable: list[Node], pool: Pool, extension: str
) -> NodesFull:
    """Return the error if each suitable node has its maximum of processes, or if there is none."""
    help = "add a node"
    if suitable:
        reason = f"each of the {len(suitable)} suitable nodes has {pool.per_node} (pool.per_node)"
        help = "add a node, or raise pool.per_node"
    elif nodes:
        reason = f"each of its {len(nodes)} nodes is being drained"
    else:
        reason = "the cluster has no node"
    return NodesFull("X0421", f"no node has room for it: {reason}", extension=extension, help=help)
