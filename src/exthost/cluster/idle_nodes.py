"""Node processes whose extension has ended, kept for a few seconds for its next start.

A node process runs an extension on another machine. Starting one takes as long as a Python needs to
start there and, with Ray, an actor; a restart that uses a kept one does not wait for that. A kept
node process still occupies its resources in the cluster, so it is released as soon as another start
needs them.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from exthost.cluster.messages import IDLE_SECONDS
from exthost.cluster.placer import Node, Placement
from exthost.process.after_fork import disown_in_copies, replace_by_null

# How long a node process is kept: shorter than it waits by itself, so that it cannot end at the
# moment in which an order is sent.
_KEPT_SECONDS = IDLE_SECONDS / 2


class _Kept(NamedTuple):
    """A node process that is kept. `release` gives it back to its placer, and `timer` does so when
    it was not used."""

    extension: str
    placement: Placement
    control: socket.socket
    release: Callable[[], None]
    timer: asyncio.TimerHandle


class IdleNodeProcesses:
    """The node processes that are kept."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}  # by the id of the placement
        disown_in_copies(self)

    def keep(
        self,
        extension: str,
        placement: Placement,
        control: socket.socket,
        release: Callable[[], None],
    ) -> None:
        """Keep a node process for this extension. `control` is its control connection, and
        `release` gives it back to its placer."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(_KEPT_SECONDS, self._drop, placement.id)
        self._kept[placement.id] = _Kept(extension, placement, control, release, timer)

    def take(
        self, extension: str, node: Node, resources: Mapping[str, float]
    ) -> tuple[Placement, socket.socket] | None:
        """Return a node process that is kept for this extension on this node with these resources,
        and its control connection. Return None if no such process is kept."""
        for kept in list(self._kept.values()):
            placement = kept.placement
            fits = kept.extension == extension and placement.resources == resources
            if not fits or placement.node.id != node.id:
                continue
            if _is_open(kept.control):
                kept.timer.cancel()
                del self._kept[placement.id]
                return placement, kept.control
            self._drop(placement.id)
        return None

    def with_kept_resources(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes, with the resources that are kept there counted as free."""
        return [self._count_as_free(node) for node in nodes]

    def _count_as_free(self, node: Node) -> Node:
        if node.free is None:
            return node
        free = dict(node.free)
        for kept in self._kept.values():
            if kept.placement.node.id == node.id:
                for name, amount in kept.placement.resources.items():
                    free[name] = free.get(name, 0) + amount
        return replace(node, free=free)

    def drop_on(self, node_ids: Iterable[str]) -> None:
        """Release the node processes that are kept on these nodes."""
        ids = set(node_ids)
        for kept in list(self._kept.values()):
            if kept.placement.node.id in ids:
                self._drop(kept.placement.id)

    def close(self) -> None:
        """Release all."""
        for id in list(self._kept):
            self._drop(id)

    def _drop(self, id: int) -> None:
        kept = self._kept.pop(id)
        kept.timer.cancel()
        kept.control.close()
        kept.release()

    def disown(self) -> None:
        """Give up the connections in a forked copy of the host: they belong to the original."""
        replace_by_null(kept.control.fileno() for kept in self._kept.values())
        self._kept = {}


def _is_open(control: socket.socket) -> bool:
    """Return whether the node process is still there. It sends nothing while it waits."""
    try:
        return bool(control.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False
