"""The agents of one host, and the connections to them.

An agent is the program of exthost that runs the host's processes on a node (another machine). There
is one agent on each node that has processes of the host. Processes that run in a container image
have a separate agent, in a container of that image.

An agent is started with the first process on its node. It is kept for a while after the last one,
so that a restart does not wait until another Python has started.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import TypeAlias

from exthost.cluster import placement_errors
from exthost.cluster.agent_connection import AgentConnection, NodeLost
from exthost.cluster.link import NodeConnection
from exthost.cluster.messages import is_compatible
from exthost.cluster.node_listener import NodeListener
from exthost.cluster.placer import AgentStart, Node, Placer
from exthost.config.cluster import ClusterSettings
from exthost.errors import ExthostError

_log = logging.getLogger("exthost.cluster")

# What identifies an agent: the id of its node, and the container image in which it runs ("" for
# none).
_Key: TypeAlias = tuple[str, str]

# How long an agent may take for its first message, once it has connected.
_HELLO_SECONDS = 10.0

# How long an agent without processes is kept.
_IDLE_SECONDS = 30.0


class Agents:
    """The agents of one host. `on_lost` is called with the id of a node whose agent was lost."""

    def __init__(
        self, settings: ClusterSettings, listener: NodeListener, on_lost: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._on_lost = on_lost
        self._opening: dict[_Key, asyncio.Task[AgentConnection]] = {}
        self._connections: dict[_Key, AgentConnection] = {}
        self._placers: dict[_Key, Placer] = {}
        self._idle_since: dict[_Key, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

    @property
    def connections(self) -> list[AgentConnection]:
        """The connections that are open."""
        return list(self._connections.values())

    async def connect(
        self, placer: Placer, node: Node, image: str, extension: str
    ) -> AgentConnection:
        """Return the connection to the agent of a node that runs in this image. If there is none,
        start the agent. Raises SpawnFailed."""
        key = node.id, image
        connection = self._connections.get(key)
        if connection is not None:
            return connection
        opening = self._opening.get(key)
        if opening is None:
            opening = asyncio.create_task(self._open(placer, node, image, extension))
            self._opening[key] = opening
            opening.add_done_callback(functools.partial(self._on_opened, key))
        # Shielded, because other starts wait for the same agent when this one is cancelled.
        return await asyncio.shield(opening)

    def _on_opened(self, key: _Key, opening: "asyncio.Task[AgentConnection]") -> None:
        self._opening.pop(key, None)
        if not opening.cancelled():
            # Counts as read: asyncio would log it if all starts that waited for it are cancelled.
            opening.exception()

    async def _open(
        self, placer: Placer, node: Node, image: str, extension: str
    ) -> AgentConnection:
        """Start an agent, and wait until it is connected and has sent its version. Raises
        SpawnFailed."""
        nonce, connected = self._listener.expect()
        try:
            certificates = ""
            if self._settings.is_encrypted:
                certificates = self._settings.certificates or "default"
            start = AgentStart(
                address=self._listener.address, nonce=nonce, certificates=certificates, image=image
            )
            await placer.start_agent(node, start)
            await self._wait_connected(placer, node, image, connected, extension)
        except BaseException:
            # `cancel` returns false if the agent has connected in the meantime.
            if not connected.cancel() and not connected.cancelled():
                connected.result().close()
            self._stop_in_background(placer, node, image)
            raise
        self._placers[node.id, image] = placer
        connection = AgentConnection(
            connected.result(),
            node.name,
            self._settings.silence,
            lambda reason: self._on_connection_lost(node, image, reason),
        )
        self._connections[node.id, image] = connection
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                await connection.greeted()
            assert connection.hello is not None
            if not is_compatible(connection.hello):
                version = str(connection.hello["hello"]["version"])[:40]
                connection.close()
                raise placement_errors.other_version(extension, node, version)
        except (TimeoutError, NodeLost, KeyError, TypeError, ValueError) as error:
            connection.close()
            reason = str(error) or "it sent nothing"
            raise placement_errors.node_lost(extension, node, reason) from None
        return connection

    async def _wait_connected(
        self,
        placer: Placer,
        node: Node,
        image: str,
        connected: "asyncio.Future[NodeConnection]",
        extension: str,
    ) -> None:
        """Wait until an agent has connected. If it does not, raise the error that names the most
        likely cause."""
        seconds, strangers = self._settings.place, self._listener.strangers_closed
        refusals = self._listener.refusals
        ended = asyncio.ensure_future(placer.wait_agent_ended(node, image))
        try:
            await asyncio.wait(
                (connected, ended), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if connected.done():
                return
            if self._listener.accept_error is not None:
                raise self._listener.accept_error
            address, closed = self._listener.address, self._listener.strangers_closed
            reason = ended.result() if ended.done() else ""
            is_unreachable = "cannot be reached" in reason  # part of a message of `agent.main`
            if closed > strangers and (is_unreachable or not reason):
                raise placement_errors.too_many_strangers(extension, node, address, closed)
            if is_unreachable:
                if self._listener.refusals > refusals:
                    reason += f"; the host refused it: {self._listener.last_refusal}"
                raise placement_errors.agent_unreachable(extension, node, reason)
            if ended.done():
                reason = reason or "its agent ended without a message"
                raise placement_errors.node_lost(extension, node, reason)
            raise placement_errors.agent_not_connected(extension, node, address, seconds)
        finally:
            ended.cancel()

    def _on_connection_lost(self, node: Node, image: str, reason: str) -> None:
        """Forget the agent of a connection that has ended. Report its node as lost, unless this
        host has closed the connection."""
        self._connections.pop((node.id, image), None)
        self._idle_since.pop((node.id, image), None)
        self._stop_in_background(self._placers.pop((node.id, image)), node, image)
        if not self._is_closing:
            self._on_lost(node.id)

    def _stop_in_background(self, placer: Placer, node: Node, image: str) -> None:
        task = asyncio.ensure_future(_stop(placer, node, image))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close_idle(self, now: float) -> None:
        """Close the connections to agents that have had no process for a while."""
        for key, connection in list(self._connections.items()):
            if connection.process_count:
                self._idle_since.pop(key, None)
            elif now - self._idle_since.setdefault(key, now) > _IDLE_SECONDS:
                # While `_is_closing` is true, the end of a connection does not mark its node as
                # lost.
                was_closing = self._is_closing
                self._is_closing = True
                connection.close()
                self._is_closing = was_closing

    def report_draining(self, ids: set[str]) -> None:
        """Notify the processes on these nodes that their node is being drained."""
        for (id, _), connection in list(self._connections.items()):
            if id in ids and not connection.is_draining:
                connection.report_draining()

    async def close(self) -> None:
        """Close all connections, so that the agents end."""
        self._is_closing = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        for connection in list(self._connections.values()):
            connection.close()
        if self._tasks:
            await asyncio.wait(set(self._tasks))


async def _stop(placer: Placer, node: Node, image: str) -> None:
    try:
        await placer.stop_agent(node, image)
    except ExthostError as error:
        _log.debug("the agent of node %s: %s", node.name, error.message)
