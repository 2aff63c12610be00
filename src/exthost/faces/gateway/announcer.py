"""Notifies the clients of the gateway of changed lists, updated resources and log messages.

The gateway publishes all extensions of a host as one MCP server. When an extension starts, stops or
changes, the lists of that server (tools, resources, prompts) may change as well. Extensions start
and stop in bursts, so the changes within a short time are announced together, and the list of tools
is announced only if it differs from the last one.

A log message of an MCP server goes to the clients that have calls in progress at that server. If
there are no such calls, it goes to every connected client of the handshake era (clients with a
session). A client gets no message that is less severe than the level that it has set. Each log
message costs more than a call, so a server that sends many is limited (`_LogLimit`); the log file
of the host has them all.

On HTTP, a client with a session gets log messages on the stream of its session, not in the response
to a call. That response would have to become a stream of events, with the result as one event, and
some clients refuse a large event.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from pydantic import ValidationError

from exthost.errors import ExthostError
from exthost.events import Noticed, StateChanged, ToolsChanged
from exthost.faces.gateway.catalog import Catalog, Kind, is_stateless_server, server_capabilities
from exthost.faces.gateway.clients import Client, Clients, is_at_least
from exthost.faces.gateway.exchanges import Exchange, Exchanges
from exthost.faces.gateway.meta import is_stateless, log_level
from exthost.faces.gateway.resource_subscriptions import ResourceSubscriptions
from exthost.faces.gateway.tool_list import ToolList
from exthost.host.host import Host
from exthost.model.offer import RegisteredTool

_log = logging.getLogger("exthost.faces.gateway")

# Changes of lists within this time are announced together.
SETTLE_SECONDS = 0.05

# How many log messages of one extension clients get in a second.
MAX_LOGS_PER_SECOND = 100

# The lists in the catalog, by the capability of the server that has them.
_KINDS_BY_CAPABILITY: Mapping[str, tuple[Kind, ...]] = {
    "resources": ("resources", "templates"),
    "prompts": ("prompts",),
}
# By list: the notification of the handshake era, and the event of the stateless era.
_NOTIFICATION_TYPES: Mapping[str, tuple[type[Any], type[Any]]] = {
    "resources": (types.ResourceListChangedNotification, ResourcesListChanged),
    "prompts": (types.PromptListChangedNotification, PromptsListChanged),
    "tools": (types.ToolListChangedNotification, ToolsListChanged),
}


class _LogLimit:
    """Limits the log messages of one extension that clients get. `report` is called with the number
    of messages that were left out, at most once a second."""

    __slots__ = ("_left_out", "_passed", "_report", "_second_began_at")

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report
        self._second_began_at = -math.inf
        self._passed = self._left_out = 0

    def allows_next(self) -> bool:
        """Return whether clients get the next message."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._second_began_at >= 1:
            self._second_began_at, self._passed = loop.time(), 0
        if self._passed < MAX_LOGS_PER_SECOND:
            self._passed += 1
            return True
        if self._left_out == 0:
            loop.call_later(1, self._report_left_out)
        self._left_out += 1
        return False

    def _report_left_out(self) -> None:
        left_out, self._left_out = self._left_out, 0
        self._report(left_out)


