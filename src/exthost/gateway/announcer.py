"""Tells clients what changes: lists, resources that they subscribed to, log messages of servers.

Extensions come and go in bursts, so clients are told of changed lists once for each burst, and of
tools only if they are not what they were. Log messages go to the clients whose calls the server is
serving, each from the level on that it wants; between calls, to every client of the handshake era.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
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
from exthost.gateway.catalog import Catalog, Kind, capabilities_of, speaks_stateless
from exthost.gateway.clients import Client, Clients, is_at_least
from exthost.gateway.exchanges import Exchange, Exchanges
from exthost.gateway.meta import is_stateless, log_level
from exthost.gateway.resource_subscriptions import ResourceSubscriptions
from exthost.gateway.tool_list import ToolList
from exthost.host.host import Host
from exthost.offer import RegisteredTool

__all__ = ["Announcer"]

_log = logging.getLogger("exthost.gateway")

# Changes within this time are told as one.
SETTLE_SECONDS = 0.05

_KINDS: Mapping[str, tuple[Kind, ...]] = {
    "resources": ("resources", "templates"),
    "prompts": ("prompts",),
}
_CHANGED: Mapping[str, tuple[type[Any], type[Any]]] = {
    "resources": (types.ResourceListChangedNotification, ResourcesListChanged),
    "prompts": (types.PromptListChangedNotification, PromptsListChanged),
    "tools": (types.ToolListChangedNotification, ToolsListChanged),
}


class Announcer:
    """Watches one host for all clients of its gateway."""

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
        self._known_tools: Mapping[str, RegisteredTool] = {}
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
        self._run(self._announce())

    async def close(self) -> None:
        for unsubscribe in self._unsubscribes:
            unsubscribe()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- lists -------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether every change so far has been announced."""
        return not self._change.is_set()

    def changed(self, kind: str) -> None:
        """Announce that this list is another one."""
        self._changed_lists.add("prompts" if kind == "prompts" else "resources")
        self._change.set()

    def _on_tools_changed(self, _: ToolsChanged) -> None:
        self._change.set()

    def _on_state_changed(self, event: StateChanged) -> None:
        if event.after != "ready" and event.before != "ready":
            return
        extension = self._catalog.server(event.extension)
        has = capabilities_of(extension) if extension is not None else _KINDS
        for capability, kinds in _KINDS.items():
            self._catalog.forget(event.extension, kinds)
            if capability in has:
                self.changed(capability)
        if extension is not None:
            self._run(self._subscriptions.resubscribe(event.extension))
            self._run(self.set_level(event.extension))

    async def _announce(self) -> None:
        await self._starts_before_the_first_list()
        self._known_tools = dict(self._host.tools)
        self._changed_lists.clear()
        while True:
            await self._change.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._change.clear()
            self._tools.start_silent()
            lists, self._changed_lists = self._changed_lists, set()
            tools = dict(self._host.tools)
            if _differ(tools, self._known_tools):
                self._known_tools = tools
                lists.add("tools")
            for name in sorted(lists):
                notification, event = _CHANGED[name]
                self._clients.notify(notification())
                await self._bus.publish(event())

    async def _starts_before_the_first_list(self) -> None:
        """Start what only its handshake can describe, as soon as it is there, though another
        extension may still keep the host from being open."""
        loop = asyncio.get_running_loop()
        first = loop.create_task(self._tools.ready())
        try:
            while not first.done():
                change = loop.create_task(self._change.wait())
                await asyncio.wait([first, change], return_when="FIRST_COMPLETED")
                change.cancel()
                self._change.clear()
                self._tools.start_silent()
        finally:
            first.cancel()

    # -- notifications of servers ------------------------------------------------------------

    def _on_notification(self, notice: Noticed) -> None:
        method, params = notice.method, notice.params
        if method == "notifications/message":
            self._pass_on_log(notice)
        elif method == "notifications/resources/list_changed":
            self._catalog.forget(notice.extension, _KINDS["resources"])
            self.changed("resources")
        elif method == "notifications/prompts/list_changed":
            self._catalog.forget(notice.extension, _KINDS["prompts"])
            self.changed("prompts")
        elif method == "notifications/resources/updated" and isinstance(params, Mapping):
            uri = params.get("uri")
            if isinstance(uri, str):
                self._announce_update(uri)
        elif method == "notifications/elicitation/complete":
            self._pass_on(types.ElicitCompleteNotification, method, params)

    def _announce_update(self, uri: str) -> None:
        updated = types.ResourceUpdatedNotification(
            params=types.ResourceUpdatedNotificationParams(uri=uri)
        )
        for subscriber in self._subscriptions.subscribers_of(uri):
            if isinstance(subscriber, Client):
                subscriber.notify(updated)
        self._run(self._bus.publish(ResourceUpdated(uri=uri)))

    def _pass_on(self, kind: Any, method: str, params: Any) -> None:
        try:
            self._clients.notify(kind.model_validate({"method": method, "params": params}))
        except ValidationError:
            _log.debug("%s is not valid and is not passed on", method)

    def _pass_on_log(self, notice: Noticed) -> None:
        try:
            message = types.LoggingMessageNotification.model_validate(
                {"method": notice.method, "params": notice.params}
            )
        except ValidationError:
            return
        level = message.params.level
        serving = self._exchanges.of(notice.extension)
        for exchange in serving:
            if self._wants(exchange, level):
                _send_on(exchange, message)
        if not serving:
            for client in self._clients:
                if is_at_least(level, client.level):
                    client.notify(message)

    def _wants(self, exchange: Exchange, level: str) -> bool:
        ctx = exchange.ctx
        if not is_stateless(ctx.protocol_version):
            return is_at_least(level, self._clients.of(ctx).level)
        lowest = log_level(ctx.params or {})
        return lowest is not None and is_at_least(level, lowest)

    # -- levels and clients ------------------------------------------------------------------

    async def set_level(self, extension: str = "") -> None:
        """Tell MCP servers, or this one, the lowest level that a client wants."""
        level = self._clients.lowest_level
        if level is None:
            return
        for server in self._host.extensions:
            if extension in ("", server.id) and "logging" in capabilities_of(server):
                if speaks_stateless(server):
                    continue  # each request says its own
                try:
                    await server.call("logging/setLevel", {"level": level})
                except ExthostError as error:
                    _log.debug("%s", error)

    def forget(self, client: Client) -> None:
        """Take back what a client wanted that is gone."""
        self._run(self._subscriptions.remove_all(client))


def _send_on(exchange: Exchange, notification: types.ServerNotification) -> None:
    exchange.outbox.put(
        lambda: exchange.ctx.session.send_notification(notification, exchange.ctx.request_id)
    )


def _differ(tools: Mapping[str, RegisteredTool], before: Mapping[str, RegisteredTool]) -> bool:
    try:
        return tools != before
    except RecursionError:  # schemas too deep to compare: telling once too often is no harm
        return True
