"""Makes the errors of a start on another machine (a node) that the cluster causes, not the
extension. Each function is named after the problem and returns the exception to raise."""

from typing import Any

from exthost._version import __version__
from exthost.cluster.placer import Node
from exthost.errors import Evidence, PlacementFailed, Refused, SpawnFailed
from exthost.model.spec import Pool


class NodeLostInStart(PlacementFailed):
    """The node was lost while a process started on it. The host tries another node."""


class NodesFull(PlacementFailed):
    """Each suitable node has `pool.per_node` processes. The host waits for the end of one."""


def runtime_env_refused(reason: str, node: Node | None = None) -> PlacementFailed:
    """Return the error if Ray refused the runtime environment, or could not make it on a node."""
    place = "" if node is None else f" on node {node.name}"
    return PlacementFailed(
        "X1990",
        f"Ray cannot make the runtime environment{place}: {reason}",
        permanent=node is None,
        help="correct cluster.runtime_env or pool.image; an image needs podman on the nodes, and "
        "the versions of Ray and Python that the cluster has",
    )


def no_working_dir(extension: str) -> SpawnFailed:
    """Return the error if the programs should be in Ray's working folder and Ray has none."""
    return SpawnFailed(
        "X1992",
        'pool.files is "runtime-env", and cluster.runtime_env has no working_dir',
        permanent=True,
        extension=extension,
        help='name the folder of the programs: runtime_env = { working_dir = "programs" }',
    )


def describe_request(pool: Pool) -> str:
    """Return the resources and labels of a pool as a text."""
    amounts = [f"{name} {amount:.15g}" for name, amount in pool.resources or ()]
    labels = [f"{name}={value}" for name, value in pool.labels or ()]
    return ", ".join(amounts + labels) or "no resources"


def no_resources_in_time(extension: str, pool: Pool, seconds: float) -> PlacementFailed:
    """Return the error if the resources of the process did not become free in time."""
    return PlacementFailed(
        "X1976",
        f"no node had its resources free within {seconds:g} s; asked for: {describe_request(pool)}",
        extension=extension,
        help="add a node, or ask for less in pool.resources",
    )


def agent_not_connected(
    extension: str, node: Node, address: str, seconds: float
) -> PlacementFailed:
    """Return the error if the agent was started and neither connected nor reported an error."""
    return PlacementFailed(
        "X0422",
        f"the agent of node {node.name} has not connected to {address} within {seconds:g} s",
        extension=extension,
        help="check that the node can reach cluster.listen (or cluster.advertise)",
    )


def agent_unreachable(extension: str, node: Node, reason: str) -> PlacementFailed:
    """Return the error if the agent reported that it cannot reach the host."""
    return PlacementFailed(
        "X0426",
        f"on node {node.name}: {reason}",
        extension=extension,
        help="name an address in cluster.listen or cluster.advertise that the nodes can reach, "
        "open its port, and check the certificates of the node",
    )


def host_exhausted(extension: str, error: OSError) -> PlacementFailed:
    """Return the error if the host has no descriptors, processes or memory for the start."""
    return PlacementFailed(
        "X0405",
        f"the host has no room for the connection to a node: {error}",
        extension=extension,
        help="stop other extensions, or raise the limit of the host (ulimit -n, ulimit -u)",
    )


def too_many_strangers(extension: str, node: Node, address: str, closed: int) -> PlacementFailed:
    """Return the error if the agent could not connect because of too many other connections."""
    return PlacementFailed(
        "X0431",
        f"node {node.name} could not connect: too many connections without a nonce came to "
        f"{address}, {closed} were closed so far",
        extension=extension,
        help="find out what connects to cluster.listen, and let only the nodes reach it",
    )


def node_lost(extension: str, node: Node, reason: str) -> NodeLostInStart:
    """Return the error if the node was lost while the process started."""
    return NodeLostInStart(
        "X0423",
        f"node {node.name} was lost while the process started: {reason}",
        extension=extension,
        help="check the node; the process is started elsewhere",
    )


def other_version(extension: str, node: Node, version: str) -> PlacementFailed:
    """Return the error if the agent has a version that this host cannot work with."""
    return PlacementFailed(
        "X0430",
        f"node {node.name} has exthost {version}, and the host has {__version__}",
        extension=extension,
        help="install versions that differ by one minor version at most",
    )


def start_refused(failed: dict[str, Any], extension: str, node: Node) -> SpawnFailed | Refused:
    """Return the error that an agent sent, made by `preparation.encode_error`."""
    message = f"on node {node.name}: {failed['message']}"
    evidence = Evidence(path=failed["path"])
    if failed["refused"]:
        return Refused(
            failed["code"], message, extension=extension, help=failed["help"], evidence=evidence
        )
    return SpawnFailed(
        failed["code"],
        message,
        permanent=bool(failed["permanent"]),
        extension=extension,
        help=failed["help"],
        evidence=evidence,
    )
