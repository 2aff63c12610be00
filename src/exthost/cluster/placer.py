"""The interface between a host and what starts processes on nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from exthost.empty_mapping import empty_mapping

__all__ = ["Node", "Placement", "Placer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine that can run processes. `id` is unique, `name` is for people."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A request for one node process. It connects to `gate`, which is HOST:PORT, and presents
    `nonce`. `resources` are in the placer's own terms."""

    id: int
    node: Node
    gate: str
    nonce: str
    resources: Mapping[str, float] = field(default_factory=empty_mapping)


class Placer(Protocol):
    """Starts node processes. Knows nothing of extensions, and never sees their variables."""

    async def nodes(self) -> list[Node]:
        """Return the nodes that are alive."""

    async def place(self, placement: Placement) -> None:
        """Have a node process started. Return when the request is made; the node process connects
        to the gate when it runs. Raises SpawnFailed if the request is refused."""

    async def release(self, placement: Placement) -> None:
        """Give back the resources of a node process that has ended, or end one that has not."""

    async def close(self) -> None:
        """End all node processes."""
