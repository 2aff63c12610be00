"""`Placer`: the interface by which a host uses the nodes of a cluster.

A node is a machine. A placer does two things there: it holds (reserves) the resources of each
process, and it starts an agent, the program of exthost that runs the processes of one host on the
node. `ray_nodes` implements it for a Ray cluster; `local_nodes` simulates nodes on this machine.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from exthost.model.empty_mapping import empty_mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine that can run processes.

    id           unique in the cluster
    name         the name that users see
    labels       labels that the cluster's operator gave to the node
    resources    the total amounts of its resources, such as CPU; None if unknown
    free         the amounts that are not in use; None if unknown
    is_draining  whether the node is to be shut down and gets no new process
    """

    id: str
    name: str
    labels: Mapping[str, str] = field(default_factory=empty_mapping)
    resources: Mapping[str, float] | None = None
    free: Mapping[str, float] | None = None
    is_draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRequest:
    """A request for the resources of one process.

    id         unique in the host
    preferred  the node that the host would choose; None if no node is large enough yet
    excluded   the ids of the nodes that must not be used
    resources  the amounts that it needs, by the names that the placer uses, such as CPU
    labels     the labels that the node must have
    seconds    how long to wait for the resources
    """

    id: int
    preferred: Node | None
    excluded: Collection[str] = ()
    resources: Mapping[str, float] = field(default_factory=empty_mapping)
    labels: Mapping[str, str] = field(default_factory=empty_mapping)
    seconds: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPlace:
    """Resources that are held for one process.

    id         that of the request
    node       the node that has them
    variables  environment variables that name the resources, such as those of GPUs
    """

    id: int
    node: Node
    variables: Mapping[str, str] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStart:
    """What an agent needs to connect to its host.

    address       the address of the host, as HOST:PORT
    nonce         the random text by which the host recognises the agent
    certificates  the folder with the certificates on the node; "default" for that in its state
                  folder, "" if the connection is not encrypted
    image         the container image in which it runs, "" for none
    """

    address: str
    nonce: str
    certificates: str = ""
    image: str = ""


class Placer(Protocol):
    """Uses one cluster. It does not know the extensions and never gets their variables."""

    @property
    def has_ended(self) -> bool:
        """Whether it has stopped working, so that a new placer is needed."""

    @property
    def can_grow(self) -> bool:
        """Whether nodes may be added for a request that no node can serve."""

    async def nodes(self) -> list[Node]:
        """Return the nodes that are alive."""

    async def hold(self, request: PlaceRequest) -> HeldPlace:
        """Wait for resources and hold them, on the preferred node if they are free there. Raises
        SpawnFailed, and TimeoutError if they were not free in time."""

    async def release(self, place: HeldPlace) -> None:
        """Give the resources back."""

    async def start_agent(self, node: Node, start: AgentStart) -> None:
        """Start the agent of a node, which then connects to the host. Return without waiting for
        that. Raises SpawnFailed if it cannot be started."""

    async def wait_agent_ended(self, node: Node, image: str) -> str:
        """Wait until the agent of a node that runs in this image has ended, or cannot be started.
        Return its output on stderr, or the reason. Raises SpawnFailed if the node is not the cause,
        so that other nodes need not be tried."""

    async def stop_agent(self, node: Node, image: str) -> None:
        """End the agent of a node that runs in this image, if there is one."""

    async def close(self) -> None:
        """End all agents, and give all resources back."""
