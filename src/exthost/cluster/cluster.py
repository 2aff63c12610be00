"""Starts processes of a host's extensions on other nodes.

A start has four steps. `node_choice` chooses the best node. The placer, which is the interface to
the cluster, reserves the resources of the process there. `agents` connects to the agent of that
node, the program of exthost that runs processes there. The agent gets an `Order` (what to run), and
the start returns a `RemoteChild`.

A task lists the nodes regularly. It finds nodes that are being drained, whose processes have to
move to other nodes, and nodes that have joined or returned, to which some processes then move.
"""

import asyncio
import functools
import itertools
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from exthost.cluster import placement_errors
from exthost.cluster.agent_connection import AgentConnection, NodeLost, StartRefused
from exthost.cluster.agents import Agents
from exthost.cluster.folders import read_folder
from exthost.cluster.messages import Order, StateFolder
from exthost.cluster.node_choice import choose_node, find_move, full_nodes
from exthost.cluster.node_listener import NodeListener
from exthost.cluster.placement_errors import NodeLostInStart, NodesFull
from exthost.cluster.placer import HeldPlace, Node, Placer, PlaceRequest
from exthost.cluster.remote_child import RemoteChild
from exthost.config.cluster import ClusterSettings
from exthost.errors import ExthostError, PlacementFailed
from exthost.launch.integrity import get_pins, package_root
from exthost.launch.package_tree import PackageTree
from exthost.model.launch_plan import LaunchPlan
from exthost.model.spec import Pool, Spec
from exthost.process.own_process import host_environ
from exthost.process.state_dirs import state_folder

_log = logging.getLogger("exthost.cluster")

# How long an agent may take to start a process: without a folder to be sent, and with one.
_SPAWN_SECONDS = 20.0
_FOLDER_SECONDS = 300.0

# For how long a node that was lost is avoided. Ray needs up to 18 s to detect that a node is dead.
_SUSPECT_SECONDS = 20.0

# How many nodes are tried for one start if nodes are lost during it.
_MAX_TRIES = 3

# How often the nodes are listed, to find those that are being drained.
_LIST_SECONDS = 1.0

# The time between two moves of processes of one extension to a node with fewer of them. A move is
# cheap, but a node that has just returned may be lost again.
_MOVE_SECONDS = 10.0

