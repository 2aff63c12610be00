"""The gateway of a host process, and the answers to the requests of its MCP servers.

The gateway publishes all extensions of the host as one MCP server for MCP clients. It exists from
the start if a service of the process serves MCP. Otherwise it is created when the first client
joins through a relay, because the import of the `mcp` package takes longer than the start of the
host.

An MCP server can send requests to its client: sampling, elicitation, roots. Each request goes to
the first of these that applies:

    the page has a call in progress at this server         the page
    there is a gateway, or the host was started for
    clients, so that a gateway can be created              a client of the gateway
    otherwise                                              the page

Without a page, the gateway adds handlers of its own to the host.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from exthost.dialects.mcp.handshake import CLIENT_METHODS
from exthost.faces.cli.background_service import BackgroundService
from exthost.host.host import Host
from exthost.model.spec import Spec
from exthost.session.inbound import Handler

if TYPE_CHECKING:
    from exthost.faces.gateway.server import Gateway, McpServer


class ProcessGateway:
    """Opens and closes the host of a process, through a gateway if there is one.

    host             the host
    services         the services of the process; one of them may be the page, others may serve MCP
    plain_names      see `Gateway`
    expects_clients  whether the host was started for clients that join it
    opening          the task that opens the host; None before `open`
    """

    def __init__(
        self,
        host: Host,
        services: Sequence[BackgroundService],
        *,
        plain_names: bool,
        expects_clients: bool,
    ) -> None:
        self._host = host
        self._plain_names = plain_names
        self._expects_clients = expects_clients
        self._page = next(
            (each.server_requests for each in services if each.server_requests is not None), None
        )
        self.opening: asyncio.Task[Any] | None = None
        has_mcp = any(service.is_mcp for service in services)
        # An MCP service on stdio has one client. A service on HTTP has any number of them.
        self.has_sole_client = has_mcp and not any(service.is_http for service in services)
        self._gateway = self._create() if has_mcp else None
        if expects_clients or self._page is not None:
            host.add_handlers(self._handlers_for)

    def _create(self) -> "Gateway":
        """Return a new gateway for the host."""
        # Imported here because a host without MCP clients does not need the `mcp` package.
        from exthost.faces.gateway.server import Gateway

        gateway = Gateway(
            self._host, plain_names=self._plain_names, has_sole_client=self.has_sole_client
        )
        if self._page is not None:  # replace the handlers that the gateway has just added
            self._host.add_handlers(self._handlers_for)
        return gateway

    def get_or_create(self) -> "Gateway":
        """Return the gateway of the open host, and create it for the first client. An MCP server
        that was started earlier sends no requests to its client, because no capabilities of a
        client were declared to it. Only if the process has a page or expects clients were they
        declared."""
        if self._gateway is None:
            assert self.opening is not None, "clients are accepted when the process runs"
            self._gateway = self._create()
            self._gateway.open(self.opening)
        return self._gateway

    @property
    def server(self) -> "McpServer | None":
        """The MCP server for the services that need it; None if no service does."""
        return None if self._gateway is None else self._gateway.server

    def list_http_clients(self) -> list[Mapping[str, Any]]:
        """Return name and version of each client with a session on HTTP."""
        return [] if self._gateway is None else self._gateway.clients.list_http_clients()

    def open(self) -> "asyncio.Task[Any]":
        """Start to open the host. The task is done when each extension that is started has become
        ready or has failed."""
        if self._gateway is not None:
            self.opening = self._gateway.open()
        else:
            self.opening = asyncio.get_running_loop().create_task(self._host.__aenter__())
        return self.opening

    async def close(self, *, drain: bool = False) -> None:
        """Close the host. `drain` is passed to `Host.close`."""
        await (self._host if self._gateway is None else self._gateway).close(drain=drain)

    # -- requests of servers -----------------------------------------------------------------

    @property
    def _can_have_clients(self) -> bool:
        return self._gateway is not None or self._expects_clients

    def _handlers_for(self, spec: Spec) -> Mapping[str, Handler]:
        """Return the handlers for the requests of an MCP server. Each method that has a handler
        declares a capability of the client to the server when the server starts."""
        if spec.dialect != "mcp":
            return {}
        methods: Iterable[str] = CLIENT_METHODS
        if self._page is not None and not self._can_have_clients:
            methods = self._page.methods
        return {method: partial(self._answer, spec.id, method) for method in methods}

    async def _answer(self, extension: str, method: str, params: Any) -> Any:
        """Pass a request of an MCP server on to the page or to a client. Return the answer."""
        page = self._page
        # Checked at each request, because a client may have joined since the server was started.
        if page is not None and (page.has_call(extension) or not self._can_have_clients):
            return await page.answer(extension, method, params)
        return await self.get_or_create().ask_client(extension, method, params)
