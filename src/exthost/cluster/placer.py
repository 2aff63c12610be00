"""`Placer`: the interface by which a host starts processes on the nodes of a cluster.

A node is a machine. A node process is the program of exthost that runs there: it starts a process
of an extension and relays its pipes to the host.
"""

from collections.abc import Mapping
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
class Placement:
    """A request for one node process.

    id            unique in the host
    node          the node on which the process is started
    host_address  the address of the host to which it connects, as HOST:PORT
    nonce         the random text by which the host recognises its connection
    certificate   the SHA-256 of the host's certificate, "" if it has none
    resources     the amounts that it needs, by the names that the placer uses, such as CPU
    """

    id: int
    node: Node
    host_address: str
    nonce: str
    certificate: str = ""
    resources: Mapping[str, float] = field(default_factory=empty_mapping)


class Placer(Protocol):
    """Starts node processes. It does not know the extensions and never gets their variables."""

    @property
    def has_ended(self) -> bool:
        """Whether it has stopped working, so that a new placer is needed."""

    async def nodes(self) -> list[Node]:
        """Return the nodes that are alive."""

    async def place(self, placement: Placement) -> None:
        """Request the start of a node process, which connects to the host when it runs. Return
        without waiting for that. Raises SpawnFailed if the request is refused."""

    async def wait_ended(self, placement: Placement) -> str:
        """Wait until a node process has ended, or cannot be started. Return its output
        on stderr, or the reason."""

    async def release(self, placement: Placement) -> None:
        """Release the resources of a node process. If it has not ended, end it."""

    async def close(self) -> None:
        """End all node processes."""
