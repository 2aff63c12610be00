"""The gateway: one host as one MCP server, for any number of clients.

The sessions of both eras are those of the low-level server of the `mcp` package. Every request
passes a middleware of it, where `Requests` answers with values of the wire: the result of a server
reaches the client unchanged, with all of its members. Tool calls reach the same `Requests` without
the package (`stdio_calls`, `http_calls`).
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types.methods import CACHEABLE_METHODS

from exthost._version import __version__
from exthost.dialects.mcp.handshake import ELICITATION_URL, SAMPLING_TOOLS
from exthost.errors import ExthostError
from exthost.gateway.announcer import Announcer
from exthost.gateway.catalog import Catalog, capabilities_of, is_native, speaks_stateless
from exthost.gateway.clients import Clients
from exthost.gateway.exchanges import METHODS, Context, Exchanges, ask_client, no_client
from exthost.gateway.held_calls import HeldCalls
from exthost.gateway.mcp_values import NATIVE
from exthost.gateway.meta import is_stateless
from exthost.gateway.requests import Requests
from exthost.gateway.resource_subscriptions import ResourceSubscriptions
from exthost.gateway.stdio_calls import CONNECTION
from exthost.gateway.tool_list import ToolList
from exthost.host.host import Host
from exthost.session.inbound import Handler
from exthost.spec import Spec

_log = logging.getLogger("exthost.gateway")

# A list has no lifetime: clients are notified of changes.
_NOT_CACHED = {"ttlMs": 0, "cacheScope": "private"}

# Members of results that only the stateless era has.
_STATELESS_MEMBERS = ("resultType", "ttlMs", "cacheScope")


class McpServer(Server[Any]):
    """The package's server with the capabilities and the instructions of a gateway."""

    gateway: "Gateway"

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        return InitializationOptions(
            server_name=self.name,
            server_version=self.version,
            capabilities=self.get_capabilities(),
            instructions=self.gateway.instructions,
        )

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        return types.ServerCapabilities(
            tools=types.ToolsCapability(list_changed=True),
            resources=types.ResourcesCapability(subscribe=True, list_changed=True),
            prompts=types.PromptsCapability(list_changed=True),
            completions=types.CompletionsCapability(),
            logging=types.LoggingCapability(),
        )


