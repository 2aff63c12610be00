"""Starts processes of a host's extensions on other nodes.

A start chooses a node (`node_choice`), has the placer start a node process there or takes one that
was kept (`idle_nodes`), sends it an `Order` (what to run) and returns a `RemoteChild`. A task
checks regularly whether a node is being drained, that is, whether its processes are to move
elsewhere.
"""

import asyncio
import functools
import itertools
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from exthost.cluster.folders import read_folder, send_folder
from exthost.cluster.idle_nodes import IdleNodeProcesses
from exthost.cluster.messages import LineDecoder, Order, StateFolder, encode_order
from exthost.cluster.node_choice import choose_node
from exthost.cluster.node_listener import NodeListener
from exthost.cluster.placer import Node, Placement, Placer
from exthost.cluster.remote_child import RemoteChild
from exthost.config.cluster import ClusterSettings
from exthost.errors import Evidence, ExthostError, Refused, SpawnFailed
from exthost.launch.integrity import get_pins, package_root
from exthost.launch.package_tree import PackageTree
from exthost.model.launch_plan import LaunchPlan
from exthost.model.spec import Spec
from exthost.process.own_process import host_environ
from exthost.process.state_dirs import state_folder

_log = logging.getLogger("exthost.cluster")

# How long a node process may take to start the extension, once it has its order and the folder.
_SPAWN_SECONDS = 20.0

# How long the connections of a process may take to arrive once it has started. A node opens them
# before it starts the process.
_STREAM_SECONDS = 5.0

# How long a folder may take to be sent.
_FOLDER_SECONDS = 300.0

# For how long a node that was lost is avoided. Ray needs up to 18 s to detect that a node is dead.
_SUSPECT_SECONDS = 20.0

# How many nodes are tried for one start if nodes are lost during it.
_MAX_TRIES = 3

# How often the nodes are listed, to find those that are being drained.
_LIST_SECONDS = 1.0

# The exceptions that a lost node, or invalid data from a node, causes in the host.
_NODE_ERRORS = (TimeoutError, OSError, ValueError, TypeError, KeyError)


