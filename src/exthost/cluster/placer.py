"""The interface between a host and what starts processes on nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from exthost.empty_mapping import empty_mapping

__all__ = ["Node", "Placement", "Placer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine that can run processes. `id` is unique, `name` is for people. `resources` are all
    that it has, `free` those that nobody uses; None is not known. A node that `is_draining` gets no
    new process."""

    id: str
    name: str
    labels: Mapping[str, str] = field(default_factory=empty_mapping)
    resources: Mapping[str, float] | None = None
    free: Mapping[str, float] | None = None
    is_draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A request for one node process. It connects to `gate`, which is HOST:PORT, and presents
    `nonce`. `certificate` is the SHA-256 of the gate's certificate, "" if it has none. `resources`
    are in the placer's own terms."""

    id: int
    node: Node
    gate: str
    nonce: str
    certificate: str = ""
    resources: Mapping[str, float] = field(default_factory=empty_mapping)


class Placer(Protocol):
    """Starts node processes. Knows nothing of extensions, and never sees their variables."""

    @property
    def is_over(self) -> bool:
        """Whether it can place nothing any more, and another is needed."""

    async def nodes(self) -> list[Node]:
        """Return the nodes that are alive."""

    async def place(self, placement: Placement) -> None:
        """Have a node process started. Return when the request is made; the node process connects
        to the gate when it runs. Raises SpawnFailed if the request is refused."""

    async def ended(self, placement: Placement) -> str:
        """Wait until a node process has ended, or cannot be started. Return what it printed, or
        why."""

    async def release(self, placement: Placement) -> None:
        """Give back the resources of a node process that has ended, or end one that has not."""

    async def close(self) -> None:
        """End all node processes."""
