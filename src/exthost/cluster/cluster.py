"""Starts processes of a host's extensions on other nodes.

Chooses the node: among those that are alive and have fewer than `per_node` processes of the
extension, one with the fewest. Everything about the process itself is in `RemoteChild`.
"""

import asyncio
import itertools
import logging
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from exthost.cluster.gate import Gate
from exthost.cluster.messages import Lines, Order, encode_order
from exthost.cluster.placer import Node, Placement, Placer
from exthost.cluster.remote_child import RemoteChild
from exthost.config.cluster import ClusterSettings
from exthost.errors import ExthostError, SpawnFailed
from exthost.launch_plan import LaunchPlan
from exthost.spec import Pool

__all__ = ["Cluster"]

_log = logging.getLogger("exthost.cluster")

# How long a node process may take to spawn, once it has its order.
_SPAWN_SECONDS = 20.0

# What a node that is lost, or that sends nonsense, causes here.
_NODE_ERRORS = (TimeoutError, OSError, ValueError, TypeError, KeyError)


class Cluster:
    """The nodes of one host. Opened by the first start, closed with the host."""

    def __init__(self, settings: ClusterSettings, make_placer: Callable[[], Placer]) -> None:
        self._settings = settings
        self._make_placer = make_placer
        self._placer: asyncio.Task[Placer] | None = None
        self._gate = Gate(settings.host, settings.port)
        self._numbers = itertools.count(1)
        self._processes: Counter[tuple[str, str]] = Counter()  # by extension and node
        self._releases: set[asyncio.Task[None]] = set()

    def spawner(self, pool: Pool) -> Callable[[LaunchPlan, str], Awaitable[RemoteChild]]:
        """Return what starts a process of an extension that has this pool."""

        async def spawn(plan: LaunchPlan, extension: str) -> RemoteChild:
            return await self._spawn(plan, extension, pool)

        return spawn

    async def _opened(self) -> Placer:
        """Return the placer, made by the first start. One that cannot be made is tried again."""
        if self._placer is None or (self._placer.done() and self._placer.exception() is not None):
            self._placer = asyncio.create_task(self._open())
        # A start that is cancelled does not cancel what other starts wait for.
        return await asyncio.shield(self._placer)

    async def _open(self) -> Placer:
        await self._gate.open()
        return await asyncio.to_thread(self._make_placer)

    async def _spawn(self, plan: LaunchPlan, extension: str, pool: Pool) -> RemoteChild:
        began = time.perf_counter()
        placer = await self._opened()
        node = await self._choose(placer, extension, pool)
        nonce, connected = self._gate.expect()
        placement = Placement(
            id=next(self._numbers),
            node=node,
            gate=self._gate.address,
            nonce=nonce,
            resources=dict(pool.resources or ()),
        )
        key = extension, node.id
        self._processes[key] += 1
        streams = [self._gate.expect() for _ in range(3)]
        lines = Lines()
        try:
            await placer.place(placement)
            life = await self._connection(connected, placement, extension)
            names = (streams[0][0], streams[1][0], streams[2][0])
            order = Order(extension, plan, names, self._settings.silence)
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(_SPAWN_SECONDS):
                await loop.sock_sendall(life, encode_order(order))
                pid, messages = await self._started(life, lines, extension, node)
                sockets = [await future for _, future in streams]
        except BaseException as error:
            for future in (connected, *(future for _, future in streams)):
                if not future.cancel() and not future.cancelled():
                    future.result().close()
            self._release(placer, placement, key)
            if isinstance(error, ExthostError) or not isinstance(error, _NODE_ERRORS):
                raise
            raise _lost(extension, node, str(error) or "it did not answer in time") from None
        return RemoteChild(
            node=node.name,
            pid=pid,
            argv=plan.argv,
            cwd=plan.cwd or "",
            life=life,
            streams=sockets,
            lines=lines,
            messages=messages,
            silence=self._settings.silence,
            spawn_seconds=time.perf_counter() - began,
            on_released=lambda: self._release(placer, placement, key),
        )

    async def _choose(self, placer: Placer, extension: str, pool: Pool) -> Node:
        nodes = await placer.nodes()
        free = [
            node
            for node in nodes
            if pool.per_node is None or self._processes[extension, node.id] < pool.per_node
        ]
        if not free:
            raise SpawnFailed(
                "X0421",
                f"no node has room for it: {len(nodes)} alive, "
                f"pool.per_node is {pool.per_node or 'not set'}",
                extension=extension,
                help="add a node, or raise pool.per_node",
            )
        if pool.spread is False:
            return free[0]
        return min(free, key=lambda node: self._processes[extension, node.id])

    async def _connection(
        self, connected: "asyncio.Future[socket.socket]", placement: Placement, extension: str
    ) -> socket.socket:
        """Return the life connection of the node process."""
        seconds = self._settings.place
        try:
            return await asyncio.wait_for(connected, seconds)
        except TimeoutError:
            wanted = ", ".join(f"{name} {n:g}" for name, n in placement.resources.items())
            raise SpawnFailed(
                "X0422",
                f"node {placement.node.name} has not connected to {placement.gate} "
                f"within {seconds:g} s; asked for: {wanted or 'no resources'}",
                extension=extension,
                help="check that the nodes have these resources free, and that they can reach "
                "cluster.listen",
            ) from None

    async def _started(
        self, life: socket.socket, lines: Lines, extension: str, node: Node
    ) -> tuple[int, list[dict[str, Any]]]:
        """Return the pid on the node and the messages after it, or raise what went wrong there."""
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(life, 65536):
            messages = lines.feed(data)
            while messages:
                message = messages.pop(0)
                if "started" in message:
                    return int(message["started"]), messages
                if "failed" in message:
                    failed = message["failed"]
                    raise SpawnFailed(
                        failed["code"],
                        f"on node {node.name}: {failed['message']}",
                        permanent=bool(failed["permanent"]),
                        extension=extension,
                        help=failed["help"],
                    )
        raise _lost(extension, node, "it closed the connection")

    def _release(self, placer: Placer, placement: Placement, key: tuple[str, str]) -> None:
        self._processes[key] -= 1
        task = asyncio.ensure_future(placer.release(placement))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def close(self) -> None:
        """End every node process and stop listening."""
        if self._releases:
            await asyncio.wait(set(self._releases))
        opening, self._placer = self._placer, None
        if opening is not None:
            await asyncio.wait([opening])
            if opening.exception() is None:
                await opening.result().close()
        await self._gate.close()


def _lost(extension: str, node: Node, reason: str) -> SpawnFailed:
    return SpawnFailed(
        "X0423",
        f"node {node.name} was lost while the process started: {reason}",
        extension=extension,
        help="check the node; the process is started elsewhere by its restart policy",
    )