class Cluster:
    """The nodes of one host. Opened by the first start, closed with the host."""

    def __init__(self, settings: ClusterSettings, make_placer: Callable[[], Placer]) -> None:
        self._settings = settings
        self._make_placer = make_placer
        self._placer: asyncio.Task[Placer] | None = None
        self._listener = NodeListener(settings)
        self._numbers = itertools.count(1)
        self._processes: dict[str, Counter[str]] = {}  # by extension, then by node
        self._idle = IdleNodeProcesses()
        self._is_closed = False
        self._children: dict[RemoteChild, str] = {}  # with the ids of their nodes
        self._lost_at: dict[str, float] = {}  # when a node was lost, by its id
        self._tasks: set[asyncio.Task[None]] = set()
        self._drain_watch: asyncio.Task[None] | None = None

    def spawner(self, spec: Spec) -> Callable[[LaunchPlan, str], Awaitable[RemoteChild]]:
        """Return a function that starts a process of this extension on a node. If the node is lost
        during the start, the function tries another node."""

        async def spawn(plan: LaunchPlan, extension: str) -> RemoteChild:
            for attempt in itertools.count(1):
                try:
                    return await self._spawn(plan, spec)
                except _NodeLost as error:
                    if attempt == _MAX_TRIES:
                        raise
                    _log.warning("[%s] %s; another node is tried", extension, error.message)
            raise AssertionError

        return spawn

    async def _get_placer(self) -> Placer:
        """Return the placer. The first start creates it. If that failed, or if the placer has ended
        since, a new one is created."""
        opening = self._placer
        if opening is not None and opening.done() and opening.exception() is None:
            placer = opening.result()
            if placer.has_ended:
                self._placer = None
                await placer.close()
        if self._placer is None or (self._placer.done() and self._placer.exception() is not None):
            self._placer = asyncio.create_task(self._open_placer())
        # Shielded, because other starts wait for the same placer when this one is cancelled.
        return await asyncio.shield(self._placer)

    async def _open_placer(self) -> Placer:
        await self._listener.open()
        if self._drain_watch is None:
            self._drain_watch = asyncio.create_task(self._watch_draining())
        return await asyncio.to_thread(self._make_placer)

    async def _spawn(self, plan: LaunchPlan, spec: Spec) -> RemoteChild:
        began = time.perf_counter()
        placer = await self._get_placer()
        order, tree = await self._make_order(plan, spec)
        counts = self._processes.setdefault(spec.id, Counter())
        nodes = self._idle.with_kept_resources(await placer.nodes())
        node = choose_node(nodes, spec.pool, counts, self._suspects(), spec.id)
        counts[node.id] += 1
        try:
            placement, control = await self._get_node_process(placer, node, spec)
        except BaseException as error:
            counts[node.id] -= 1
            raise self._start_error(error, spec.id, node) from None
        stream_nonces, streams = zip(*(self._listener.expect() for _ in range(3)), strict=True)
        order = order._replace(streams=stream_nonces)
        expected = list(streams)
        if order.folder is not None and tree is not None:
            folder_nonce, folder_connection = self._listener.expect()
            order = order._replace(folder=order.folder._replace(nonce=folder_nonce))
            expected.append(folder_connection)
            self._run_in_background(self._send_folder(folder_connection, package_root(spec), tree))
        lines = LineDecoder()
        try:
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(_SPAWN_SECONDS if tree is None else _FOLDER_SECONDS):
                await loop.sock_sendall(control, encode_order(order))
                pid, messages = await self._read_started(control, lines, spec.id, node)
            sockets = await self._wait_for_streams(streams, spec.id, node)
        except BaseException as error:
            control.close()
            _give_up(expected)
            counts[node.id] -= 1
            self._release(placer, placement)
            raise self._start_error(error, spec.id, node) from None
        # The connection for the folder is not used if the node already has a copy.
        for future in expected[3:]:
            future.cancel()

        def on_released(control: socket.socket | None) -> None:
            counts[node.id] -= 1
            self._children.pop(child, None)
            if control is not None and not child.is_node_draining and not self._is_closed:
                release = functools.partial(self._release, placer, placement)
                self._idle.keep(spec.id, placement, control, release)
                return
            if control is not None:
                control.close()
            self._release(placer, placement)

        child = RemoteChild(
            node=node.name,
            pid=pid,
            argv=plan.argv,
            cwd=plan.cwd or "",
            control=control,
            streams=sockets,
            lines=lines,
            messages=messages,
            silence=self._settings.silence,
            spawn_seconds=time.perf_counter() - began,
            on_lost=lambda: self._lost_at.update({node.id: time.monotonic()}),
            on_released=on_released,
        )
        self._children[child] = node.id
        return child

    async def _get_node_process(
        self, placer: Placer, node: Node, spec: Spec
    ) -> tuple[Placement, socket.socket]:
        """Return a node process on this node, and its control connection: one that is kept for this
        extension, or a new one."""
        resources = dict(spec.pool.resources or ())
        if (kept := self._idle.take(spec.id, node, resources)) is not None:
            return kept
        if resources:
            self._idle.drop_on([node.id])
        nonce, connected = self._listener.expect()
        placement = Placement(
            id=next(self._numbers),
            node=node,
            host_address=self._listener.address,
            nonce=nonce,
            certificate=self._listener.certificate,
            resources=resources,
        )
        try:
            await placer.place(placement)
            return placement, await self._wait_connected(placer, connected, placement, spec.id)
        except BaseException:
            _give_up([connected])
            self._release(placer, placement)
            raise

    def _start_error(self, error: BaseException, extension: str, node: Node) -> BaseException:
        """Return the error to raise for a start that failed with `error`: if a lost node caused it,
        the error that says so."""
        if isinstance(error, ExthostError) or not isinstance(error, _NODE_ERRORS):
            return error
        self._lost_at[node.id] = time.monotonic()
        return _lost_node_error(extension, node, str(error) or "it did not answer in time")

    async def _make_order(self, plan: LaunchPlan, spec: Spec) -> tuple[Order, PackageTree | None]:
        """Return the order, still without nonces, and the files to send; None if no files are
        sent."""
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
        self, connecting: "asyncio.Future[socket.socket]", root: str, tree: PackageTree
    ) -> None:
        try:
            connection = await connecting
            await asyncio.to_thread(send_folder, connection, root, tree)
        except asyncio.CancelledError:
            if not connecting.cancelled():  # else the node does not need the folder
                raise
        except OSError as error:
            _log.warning("the folder %s could not be sent: %s", root, error)

    def _suspects(self) -> set[str]:
        """Return the ids of the nodes that were lost a short time ago."""
        now = time.monotonic()
        return {id for id, lost_at in self._lost_at.items() if now - lost_at < _SUSPECT_SECONDS}

    async def _watch_draining(self) -> None:
        """Notify the children whose node is being drained, until the cluster is closed."""
        while True:
            await asyncio.sleep(_LIST_SECONDS)
            if not self._children or self._placer is None or not self._placer.done():
                continue
            try:
                nodes = await self._placer.result().nodes()
            except ExthostError:
                continue  # the next start reports it
            draining = {node.id for node in nodes if node.is_draining}
            self._idle.drop_on(draining)
            for child, id in list(self._children.items()):
                if id in draining:
                    child.report_node_draining()

    async def _wait_connected(
        self,
        placer: Placer,
        connected: "asyncio.Future[socket.socket]",
        placement: Placement,
        extension: str,
    ) -> socket.socket:
        """Return the control connection of the node process."""
        seconds, node = self._settings.place, placement.node
        strangers = self._listener.strangers_closed
        ended = asyncio.ensure_future(placer.wait_ended(placement))
        try:
            await asyncio.wait(
                (connected, ended), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if connected.done():
                return connected.result()
            is_crowded = self._listener.strangers_closed > strangers
            if ended.done():
                reason = ended.result()
                is_unreachable = "cannot be reached" in reason  # a message of `node_process.main`
                if is_crowded and (is_unreachable or not reason):
                    raise self._crowded_error(extension, node)
                if is_unreachable:
                    raise _unreachable_error(extension, node, reason)
                raise ConnectionError(reason or "its process ended without a message")
        finally:
            ended.cancel()
        if is_crowded:
            raise self._crowded_error(extension, node)
        self._lost_at[node.id] = time.monotonic()
        wanted = ", ".join(f"{name} {n:g}" for name, n in placement.resources.items())
        raise SpawnFailed(
            "X0422",
            f"node {node.name} has not connected to {placement.host_address} "
            f"within {seconds:g} s; asked for: {wanted or 'no resources'}",
            extension=extension,
            help="check that the nodes have these resources free, and that they can reach "
            "cluster.listen",
        )

    async def _read_started(
        self, control: socket.socket, lines: LineDecoder, extension: str, node: Node
    ) -> tuple[int, list[dict[str, Any]]]:
        """Return the pid on the node and the messages that follow. Raises the error that the node
        reports."""
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(control, 65536):
            messages = lines.feed(data)
            while messages:
                message = messages.pop(0)
                if "started" in message:
                    return _read_pid(message["started"]), messages
                if "failed" in message:
                    raise _decode_error(message["failed"], extension, node)
        raise _lost_node_error(extension, node, "it closed the connection")

    async def _wait_for_streams(
        self, streams: Iterable["asyncio.Future[socket.socket]"], extension: str, node: Node
    ) -> list[socket.socket]:
        """Return the connections for stdin, stdout and stderr of a process that has started."""
        strangers = self._listener.strangers_closed
        try:
            async with asyncio.timeout(_STREAM_SECONDS):
                return [await future for future in streams]
        except TimeoutError:
            if self._listener.strangers_closed > strangers:
                raise self._crowded_error(extension, node) from None
            raise _silent_node_error(extension, node) from None

    def _crowded_error(self, extension: str, node: Node) -> SpawnFailed:
        return SpawnFailed(
            "X0431",
            f"node {node.name} could not connect: too many connections without a nonce came to "
            f"{self._listener.address}, {self._listener.strangers_closed} were closed so far",
            extension=extension,
            help="find out what connects to cluster.listen, and let only the nodes reach it",
        )

    def _release(self, placer: Placer, placement: Placement) -> None:
        self._run_in_background(placer.release(placement))

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End every node process and stop listening."""
        self._is_closed = True
        self._idle.close()
        if self._drain_watch is not None:
            self._drain_watch.cancel()
            await asyncio.wait([self._drain_watch])
            self._drain_watch = None
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        opening, self._placer = self._placer, None
        if opening is not None:
            await asyncio.wait([opening])
            if opening.exception() is None:
                await opening.result().close()
        await self._listener.close()


def _give_up(expected: Iterable["asyncio.Future[socket.socket]"]) -> None:
    """Stop expecting these connections, and close those that have come."""
    for future in expected:
        if not future.cancel() and not future.cancelled():
            future.result().close()


def _state_folder(plan: LaunchPlan, spec: Spec) -> StateFolder | None:
    """Return the state folder (where the extension may keep files) if a variable of the plan names
    it, so that the extension can use it."""
    path = os.path.abspath(state_folder(host_environ(), spec.id))  # noqa: PTH100
    try:
        return StateFolder(path, os.stat(path).st_uid) if path in plan.env.values() else None  # noqa: PTH116
    except OSError:
        return None


def _decode_error(failed: dict[str, Any], extension: str, node: Node) -> SpawnFailed | Refused:
    """Return the error that a node sent, made by `preparation.encode_error`."""
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


def _unreachable_error(extension: str, node: Node, reason: str) -> SpawnFailed:
    return SpawnFailed(
        "X0426",
        f"on node {node.name}: {reason}",
        extension=extension,
        help="name an address in cluster.listen that the nodes can reach, and open its port",
    )


def _read_pid(value: Any) -> int:
    """Return the pid that a node reports. Raises ValueError if it is not one."""
    if type(value) is not int or value <= 0:
        raise ValueError(f"it reported the pid {value!r:.40}")
    return value


def _silent_node_error(extension: str, node: Node) -> SpawnFailed:
    return SpawnFailed(
        "X0432",
        f"node {node.name} reported a process, and opened no connections to it "
        f"within {_STREAM_SECONDS:g} s",
        extension=extension,
        help="check what runs on the node: it does not behave as a node process of exthost",
    )


class _NodeLost(SpawnFailed):
    """The node was lost while a process started on it."""


def _lost_node_error(extension: str, node: Node, reason: str) -> SpawnFailed:
    return _NodeLost(
        "X0423",
        f"node {node.name} was lost while the process started: {reason}",
        extension=extension,
        help="check the node; the process is started elsewhere by its restart policy",
    )