# Variables that describe a machine or its user. If the host only passes them on, a process on a
# node gets the node's values.
_MACHINE_VARIABLES = frozenset(
    ("HOME", "PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "HOSTNAME")
)
_LOCALE_PREFIX = "LC_"


class _Members:
    """The processes of one extension.

    children        the id of the node of each process
    next_move       no process moves to another node before this time
    counts_at_move  the number of processes by node when the last one began to move; None after the
                    numbers have changed. While they are the same, no other process moves: the
                    cluster may have started the replacement on the same node again.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.children: dict[RemoteChild, str] = {}
        self.next_move = 0.0
        self.counts_at_move: Counter[str] | None = None


class Cluster:
    """Starts the processes of one host on the nodes of one cluster. The first start connects to
    the cluster; the host closes it."""

    def __init__(self, settings: ClusterSettings, make_placer: Callable[[], Placer]) -> None:
        self._settings = settings
        self._make_placer = make_placer
        self._placer: asyncio.Task[Placer] | None = None
        self._listener = NodeListener(settings)
        self.agents = Agents(settings, self._listener, self._on_node_lost)
        self._numbers = itertools.count(1)
        self._processes: dict[str, Counter[str]] = {}  # by extension, then by node
        self._totals: Counter[str] = Counter()  # by node
        self._members: dict[str, _Members] = {}  # by extension
        # The starts that wait for room, by extension, in the order in which they came.
        self._waits: dict[str, dict[asyncio.Future[None], None]] = {}
        self._node_ids: set[str] = set()  # those that can get processes, by the last list
        self._lost_at: dict[str, float] = {}  # when a node was lost, by its id
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None

    def spawner(self, spec: Spec) -> Callable[[LaunchPlan, str], Awaitable[RemoteChild]]:
        """Return a function that starts a process of this extension on a node. If the node is lost
        during the start, the function tries another node."""

        async def spawn(plan: LaunchPlan, extension: str) -> RemoteChild:
            for attempt in itertools.count(1):
                try:
                    return await self._spawn(plan, spec)
                except NodeLostInStart as error:
                    if attempt == _MAX_TRIES:
                        raise
                    _log.warning("[%s] %s; another node is tried", extension, error.message)
                except ExthostError:
                    raise
                except OSError as error:
                    raise placement_errors.host_exhausted(extension, error) from None
            raise AssertionError

        return spawn

    async def nodes(self) -> list[Node]:
        """Return the nodes that are alive. Raises SpawnFailed if the cluster cannot be reached."""
        return await (await self._get_placer()).nodes()

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
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_nodes())
        return await asyncio.to_thread(self._make_placer)

    # -- starting ----------------------------------------------------------------------------

    async def _spawn(self, plan: LaunchPlan, spec: Spec) -> RemoteChild:
        """Start a process on the best node, without a second attempt."""
        began = time.perf_counter()
        placer = await self._get_placer()
        order, tree = await self._make_order(plan, spec)
        await self._listener.open()
        place = await self._hold(placer, spec)
        release = functools.partial(self._release, placer, place, spec.id)
        try:
            connection = await self.agents.connect(
                placer, place.node, spec.pool.image or "", spec.id
            )
            folder = None if tree is None else (package_root(spec), tree)
            order = order._replace(variables={**order.variables, **place.variables})
            async with asyncio.timeout(_SPAWN_SECONDS if tree is None else _FOLDER_SECONDS):
                child = await connection.start(plan, order, folder)
        except BaseException as error:
            release()
            raised = self._start_error(error, spec.id, place.node)
            if isinstance(raised, NodeLostInStart):
                self._on_node_lost(place.node.id)
            raise raised from None
        members = self._members.setdefault(spec.id, _Members(spec.pool))
        members.pool = spec.pool
        members.children[child] = place.node.id
        child.on_released = functools.partial(_on_released, connection, members, child, release)
        child.spawn_seconds = time.perf_counter() - began
        return child

    async def _hold(self, placer: Placer, spec: Spec) -> HeldPlace:
        """Return a place for a process of this extension. If nodes have as many of its processes as
        `per_node` allows, wait also for the end of one of them. Raises SpawnFailed."""
        self._processes.setdefault(spec.id, Counter())
        waits = self._waits.setdefault(spec.id, {})
        give_up_at = time.monotonic() + self._settings.place
        while True:
            has_room = asyncio.get_running_loop().create_future()
            waits[has_room] = None
            is_again = False
            try:
                place = await self._hold_unless(has_room, placer, spec, give_up_at)
                if place is not None:
                    return place
                is_again = True
            finally:
                waits.pop(has_room, None)
                if has_room.done() and not is_again:
                    self._wake_next(spec.id)  # the room was for another start

    async def _hold_unless(
        self, has_room: "asyncio.Future[None]", placer: Placer, spec: Spec, give_up_at: float
    ) -> HeldPlace | None:
        """Return a place, or None if a node may have got room meanwhile. Raises SpawnFailed."""
        nodes = await placer.nodes()
        seconds = max(0.0, give_up_at - time.monotonic())
        if not full_nodes(nodes, spec.pool, self._processes[spec.id]):
            return await self._hold_on_one_of(placer, spec, nodes, seconds)
        holding = asyncio.ensure_future(self._hold_on_one_of(placer, spec, nodes, seconds))
        place: HeldPlace | None = None
        try:
            await asyncio.wait((holding, has_room), return_when=asyncio.FIRST_COMPLETED)
            if holding.done():
                place = holding.result()
        except NodesFull:
            await asyncio.wait((has_room,), timeout=give_up_at - time.monotonic())
            if not has_room.done():
                raise
        finally:
            if place is None:  # also if the start is cancelled when the place has just been got
                await self._give_up(holding, placer, spec.id)
        return place

    async def _hold_on_one_of(
        self, placer: Placer, spec: Spec, nodes: list[Node], seconds: float
    ) -> HeldPlace:
        """Return a place on one of these nodes, or on one that joins. Raises SpawnFailed."""
        counts = self._processes[spec.id]
        too_small: PlacementFailed | None = None
        node: Node | None = None
        try:
            node = choose_node(nodes, spec.pool, counts, self._totals, self._suspects(), spec.id)
        except PlacementFailed as error:
            if not (placer.can_grow and spec.pool.resources):
                raise
            too_small = error  # an autoscaler may add a node that is large enough
        request = PlaceRequest(
            id=next(self._numbers),
            preferred=node,
            excluded=full_nodes(nodes, spec.pool, counts),
            resources=dict(spec.pool.resources or ()),
            labels=dict(spec.pool.labels or ()),
            seconds=seconds,
        )
        # Counted from now on, so that starts at the same time choose other nodes.
        if node is not None:
            self._count(spec.id, node.id, 1)
        try:
            place = await placer.hold(request)
        except TimeoutError:
            raise too_small or placement_errors.no_resources_in_time(
                spec.id, spec.pool, self._settings.place
            ) from None
        finally:
            if node is not None:
                self._count(spec.id, node.id, -1)
        self._count(spec.id, place.node.id, 1)
        return place

    async def _give_up(
        self, holding: "asyncio.Task[HeldPlace]", placer: Placer, extension: str
    ) -> None:
        """Cancel a request for a place. If it has just got one, release it."""

        def release_place(holding: "asyncio.Task[HeldPlace]") -> None:
            if not holding.cancelled() and holding.exception() is None:
                self._release(placer, holding.result(), extension)

        # A callback, because this task may be cancelled while it waits.
        holding.add_done_callback(release_place)
        holding.cancel()
        await asyncio.wait((holding,))

    def _wake_next(self, extension: str) -> None:
        """Have the start that has waited longest try again, because a process has ended."""
        waits = self._waits.get(extension)
        if waits:
            has_room = next(iter(waits))
            del waits[has_room]
            has_room.set_result(None)

    def _count(self, extension: str, node_id: str, change: int) -> None:
        self._processes[extension][node_id] += change
        self._totals[node_id] += change

    def _release(self, placer: Placer, place: HeldPlace, extension: str) -> None:
        self._count(extension, place.node.id, -1)
        self._run_in_background(placer.release(place))
        self._wake_next(extension)

    def _start_error(self, error: BaseException, extension: str, node: Node) -> BaseException:
        """Return the error to raise for a start that failed with `error`."""
        match error:
            case StartRefused():
                return placement_errors.start_refused(error.args[0], extension, node)
            case NodeLost():
                return placement_errors.node_lost(extension, node, str(error))
            case TimeoutError():
                reason = "its agent did not answer in time"
                return placement_errors.node_lost(extension, node, reason)
        return error

    async def _make_order(self, plan: LaunchPlan, spec: Spec) -> tuple[Order, PackageTree | None]:
        """Return the order, and the files to send; None if no files are sent."""
        root, folder, tree = package_root(spec), None, None
        pins = get_pins(spec)
        if spec.pool.files == "sent":
            # A pin of all files counts the caches, too.
            read = functools.partial(read_folder, with_caches=bool(pins.package))
            folder, tree = await asyncio.to_thread(read, root, spec.id)
        order = Order(
            spec.id,
            plan,
            variables=self._settings.runtime_env.get("env_vars", {}),
            working_root=self._working_root(spec),
            inherited=_inherited_names(plan.env, spec, host_environ()),
            folder=folder,
            pins=pins,
            root=root,
            manifest=spec.manifest_file,
            state=_state_folder(plan, spec),
        )
        return order, tree

    def _working_root(self, spec: Spec) -> str:
        """Return the folder on this machine that Ray's working folder stands for; "" if the paths
        of the extension are the same on the nodes. Raises SpawnFailed if Ray has no such folder."""
        if spec.pool.files != "runtime-env":
            return ""
        if not self._settings.working_root:
            raise placement_errors.no_working_dir(spec.id)
        return self._settings.working_root

    # -- watching ----------------------------------------------------------------------------

    def _on_node_lost(self, id: str) -> None:
        self._lost_at[id] = time.monotonic()

    def _suspects(self) -> set[str]:
        """Return the ids of the nodes that were lost a short time ago."""
        now = time.monotonic()
        return {id for id, lost_at in self._lost_at.items() if now - lost_at < _SUSPECT_SECONDS}

    async def _watch_nodes(self) -> None:
        """List the nodes regularly until the cluster is closed. Move processes away from nodes that
        are being drained or that have too many of them, and close idle connections."""
        while True:
            await asyncio.sleep(_LIST_SECONDS)
            self.agents.close_idle(time.monotonic())
            if not self.agents.connections or self._placer is None or not self._placer.done():
                continue
            try:
                nodes = await self._placer.result().nodes()
            except Exception:  # any, because processes would never move again without this task
                continue  # the next start reports it
            self.agents.report_draining({node.id for node in nodes if node.is_draining})
            ids = {node.id for node in nodes if not node.is_draining}
            if not ids <= self._node_ids:  # a node has joined
                for id, waits in self._waits.items():
                    for _ in list(waits):
                        self._wake_next(id)
            self._node_ids = ids
            self._move_processes(nodes)

    def _move_processes(self, nodes: list[Node]) -> None:
        """Replace one process of each extension by a process on a node with fewer of them, if there
        is such a node. The old process continues until its replacement is ready and its calls are
        answered."""
        now, suspects = time.monotonic(), self._suspects()
        for extension, members in self._members.items():
            counts = self._processes[extension]
            if members.counts_at_move != counts:
                members.counts_at_move = None
            is_changing = counts.total() != len(members.children)  # one is starting
            if is_changing or now < members.next_move or members.counts_at_move is not None:
                continue
            move = find_move(nodes, members.pool, counts, self._totals, suspects, extension)
            if move is None:
                continue
            crowded_id, node = move
            child = next(
                child for child, node_id in members.children.items() if node_id == crowded_id
            )
            members.next_move = now + _MOVE_SECONDS
            members.counts_at_move = Counter(counts)
            if not child.is_node_draining:
                _log.info("[%s] a process moves from %s to %s", extension, child.node, node.name)
                # The supervisor replaces a process whose node is being drained, so it replaces
                # this one as well.
                child.report_node_draining()

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End every agent and stop listening."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
            self._watch = None
        await self.agents.close()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        opening, self._placer = self._placer, None
        if opening is not None:
            await asyncio.wait([opening])
            if opening.exception() is None:
                await opening.result().close()
        await self._listener.close()


def _on_released(
    connection: AgentConnection,
    members: _Members,
    child: RemoteChild,
    release: Callable[[], None],
) -> None:
    """Forget a process that has ended, and give back its resources."""
    del members.children[child]
    connection.release(child)
    release()


def _inherited_names(
    env: Mapping[str, str], spec: Spec, host: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the names of the variables that describe the host's machine, and that the host only
    passes on."""
    return tuple(
        name
        for name, value in env.items()
        if (name in _MACHINE_VARIABLES or name.startswith(_LOCALE_PREFIX))
        and name not in spec.env
        and host.get(name) == value
    )


def _state_folder(plan: LaunchPlan, spec: Spec) -> StateFolder | None:
    """Return the state folder (where the extension may keep files) if a variable of the plan names
    it, so that the extension can use it."""
    path = os.path.abspath(state_folder(host_environ(), spec.id))  # noqa: PTH100
    try:
        return StateFolder(path, os.stat(path).st_uid) if path in plan.env.values() else None  # noqa: PTH116
    except OSError:
        return None
