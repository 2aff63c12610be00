"""Starts processes of a host's extensions on other nodes.

Chooses the node (`node_choice`), has a node process started there, gives it its order, and returns
a `RemoteChild`. Looks from time to time whether a node is being emptied.
"""

import asyncio
import itertools
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from exthost.cluster.folders import read_folder, send_folder
from exthost.cluster.gate import Gate
from exthost.cluster.messages import Lines, Order, StateFolder, encode_order
from exthost.cluster.node_choice import choose_node
from exthost.cluster.placer import Node, Placement, Placer
from exthost.cluster.remote_child import RemoteChild
from exthost.config.cluster import ClusterSettings
from exthost.errors import Evidence, ExthostError, Refused, SpawnFailed
from exthost.launch.integrity import get_pins, package_root
from exthost.launch.package_tree import PackageTree
from exthost.launch_plan import LaunchPlan
from exthost.process.host_environ import host_environ
from exthost.process.state_dirs import state_folder
from exthost.spec import Spec

__all__ = ["Cluster"]

_log = logging.getLogger("exthost.cluster")

# How long a node process may take to spawn, once it has its order and the folder.
_SPAWN_SECONDS = 20.0

# How long a folder may take to be sent.
_FOLDER_SECONDS = 300.0

# For how long a node that was lost is avoided. Ray needs up to 18 s to see that one is dead.
_SUSPECT_SECONDS = 20.0

# How many nodes are tried for one start, if they are lost meanwhile.
_TRIES = 3

# How often the nodes are listed, to see which are being emptied.
_LIST_SECONDS = 1.0

# What a node that is lost, or that sends nonsense, causes here.
_NODE_ERRORS = (TimeoutError, OSError, ValueError, TypeError, KeyError)


