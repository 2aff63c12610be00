"""The gateway: publishes one host as one MCP server, for any number of clients.

The low-level server of the `mcp` package serves clients of both eras of MCP (with and without
sessions; see the docstring of `faces.gateway`). A middleware in that server passes each request
to `RequestHandlers`, whose results are plain JSON objects. They skip the package's models, so that
a result of an MCP server reaches the client with all of its fields. Tool calls reach the same
handlers without the package (`stdio_calls`, `http_calls`).
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
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
from exthost.dialects.mcp.handshake import CLIENT_METHODS
from exthost.dialects.mcp.tasks import TASK_METHODS, TASKS
from exthost.errors import ExthostError
from exthost.events import Noticed
from exthost.faces.gateway import search_mode
from exthost.faces.gateway.announcer import Announcer
from exthost.faces.gateway.capabilities import (
    declared_handlers,
    read_client_capabilities,
    read_client_info,
)
from exthost.faces.gateway.catalog import (
    Catalog,
    is_mcp_server,
    is_stateless_server,
    server_capabilities,
)
from exthost.faces.gateway.client_processes import ClientProcesses
from exthost.faces.gateway.client_stream import ClientStream
from exthost.faces.gateway.clients import Clients
from exthost.faces.gateway.exchanges import (
    Context,
    Exchanges,
    ask_client,
    can_answer,
    no_client_error,
)
from exthost.faces.gateway.held_calls import HeldCalls
from exthost.faces.gateway.mcp_values import MCP_DIALECT
from exthost.faces.gateway.meta import is_stateless
from exthost.faces.gateway.request_handlers import RequestHandlers
from exthost.faces.gateway.resource_subscriptions import ResourceSubscriptions
from exthost.faces.gateway.stdio_calls import CURRENT_CALLS
from exthost.faces.gateway.tool_list import ToolList
from exthost.host.host import Host
from exthost.model.spec import Spec
from exthost.session.inbound import Handler

_log = logging.getLogger("exthost.faces.gateway")

# How long the start of extensions waits for the first message of the sole client.
CLIENT_SECONDS = 2.0

# Clients must not cache a list by time, because they are notified of changes.
_NOT_CACHED = {"ttlMs": 0, "cacheScope": "private"}

# The fields of results that exist only in the stateless era.
_STATELESS_FIELDS = ("resultType", "ttlMs", "cacheScope")


class McpServer(Server[Any]):
    """The server of the `mcp` package, with the capabilities and the instructions of a gateway. The
    parameters of the overridden methods are the package's; a gateway has no use for them."""

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
    """One host as one MCP server. With `plain_names`, a tool or prompt whose name only one
    extension uses is listed under that name, without the prefix of its extension.

    `has_sole_client` is whether there will be one client, as on stdio. Then MCP servers of the
    handshake era are started only after that client has declared its capabilities, and the gateway
    declares the same capabilities to them. With several clients the gateway declares all
    capabilities, and refuses a request that the client of the call cannot answer."""

    def __init__(
        self, host: Host, *, plain_names: bool = False, has_sole_client: bool = False
    ) -> None:
        self.host = host
        self._has_sole_client = has_sole_client
        self._client_capabilities: Mapping[str, Any] | None = None
        self._client_known = asyncio.Event()
        # The parts refer to each other. A lambda below stands for a part that is created later.
        self.clients = Clients()
        self.tools = ToolList(host, plain_names=plain_names)
        self._exchanges = Exchanges()
        self.processes = ClientProcesses(
            host, self._exchanges, lambda stream, notice: self._forward_notice(stream, notice)
        )
        self._held_calls = HeldCalls()
        self._bus = InMemorySubscriptionBus()
        self._listen_handler = ListenHandler(self._bus)
        self._catalog = Catalog(
            lambda: host.extensions,
            lambda kind: self._announcer.mark_changed(kind),
            plain_names=plain_names,
        )
        self._subscriptions = ResourceSubscriptions(self._catalog)
        self._announcer = Announcer(
            host, self.tools, self._catalog, self.clients, self._exchanges, self._subscriptions,
            self._bus,
        )  # fmt: skip
        self._request_handlers = RequestHandlers(
            host, self.tools, self._catalog, self.clients, self._exchanges, self._held_calls,
            self._subscriptions, self._announcer.set_level, self.processes,
        )  # fmt: skip
        host.add_handlers(self._handlers_for)
        self.server = self._make_server()

    def _make_server(self) -> McpServer:
        server = McpServer(
            "exthost",
            version=__version__,
            on_subscriptions_listen=self._on_subscriptions_listen,
            get_tool_input_schema=self.tools.input_schema,
        )
        server.gateway = self
        server.middleware.append(self._handle_request)
        for method, handle in (
            ("notifications/initialized", self._on_initialized),
            ("notifications/roots/list_changed", self._on_roots_changed),
        ):
            server.add_notification_handler(method, types.NotificationParams, handle)
        return server

    # -- life --------------------------------------------------------------------------------

    def open(self, host_opening: "asyncio.Task[Any] | None" = None) -> "asyncio.Task[None]":
        """Open the host, unless the task `host_opening` does so. The returned task is done when
        each extension that is started has become ready or has failed."""
        before = self._wait_for_client() if self._has_sole_client else None
        opening_task = self.tools.open(before, host_opening)
        self._announcer.open()
        return opening_task

    async def _wait_for_client(self) -> None:
        try:
            async with asyncio.timeout(CLIENT_SECONDS):
                await self._client_known.wait()
        except TimeoutError:
            pass

    async def close(self, *, drain: bool = False) -> None:
        """Stop every extension, and end the subscriptions of clients. `drain` is passed to
        `Host.close`."""
        self._listen_handler.close()
        await self._announcer.close()
        await self.tools.close()
        await self._catalog.close()
        await self._held_calls.close()
        await self.host.close(drain=drain)

    @property
    def instructions(self) -> str | None:
        """The instructions of all MCP servers, each below a heading with the extension's id. In
        search mode, one line for each extension."""
        if self.tools.is_searched:
            return search_mode.instructions(self.host.extensions)
        sections = []
        for extension in self.host.extensions:
            text = extension.offer.extra.get("instructions") if is_mcp_server(extension) else None
            if extension.internals.serves and isinstance(text, str) and text.strip():
                sections.append(f"# {extension.id}\n\n{text.strip()}")
        return "\n\n".join(sections) or None

    @property
    def extensions(self) -> dict[str, dict[str, Any]]:
        """The extensions of the MCP protocol that the gateway or one of its servers supports, with
        their settings. (An item of `host.extensions` is a program instead.)"""
        settings_by_name: dict[str, dict[str, Any]] = {TASKS: {}}
        for extension in self.host.extensions:
            declared = server_capabilities(extension).get("extensions")
            for name, settings in declared.items() if isinstance(declared, Mapping) else ():
                if isinstance(name, str) and isinstance(settings, Mapping):
                    settings_by_name.setdefault(name, dict(settings))
        return settings_by_name

    # -- requests ----------------------------------------------------------------------------

    async def _handle_request(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Handle a request, or leave it to the package, which handles the handshake, ping and
        subscriptions."""
        method, version = ctx.method, ctx.protocol_version
        connection = CURRENT_CALLS.get()  # None on HTTP
        # In the handshake era, `_on_initialized` does this.
        if connection is not None and is_stateless(version):
            connection.open(ctx.session)
        if method in ("initialize", "server/discover"):
            if connection is not None:
                stream = connection.stream
                stream.client_info = read_client_info(method, ctx.params or {})
                declared = read_client_capabilities(method, ctx.params or {})
                self.processes.capabilities[stream] = declared
            self._client_capabilities = read_client_capabilities(method, ctx.params or {})
            self._client_known.set()
            await self.tools.wait_for_handshake()  # the instructions are those of ready servers
            result = await call_next(ctx)
            return self._complete_handshake(method, result)
        handler = self._request_handlers.methods.get(method)
        if handler is None or ctx.request_id is None:
            return await call_next(ctx)
        stateless = is_stateless(version)
        if not stateless and ctx.session.client_params is None:  # there was no handshake
            raise MCPError(types.INVALID_PARAMS, "Invalid request parameters", "")
        if method in (_HANDSHAKE_ERA_METHODS if stateless else TASK_METHODS):
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)
        result = await handler(ctx, ctx.params or {})
        return self._adapt_to_era(method, result, stateless=stateless)

    async def answer_call(self, ctx: Context) -> dict[str, Any]:
        """Return the result of a `tools/call` that bypasses the package."""
        result = await self._request_handlers.call_tool(ctx, ctx.params or {})
        return self._adapt_to_era(ctx.method, result, stateless=is_stateless(ctx.protocol_version))

    def _adapt_to_era(
        self, method: str, handler_result: Mapping[str, Any], *, stateless: bool
    ) -> dict[str, Any]:
        """Return a result with the fields that its era requires, and without those that it does not
        have."""
        result = dict(handler_result)
        if not stateless:
            for field in _STATELESS_FIELDS:
                result.pop(field, None)
            return result
        if method in CACHEABLE_METHODS and result.get("resultType") != "input_required":
            result = {**_NOT_CACHED, **result}
        return self._add_stateless_fields(result)

    def _add_stateless_fields(self, result: dict[str, Any]) -> dict[str, Any]:
        """Add the fields that every result of the stateless era has."""
        result.setdefault("resultType", "complete")
        meta = result.get("_meta")
        new_meta = dict(meta) if isinstance(meta, Mapping) else {}
        new_meta.setdefault(types.SERVER_INFO_META_KEY, self.server.server_info_stamp)
        result["_meta"] = new_meta
        return result

    def _complete_handshake(self, method: str, result: HandlerResult) -> HandlerResult:
        """Return the result of the handshake with the current instructions and protocol extensions.
        The package computed its result before the servers were ready. In the handshake era its
        result has no protocol extensions, although servers and clients use them."""
        if not isinstance(result, dict) or not isinstance(result.get("capabilities"), Mapping):
            return result
        extensions = self.extensions
        if method == "initialize":  # tasks exist only in the stateless era
            del extensions[TASKS]
        capabilities = {**result["capabilities"]} | (
            {"extensions": extensions} if extensions else {}
        )
        result = {**result, "capabilities": capabilities}
        instructions = self.instructions
        return result if instructions is None else {**result, "instructions": instructions}

    async def _on_subscriptions_listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Notify a stateless client of changes, until it ends this request."""
        subscriber = object()
        for uri in params.notifications.resource_subscriptions or ():
            try:
                await self._request_handlers.subscribe(str(uri), subscriber)
            except ExthostError as error:  # the client gets no updates of this resource
                _log.warning("%s", error)
        try:
            return await self._listen_handler(ctx, params)
        finally:
            await self._subscriptions.remove_all(subscriber)

    async def _on_initialized(self, ctx: Context, params: types.NotificationParams) -> None:
        """Notify the client until it disconnects: the package runs this handler as a task of the
        connection, and cancels it then."""
        client = self.clients.get_or_add(ctx)
        connection = CURRENT_CALLS.get()
        if connection is not None:
            connection.open(ctx.session)
            self.processes.sessions[connection.stream] = ctx.session
        try:
            await self.clients.serve_notifications(ctx)
        finally:
            self._announcer.remove_client(client)

    # -- requests of servers -----------------------------------------------------------------

    def _handlers_for(self, spec: Spec) -> Mapping[str, Handler]:
        """Return handlers that pass the requests of an MCP server on to its clients."""
        if spec.dialect != MCP_DIALECT:
            return {}
        methods: Iterable[str] = CLIENT_METHODS
        if self._has_sole_client and self._client_capabilities is not None:
            methods = declared_handlers(self._client_capabilities)
        return {method: partial(self.ask_client, spec.id, method) for method in methods}

    async def ask_client(self, extension: str, method: str, params: Any) -> Any:
        """Pass a request of an MCP server on to the client that it is meant for, and return the
        answer. Raises CallFailed."""
        self.processes.note_request(extension)
        exchange = self._exchanges.choose(extension, method, params)
        if exchange is not None:
            return await exchange.ask(method, params)
        # No call of this server is in progress. If one client alone uses its process, the request
        # is meant for that client. If it is shared, it may still request the roots, if exactly one
        # client is connected.
        session = self.processes.owner_session(extension)
        if session is not None and not can_answer(session, method, params):
            session = None
        elif session is None and method == "roots/list":
            session = self.clients.find_sole_session(method, params)
        if session is None:
            raise no_client_error(extension, method)
        return await ask_client(session, method, params, None)

    def _forward_notice(self, stream: ClientStream, notice: Noticed) -> None:
        """Pass a notification of a process that belongs to one client on to that client."""
        session = self.processes.sessions.get(stream)
        for client in self.clients:
            if client.session is not None and client.session is session:
                self._announcer.forward_to_client(client, notice)

    async def _on_roots_changed(self, ctx: Context, params: types.NotificationParams) -> None:
        """Pass on to all MCP servers that the roots of a client have changed."""
        for extension in self.host.extensions:
            if server_capabilities(extension) and not is_stateless_server(extension):
                try:
                    await extension.notify("notifications/roots/list_changed")
                except ExthostError as error:
                    _log.debug("%s", error)


# In the stateless era these methods do not exist: requests carry the log level, and subscriptions
# are made with `subscriptions/listen`.
_HANDSHAKE_ERA_METHODS = frozenset(
    {"logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