class Gateway:
    """One host as one MCP server. `plain_names`: tools and prompts have their own names where only
    one extension has them."""

    def __init__(self, host: Host, *, plain_names: bool = False) -> None:
        self.host = host
        self.clients = Clients()
        self.tools = ToolList(host, plain_names=plain_names)
        self._exchanges = Exchanges()
        self._held = HeldCalls()
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        self._catalog = Catalog(
            lambda: host.extensions,
            lambda kind: self._announcer.changed(kind),
            plain_names=plain_names,
        )
        self._subscriptions = ResourceSubscriptions(self._catalog)
        self._announcer = Announcer(
            host, self.tools, self._catalog, self.clients, self._exchanges, self._subscriptions,
            self._bus,
        )  # fmt: skip
        self._requests = Requests(
            host, self.tools, self._catalog, self.clients, self._exchanges, self._held,
            self._subscriptions, self._announcer.set_level,
        )  # fmt: skip
        host.add_handlers(self._handlers_for)
        self.server = self._make_server()

    def _make_server(self) -> McpServer:
        server = McpServer(
            "exthost",
            version=__version__,
            on_subscriptions_listen=self._listen,
            get_tool_input_schema=self.tools.input_schema,
        )
        server.gateway = self
        server.middleware.append(self._answer)
        for method, handle in (
            ("notifications/initialized", self._attend),
            ("notifications/roots/list_changed", self._pass_on_roots),
        ):
            server.add_notification_handler(method, types.NotificationParams, handle)
        return server

    # -- life --------------------------------------------------------------------------------

    def open(self) -> "asyncio.Task[None]":
        """Open the host; done when each extension that is asked is ready or has failed."""
        opening = self.tools.open()
        self._announcer.open()
        return opening

    async def close(self, *, drain: bool = False) -> None:
        """End every extension, and end the subscriptions of clients. `drain` is that of
        `Host.close`."""
        self._listening.close()
        await self._announcer.close()
        await self.tools.close()
        await self._catalog.close()
        await self._held.close()
        await self.host.close(drain=drain)

    @property
    def instructions(self) -> str | None:
        """The instructions of the MCP servers, each under its name."""
        parts = []
        for extension in self.host.extensions:
            text = extension.offer.extra.get("instructions") if is_native(extension) else None
            if extension.serves and isinstance(text, str) and text.strip():
                parts.append(f"# {extension.id}\n\n{text.strip()}")
        return "\n\n".join(parts) or None

    # -- requests ----------------------------------------------------------------------------

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer a request, or leave it to the package: handshake, ping, subscriptions."""
        method, version = ctx.method, ctx.protocol_version
        connection = CONNECTION.get()
        if connection is not None and is_stateless(version):
            connection.open(ctx.session)
        if method in ("initialize", "server/discover"):
            await self.tools.ready()  # its answer has the instructions
            result = await call_next(ctx)
            return self._with_instructions(result)
        answer = self._requests.methods.get(method)
        if answer is None or ctx.request_id is None:
            return await call_next(ctx)
        stateless = is_stateless(version)
        if not stateless and ctx.session.client_params is None:  # no handshake has been
            raise MCPError(types.INVALID_PARAMS, "Invalid request parameters", "")
        if stateless and method in _HANDSHAKE_METHODS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)
        result = await answer(ctx, ctx.params or {})
        return self._finished(method, result, stateless=stateless)

    async def answer_call(self, ctx: Context) -> dict[str, Any]:
        """Return the result of a `tools/call` that the package has no part in."""
        result = await self._requests.call_tool(ctx, ctx.params or {})
        return self._finished(ctx.method, result, stateless=is_stateless(ctx.protocol_version))

    def _finished(
        self, method: str, answer: Mapping[str, Any], *, stateless: bool
    ) -> dict[str, Any]:
        """Return a result with the members of its era."""
        result = dict(answer)
        if not stateless:
            for member in _STATELESS_MEMBERS:
                result.pop(member, None)
            return result
        if method in CACHEABLE_METHODS and result.get("resultType") != "input_required":
            result = {**_NOT_CACHED, **result}
        return self._stamped(result)

    def _stamped(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result of the stateless era with the members that each of them has."""
        result.setdefault("resultType", "complete")
        meta = result.get("_meta")
        own = dict(meta) if isinstance(meta, Mapping) else {}
        own.setdefault(types.SERVER_INFO_META_KEY, self.server.server_info_stamp)
        result["_meta"] = own
        return result

    def _with_instructions(self, result: HandlerResult) -> HandlerResult:
        """Return the result with the current instructions: the package fixed its own before the
        extensions were ready."""
        instructions = self.instructions
        if isinstance(result, dict) and instructions is not None:
            return {**result, "instructions": instructions}
        return result

    async def _listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        subscriber = object()
        for uri in params.notifications.resource_subscriptions or ():
            try:
                await self._subscriptions.add(str(uri), subscriber)
            except ExthostError as error:  # then nothing will be heard of it
                _log.warning("%s", error)
        try:
            return await self._listening(ctx, params)
        finally:
            await self._subscriptions.remove_all(subscriber)

    async def _attend(self, ctx: Context, params: types.NotificationParams) -> None:
        client = self.clients.of(ctx)
        connection = CONNECTION.get()
        if connection is not None:
            connection.open(ctx.session)
        try:
            await self.clients.attend(ctx)
        finally:
            self._announcer.forget(client)

    # -- requests of servers -----------------------------------------------------------------

    def _handlers_for(self, spec: Spec) -> Mapping[str, Handler]:
        """Return what serves the requests of an MCP server: its clients."""
        if spec.dialect != NATIVE:
            return {}
        declared = (*METHODS, ELICITATION_URL, SAMPLING_TOOLS)
        return {method: partial(self._ask, spec.id, method) for method in declared}

    async def _ask(self, extension: str, method: str, params: Any) -> Any:
        exchange = self._exchanges.choose(extension, method, params)
        if exchange is not None:
            return await exchange.ask(method, params)
        # Between calls, the roots can be requested if there is only one client.
        session = self.clients.sole(method, params) if method == "roots/list" else None
        if session is None:
            raise no_client(extension, method)
        return await ask_client(session, method, params, None)

    async def _pass_on_roots(self, ctx: Context, params: types.NotificationParams) -> None:
        for extension in self.host.extensions:
            if capabilities_of(extension) and not speaks_stateless(extension):
                try:
                    await extension.notify("notifications/roots/list_changed")
                except ExthostError as error:
                    _log.debug("%s", error)


# The stateless era has neither a level nor subscriptions of a connection.
_HANDSHAKE_METHODS = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