class Announcer:
    """Subscribes to the events of one host, and notifies all clients of its gateway.

    `clients` has the clients with a session, and `bus` notifies the others. `exchanges` are the
    requests of clients that extensions are answering.
    """

    def __init__(
        self,
        host: Host,
        tools: ToolList,
        catalog: Catalog,
        clients: Clients,
        exchanges: Exchanges,
        subscriptions: ResourceSubscriptions,
        bus: InMemorySubscriptionBus,
    ) -> None:
        self._host = host
        self._tools = tools
        self._catalog = catalog
        self._clients = clients
        self._exchanges = exchanges
        self._subscriptions = subscriptions
        self._bus = bus
        self._announced_tools: Mapping[str, RegisteredTool] = {}
        self._log_limits: dict[str, _LogLimit] = {}
        self._changed_lists: set[str] = set()
        self._change = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsubscribes = (
            host.events.subscribe(ToolsChanged, self._on_tools_changed),
            host.events.subscribe(StateChanged, self._on_state_changed),
            host.events.subscribe(Noticed, self._on_notification),
        )

    # -- life --------------------------------------------------------------------------------

    def open(self) -> None:
        self._spawn(self._announce_changes())

    async def close(self) -> None:
        for unsubscribe in self._unsubscribes:
            unsubscribe()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- lists -------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether every change so far has been announced."""
        return not self._change.is_set()

    def mark_changed(self, kind: str) -> None:
        """Announce soon that the list of this kind has changed. A change of resource templates is
        announced as a change of resources, because MCP has no notification for templates."""
        self._changed_lists.add("prompts" if kind == "prompts" else "resources")
        self._change.set()

    def _on_tools_changed(self, _: ToolsChanged) -> None:
        self._change.set()

    def _on_state_changed(self, event: StateChanged) -> None:
        if event.after != "ready" and event.before != "ready":
            return
        extension = self._catalog.find_server(event.extension)
        # The capabilities of an extension that is no longer ready are unknown, so each of its lists
        # may have changed.
        capabilities = (
            server_capabilities(extension) if extension is not None else _KINDS_BY_CAPABILITY
        )
        for capability, kinds in _KINDS_BY_CAPABILITY.items():
            self._catalog.invalidate(event.extension, kinds)
            if capability in capabilities:
                self.mark_changed(capability)
        if extension is not None:
            self._spawn(self._subscriptions.resubscribe(event.extension))
            self._spawn(self.set_level(event.extension))

    async def _announce_changes(self) -> None:
        """Announce the changes of lists, together if they follow each other soon, until
        cancelled."""
        await self._start_until_first_list()
        self._announced_tools = dict(self._host.tools)
        self._changed_lists.clear()
        while True:
            await self._change.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._change.clear()
            # A change may have added an extension whose tools are unknown until it is started.
            self._tools.start_unlisted()
            lists, self._changed_lists = self._changed_lists, set()
            tools = dict(self._host.tools)
            if _are_different(tools, self._announced_tools):
                self._announced_tools = tools
                lists.add("tools")
            for name in sorted(lists):
                notification, event = _NOTIFICATION_TYPES[name]
                self._clients.notify(notification())
                await self._bus.publish(event())

    async def _start_until_first_list(self) -> None:
        """Until the first list of tools can be answered, start each extension whose tools are
        unknown as soon as the host has loaded it. The host itself may still be starting another
        extension."""
        loop = asyncio.get_running_loop()
        first_list = loop.create_task(self._tools.wait_for_first_list())
        try:
            while not first_list.done():
                change = loop.create_task(self._change.wait())
                await asyncio.wait([first_list, change], return_when="FIRST_COMPLETED")
                change.cancel()
                self._change.clear()
                self._tools.start_unlisted()
        finally:
            first_list.cancel()

    # -- notifications of servers ------------------------------------------------------------

    def _on_notification(self, notice: Noticed) -> None:
        method, params = notice.method, notice.params
        if method == "notifications/message":
            self._forward_log(notice)
        elif method == "notifications/resources/list_changed":
            self._catalog.invalidate(notice.extension, _KINDS_BY_CAPABILITY["resources"])
            self.mark_changed("resources")
        elif method == "notifications/prompts/list_changed":
            self._catalog.invalidate(notice.extension, _KINDS_BY_CAPABILITY["prompts"])
            self.mark_changed("prompts")
        elif method == "notifications/resources/updated" and isinstance(params, Mapping):
            uri = params.get("uri")
            if isinstance(uri, str):
                self._announce_update(uri)
        elif method == "notifications/elicitation/complete":
            self._forward_to_all(types.ElicitCompleteNotification, method, params)

    def _announce_update(self, uri: str) -> None:
        updated = types.ResourceUpdatedNotification(
            params=types.ResourceUpdatedNotificationParams(uri=uri)
        )
        for subscriber in self._subscriptions.subscribers_of(uri):
            if isinstance(subscriber, Client):
                subscriber.notify(updated)
        self._spawn(self._bus.publish(ResourceUpdated(uri=uri)))

    def _forward_to_all(self, notification_type: Any, method: str, params: Any) -> None:
        try:
            self._clients.notify(
                notification_type.model_validate({"method": method, "params": params})
            )
        except ValidationError:
            _log.debug("%s is not valid and is not passed on", method)

    def _forward_log(self, notice: Noticed) -> None:
        extension = notice.extension
        limit = self._log_limits.get(extension)
        if limit is None:
            limit = _LogLimit(partial(self._report_left_out, extension))
            self._log_limits[extension] = limit
        if not limit.allows_next():
            return
        message = _read_log_message(notice)
        if message is not None:
            self._send_log(extension, message)

    def forward_to_client(self, client: Client, notice: Noticed) -> None:
        """Pass a log message of a process that belongs to one client on to that client alone."""
        if notice.method != "notifications/message":
            return
        message = _read_log_message(notice)
        if message is not None and is_at_least(message.params.level, client.level):
            client.notify(message)

    def _report_left_out(self, extension: str, count: int) -> None:
        text = f"{extension}: {count} log messages dropped, beyond {MAX_LOGS_PER_SECOND} a second"
        params = types.LoggingMessageNotificationParams(
            level="warning", logger="exthost", data=text
        )
        self._send_log(extension, types.LoggingMessageNotification(params=params))

    def _send_log(self, extension: str, message: types.LoggingMessageNotification) -> None:
        """Send a log message of a server to the clients that get it (see the module docstring)."""
        level = message.params.level
        exchanges = self._exchanges.list_for(extension)
        # The message does not name its request, so each client gets it once, with its newest
        # request: a later exchange replaces an earlier one of the same client.
        recipients: dict[object, Exchange] = {
            exchange.client_key: exchange
            for exchange in exchanges
            if self._wants_log(exchange, level)
        }
        for exchange in recipients.values():
            ctx = exchange.ctx
            # `ctx.request` is the HTTP request, None on stdio.
            if ctx.request is None or is_stateless(ctx.protocol_version):
                _send_in_exchange(exchange, message)
            else:
                self._clients.get_or_add(ctx).notify(message)
        if not exchanges:
            for client in self._clients:
                if is_at_least(level, client.level):
                    client.notify(message)

    def _wants_log(self, exchange: Exchange, level: str) -> bool:
        ctx = exchange.ctx
        if not is_stateless(ctx.protocol_version):
            return is_at_least(level, self._clients.get_or_add(ctx).level)
        threshold = log_level(ctx.params or {})
        return threshold is not None and is_at_least(level, threshold)

    # -- levels and clients ------------------------------------------------------------------

    async def set_level(self, extension: str = "") -> None:
        """Send the least severe log level that a client has set to the MCP server with the id
        `extension`, or to all MCP servers if `extension` is ""."""
        level = self._clients.lowest_level
        if level is None:
            return
        for server in self._host.extensions:
            if extension in ("", server.id) and "logging" in server_capabilities(server):
                # Each request to a stateless server carries its own level. If the capabilities are
                # remembered from an earlier run, the server has not started, and it gets the level
                # when it is ready.
                if is_stateless_server(server) or server.internals.is_offer_remembered:
                    continue
                try:
                    await server.call("logging/setLevel", {"level": level})
                except ExthostError as error:
                    _log.debug("%s", error)

    def remove_client(self, client: Client) -> None:
        """Remove the subscriptions of a client that has disconnected."""
        self._spawn(self._subscriptions.remove_all(client))


def _read_log_message(notice: Noticed) -> types.LoggingMessageNotification | None:
    """Return the log message in a notification of a server, or None if it is not valid."""
    try:
        return types.LoggingMessageNotification.model_validate(
            {"method": notice.method, "params": notice.params}
        )
    except ValidationError:
        return None


def _send_in_exchange(exchange: Exchange, notification: types.ServerNotification) -> None:
    """Send a notification as part of the request that is in progress."""
    exchange.outbox.put(
        lambda: exchange.ctx.session.send_notification(notification, exchange.ctx.request_id)
    )


def _are_different(
    tools: Mapping[str, RegisteredTool], announced: Mapping[str, RegisteredTool]
) -> bool:
    try:
        return tools != announced
    except RecursionError:  # schemas too deep to compare; an unneeded notification does no harm
        return True
