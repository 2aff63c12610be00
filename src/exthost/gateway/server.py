"""Answers MCP's questions from a host: which tools there are, call one, tell when they change.

The protocol itself, both of its eras, is the `mcp` package's low-level server. A call runs as the
host's own tool loop would run it, between its hooks. Its failure is its own result: no extension
can end the gateway or another's call. A client's cancellation arrives as the cancellation of our
handler, and goes on to the extension in the words of its dialect.

The host opens while clients already connect: the first list waits until each eager extension is
ready or has failed, and also asks those that start at first use where only they know what they
offer, since a client cannot use what it is not shown.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

from exthost._version import __version__
from exthost.dialects.meanings import Progress
from exthost.errors import ExthostError, NotFound
from exthost.events import ToolsChanged
from exthost.extension.extension import Extension
from exthost.gateway import mcp_values
from exthost.host.host import Host
from exthost.offer import RegisteredTool
from exthost.tool_result import ToolResult

_log = logging.getLogger("exthost.gateway")

# Extensions come and go in bursts; clients are told once.
SETTLE_SECONDS = 0.05

# Of the progress that a slow client has not taken yet, so much is kept: the latest.
PROGRESS_KEPT = 256

Context = ServerRequestContext[Any, Any]


class McpServer(Server[Any]):
    """The package's server, which says in either era that its tools may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        told = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(told, experimental_capabilities, extensions)


class Gateway:
    """One host as one MCP server, for as many clients as there are."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._subscriptions = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._subscriptions)
        self._watchers: set[asyncio.Event] = set()  # one a client of the handshake era
        self._shown: Mapping[str, RegisteredTool] = {}
        self._worded: dict[str, list[types.Tool]] = {}  # by protocol version, until they change
        self._changed = asyncio.Event()
        self._unsubscribe = host.events.subscribe(ToolsChanged, self._on_change)
        self._asking: set[asyncio.Task[None]] = set()
        self._opening: asyncio.Task[None] | None = None
        self._announcing: asyncio.Task[None] | None = None
        self.server = McpServer(
            "exthost",
            version=__version__,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=self._listening,
            get_tool_input_schema=self._schema,
        )
        self.server.add_notification_handler(
            "notifications/initialized", types.NotificationParams, self._keep_told
        )

    # -- life --------------------------------------------------------------------------------

    def open(self) -> "asyncio.Task[None]":
        """Open the host; done when each extension that is asked is ready or has failed."""
        self._opening = asyncio.get_running_loop().create_task(self._open())
        return self._opening

    async def _open(self) -> None:
        await self.host.__aenter__()
        await asyncio.gather(*self._ask_the_silent())
        self._shown = dict(self.host.tools)
        self._changed.clear()
        self._announcing = asyncio.get_running_loop().create_task(self._announce())

    async def close(self, *, drain: bool = False) -> None:
        """End every extension, and tell clients that listen that there is nothing more to hear.
        `drain` is that of `Host.close`."""
        self._unsubscribe()
        self._listening.close()
        tasks = [task for task in (self._opening, self._announcing) if task is not None]
        tasks += self._asking
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.host.close(drain=drain)

    async def _ready(self) -> None:
        assert self._opening is not None
        await asyncio.shield(self._opening)

    def _ask_the_silent(self) -> "list[asyncio.Task[None]]":
        """Start those that would start at first use, if nobody knows what they offer."""
        loop = asyncio.get_running_loop()
        waiting = [ext for ext in self.host.extensions if ext.state == "admitted" and ext.is_silent]
        asking = [loop.create_task(_start(ext)) for ext in waiting if not ext.starts_eagerly]
        for task in asking:
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return asking

    # -- what there is -----------------------------------------------------------------------

    async def _list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        await self._ready()
        version = ctx.protocol_version
        if version not in self._worded:
            offered = [(tool, self._is_native(tool)) for tool in self.host.tools.values()]
            self._worded[version] = mcp_values.tools(offered, version)
        return types.ListToolsResult(tools=self._worded[version])

    def _schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self.host.tools.get(name)
        schema = tool.input_schema if tool is not None else None
        return schema if isinstance(schema, Mapping) else None

    def _is_native(self, tool: RegisteredTool) -> bool:
        return self.host[tool.extension].dialect.name == mcp_values.NATIVE

    def _on_change(self, _: ToolsChanged) -> None:
        self._worded.clear()
        self._changed.set()

    async def _announce(self) -> None:
        """Tell every client when the tools are not what they were."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._changed.clear()
            self._ask_the_silent()
            tools = dict(self.host.tools)
            if _differ(tools, self._shown):
                self._shown = tools
                for watcher in self._watchers:
                    watcher.set()
                await self._subscriptions.publish(ToolsListChanged())

    async def _keep_told(self, ctx: Context, params: types.NotificationParams) -> None:
        """One client of the handshake era: this ends, cancelled, with its connection."""
        changed = asyncio.Event()
        self._watchers.add(changed)
        try:
            while True:
                await changed.wait()
                changed.clear()
                await ctx.session.send_tool_list_changed()
        finally:
            self._watchers.discard(changed)

    # -- a call ------------------------------------------------------------------------------

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        if params.name not in self.host.tools:
            await self._ready()
        try:
            found = await self.host.find_tool(params.name)
            native = self._is_native(found)
            result = await self._run(ctx, found.name, params.arguments or {})
            if result.error_reply is not None:
                raise result.error_reply
            return mcp_values.result(result, native=native, version=ctx.protocol_version)
        except NotFound as error:
            raise MCPError(
                types.INVALID_PARAMS, error.message, mcp_values.about_error(error)
            ) from None
        except ExthostError as error:
            _log.warning("%s failed: %s", params.name, error)
            return mcp_values.error(error)

    async def _run(self, ctx: Context, name: str, arguments: dict[str, Any]) -> ToolResult:
        forward = _Forward(ctx.session)
        try:
            result = await self.host.run_tool(name, arguments, on_progress=forward, check=False)
            await forward.finish()
            return result
        finally:
            forward.stop()


def _differ(tools: Mapping[str, RegisteredTool], before: Mapping[str, RegisteredTool]) -> bool:
    try:
        return tools != before
    except RecursionError:  # schemas too deep to compare: telling once too often is no harm
        return True


async def _start(extension: Extension) -> None:
    try:
        await extension.start()
    except ExthostError as error:  # its calls will say so, too
        _log.warning("%s", error)


class _Forward:
    """Passes the progress of one call on to its client, which hears nothing if it did not ask.
    Costs nothing until there is some."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._kept: deque[Progress] = deque(maxlen=PROGRESS_KEPT)
        self._sending: asyncio.Task[None] | None = None

    def __call__(self, told: Progress) -> None:
        self._kept.append(told)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._kept:
            _, progress, total, message = self._kept.popleft()
            said = mcp_values.clean(message) or None
            await self._session.report_progress(progress, total, said)

    async def finish(self) -> None:
        """All of it goes before the result."""
        if self._sending is not None:
            await self._sending

    def stop(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