class Cluster:
    """The nodes of one host. Opened by the first start, closed with the host."""

    def __init__(self, settings: ClusterSettings, make_placer: Callable[[], Placer]) -> None:
        self._settings = settings
        self._make_placer = make_placer
        self._placer: asyncio.Task[Placer] | None = None
        self._gate = Gate(settings)
        self._numbers = itertools.count(1)
        self._processes: dict[str, Counter[str]] = {}  # by extension, then by node
        self._children: dict[RemoteChild, str] = {}  # with the ids of their nodes
        self._lost_at: dict[str, float] = {}  # when a node was lost, by its id
        self._tasks: set[asyncio.Task[None]] = set()
        self._lister: asyncio.Task[None] | None = None

    def spawner(self, spec: Spec) -> Callable[[LaunchPlan, str], Awaitable[RemoteChild]]:
        """Return what starts a process of an extension."""

        async def spawn(plan: LaunchPlan, extension: str) -> RemoteChild:
            for attempt in itertools.count(1):
                try:
                    return await self._spawn(plan, spec)
                except SpawnFailed as error:
                    if error.code != "X0423" or attempt == _TRIES:
                        raise
                    _log.warning("[%s] %s; another node is tried", extension, error.message)
            raise AssertionError

        return spawn

    async def _opened(self) -> Placer:
        """Return the placer, made by the first start. One that cannot be made is tried again, and
        one that is over is replaced."""
        opening = self._placer
        if opening is not None and opening.done() and opening.exception() is None:
            placer = opening.result()
            if placer.is_over:
                self._placer = None
                await placer.close()
        if self._placer is None or (self._placer.done() and self._placer.exception() is not None):
            self._placer = asyncio.create_task(self._open())
        # A start that is cancelled does not cancel what other starts wait for.
        return await asyncio.shield(self._placer)

    async def _open(self) -> Placer:
        await self._gate.open()
        if self._lister is None:
            self._lister = asyncio.create_task(self._list_nodes())
        return await asyncio.to_thread(self._make_placer)

    async def _spawn(self, plan: LaunchPlan, spec: Spec) -> RemoteChild:
        began = time.perf_counter()
        placer = await self._opened()
        counts = self._processes.setdefault(spec.id, Counter())
        order, tree = await self._make_order(plan, spec)
        nodes = await placer.nodes()
        node = choose_node(nodes, spec.pool, counts, self._suspects(), spec.id)
        nonce, connected = self._gate.expect()
        placement = Placement(
            id=next(self._numbers),
            node=node,
            gate=self._gate.address,
            nonce=nonce,
            certificate=self._gate.certificate,
            resources=dict(spec.pool.resources or ()),
        )
        counts[node.id] += 1
        names, streams = zip(*(self._gate.expect() for _ in range(3)), strict=True)
        order = order._replace(streams=names)
        expected = [connected, *streams]
        if order.folder is not None and tree is not None:
            name, wanted = self._gate.expect()
            order = order._replace(folder=order.folder._replace(nonce=name))
            expected.append(wanted)
            self._begin(self._send_folder(wanted, package_root(spec), tree))
        lines = Lines()
        try:
            await placer.place(placement)
            life = await self._connection(placer, connected, placement, spec.id)
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(_SPAWN_SECONDS if tree is None else _FOLDER_SECONDS):
                await loop.sock_sendall(life, encode_order(order))
                pid, messages = await self._started(life, lines, spec.id, node)
                sockets = [await future for future in streams]
        except BaseException as error:
            for future in expected:
                if not future.cancel() and not future.cancelled():
                    future.result().close()
            self._release(placer, placement, spec.id)
            if isinstance(error, ExthostError) or not isinstance(error, _NODE_ERRORS):
                raise
            self._lost_at[node.id] = time.monotonic()
            raise _lost(spec.id, node, str(error) or "it did not answer in time") from None
        for future in expected[4:]:
            future.cancel()  # the node had the folder already

        def forget() -> None:
            self._children.pop(child, None)
            self._release(placer, placement, spec.id)

        child = RemoteChild(
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
            on_lost=lambda: self._lost_at.update({node.id: time.monotonic()}),
            on_released=forget,
        )
        self._children[child] = node.id
        return child

    async def _make_order(self, plan: LaunchPlan, spec: Spec) -> tuple[Order, PackageTree | None]:
        """Return the order, still without nonces, and the files that are sent."""
        root, folder, tree = package_root(spec), None, None
        if spec.pool.files == "sent":
            folder, tree = await asyncio.to_thread(read_folder, root, spec.id)
        order = Order(
            spec.id,
            plan,
            ("", "", ""),
            self._settings.silence,
            folder=folder,
            pins=get_pins(spec),
            root=root,
            manifest=spec.manifest_file,
            state=_state_folder(plan, spec),
        )
        return order, tree

    async def _send_folder(
        self, wanted: "asyncio.Future[socket.socket]", root: str, tree: PackageTree
    ) -> None:
        try:
            connection = await wanted
            await asyncio.to_thread(send_folder, connection, root, tree)
        except asyncio.CancelledError:
            if not wanted.cancelled():
                raise
        except OSError as error:
            _log.warning("the folder %s could not be sent: %s", root, error)

    def _suspects(self) -> set[str]:
        now = time.monotonic()
        return {id for id, then in self._lost_at.items() if now - then < _SUSPECT_SECONDS}

    async def _list_nodes(self) -> None:
        """Report to children whose node is being emptied, for as long as the cluster is open."""
        while True:
            await asyncio.sleep(_LIST_SECONDS)
            if not self._children or self._placer is None or not self._placer.done():
                continue
            try:
                nodes = await self._placer.result().nodes()
            except ExthostError:
                continue  # the next start reports it
            draining = {node.id for node in nodes if node.is_draining}
            for child, id in list(self._children.items()):
                if id in draining:
                    child.leave()

    async def _connection(
        self,
        placer: Placer,
        connected: "asyncio.Future[socket.socket]",
        placement: Placement,
        extension: str,
    ) -> socket.socket:
        """Return the life connection of the node process."""
        seconds, node = self._settings.place, placement.node
        ended = asyncio.ensure_future(placer.ended(placement))
        try:
            await asyncio.wait(
                (connected, ended), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if connected.done():
                return connected.result()
            if ended.done():
                reason = ended.result()
                if "cannot be reached" in reason:
                    raise _unreachable(extension, node, reason)
                raise ConnectionError(reason or "its process ended without a word")
        finally:
            ended.cancel()
        self._lost_at[node.id] = time.monotonic()
        wanted = ", ".join(f"{name} {n:g}" for name, n in placement.resources.items())
        raise SpawnFailed(
            "X0422",
            f"node {node.name} has not connected to {placement.gate} "
            f"within {seconds:g} s; asked for: {wanted or 'no resources'}",
            extension=extension,
            help="check that the nodes have these resources free, and that they can reach "
            "cluster.listen",
        )

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
                    raise _failed(message["failed"], extension, node)
        raise _lost(extension, node, "it closed the connection")

    def _release(self, placer: Placer, placement: Placement, extension: str) -> None:
        self._processes[extension][placement.node.id] -= 1
        self._begin(placer.release(placement))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End every node process and stop listening."""
        if self._lister is not None:
            self._lister.cancel()
            await asyncio.wait([self._lister])
            self._lister = None
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        opening, self._placer = self._placer, None
        if opening is not None:
            await asyncio.wait([opening])
            if opening.exception() is None:
                await opening.result().close()
        await self._gate.close()


def _state_folder(plan: LaunchPlan, spec: Spec) -> StateFolder | None:
    """Return the state folder, if a variable names it."""
    path = os.path.abspath(state_folder(host_environ(), spec.id))  # noqa: PTH100
    try:
        return StateFolder(path, os.stat(path).st_uid) if path in plan.env.values() else None  # noqa: PTH116
    except OSError:
        return None


def _failed(failed: dict[str, Any], extension: str, node: Node) -> SpawnFailed | Refused:
    """Return the error that a node sent."""
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


def _unreachable(extension: str, node: Node, reason: str) -> SpawnFailed:
    return SpawnFailed(
        "X0426",
        f"on node {node.name}: {reason}",
        extension=extension,
        help="name an address in cluster.listen that the nodes can reach, and open its port",
    )


def _lost(extension: str, node: Node, reason: str) -> SpawnFailed:
    return SpawnFailed(
        "X0423",
        f"node {node.name} was lost while the process started: {reason}",
        extension=extension,
        help="check the node; the process is started elsewhere by its restart policy",
    )
