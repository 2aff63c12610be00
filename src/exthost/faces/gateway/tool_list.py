"""The list of tools that the clients of the gateway see, while the host is still starting and
afterwards.

The gateway publishes the tools of all extensions of a host as those of one MCP server. Clients can
connect before the host has started its extensions. The first list is answered when each extension
is ready or has failed, and at the latest when the time of `[gateway] first_list` is over; clients
are notified when the tools of slower extensions arrive. An extension with `start = "lazy"` is
started anyway if its tools are unknown, because a client cannot call a tool that is not listed. A
call waits only for the extension that it calls. A request for a resource or prompt that is unknown
yet waits, too, because the extension that has it may be starting.

A tool that can only be called as an MCP task is not listed, because the gateway cannot request a
task. (`tasks` handles only the calls that a server itself decides to run as tasks.)
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from exthost.errors import ExthostError, NotFound
from exthost.events import StateChanged, ToolsChanged
from exthost.extension.extension import Extension
from exthost.faces.gateway import mcp_values, search_mode
from exthost.faces.gateway.catalog import is_mcp_server
from exthost.faces.gateway.client_stream import wants_plain_names
from exthost.host.host import Host
from exthost.model.offer import RegisteredTool

_log = logging.getLogger("exthost.faces.gateway")

# The maximum time until the handshake of the first client is answered: it contains the instructions
# of the servers that are ready by then. Some clients give up after 10 s.
HANDSHAKE_SECONDS = 2.0

# The maximum time that a request with an unknown name or URI waits while extensions are starting.
UNKNOWN_NAME_SECONDS = 60.0

T = TypeVar("T")


class ToolList:
    """The tools of a host. With `plain_names`, a tool whose name only one extension uses is listed
    under that name, without the prefix of its extension. A tool whose own name can mean another
    tool, because it looks like a registered name, keeps its registered name."""

    def __init__(self, host: Host, *, plain_names: bool = False) -> None:
        self._host = host
        self._plain_names = plain_names
        # By protocol version, and whether names are plain.
        self._lists: dict[tuple[str, bool], list[dict[str, Any]]] = {}
        self._opening: asyncio.Task[None] | None = None  # opens the host
        # These are done when the first list, and the first handshake, can be answered.
        self._first_list: asyncio.Task[None] | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._start_tasks: set[asyncio.Task[None]] = set()
        self._warned_tools: set[str] = set()
        self._change: asyncio.Future[None] | None = None  # done at the next change
        self._unsubscribes = (
            host.events.subscribe(ToolsChanged, self._on_tools_changed),
            host.events.subscribe(StateChanged, self._on_change),
        )

    # -- opening -----------------------------------------------------------------------------

    def open(
        self,
        before: Coroutine[Any, Any, None] | None = None,
        host_opening: "asyncio.Task[Any] | None" = None,
    ) -> "asyncio.Task[None]":
        """Open the host, after `before` has ended; or wait for the task `host_opening`, which opens
        it. The returned task is done when each extension that is started has
        become ready or has failed."""
        loop = asyncio.get_running_loop()
        self._opening = loop.create_task(self._open(before, host_opening))
        seconds = self._host.config.gateway.first_list
        self._first_list = loop.create_task(self._wait_for_opening(seconds))
        self._first_list.add_done_callback(self._report_slow_extensions)
        self._handshake = loop.create_task(self._wait_for_opening(min(seconds, HANDSHAKE_SECONDS)))
        return self._opening

    async def _open(
        self,
        before: Coroutine[Any, Any, None] | None,
        host_opening: "asyncio.Task[Any] | None",
    ) -> None:
        if before is not None:
            await before
        if host_opening is not None:
            await asyncio.wait([host_opening])
        else:
            await self._host.__aenter__()
        self.start_unlisted()
        await asyncio.gather(*self._start_tasks)

    async def _wait_for_opening(self, seconds: float) -> None:
        assert self._opening is not None
        await asyncio.wait([self._opening], timeout=seconds)

    def _report_slow_extensions(self, first_list: "asyncio.Task[None]") -> None:
        if first_list.cancelled():
            return
        seconds = self._host.config.gateway.first_list
        for extension in self._host.extensions:
            if extension.state == "starting":
                _log.warning(
                    "%s is not in the first list of tools: it was not ready within %g s; raise "
                    "first_list in [gateway] if clients miss its tools",
                    extension.id,
                    seconds,
                )

    async def wait_for_first_list(self) -> None:
        """Wait until a list can be answered: until the host is open, or until the time of
        `[gateway] first_list` is over, which begins with `open`."""
        await _wait(self._first_list)

    async def wait_for_handshake(self) -> None:
        """Wait until the handshake can be answered: like `wait_for_first_list`, but for at most
        HANDSHAKE_SECONDS after `open`."""
        await _wait(self._handshake)

    def start_unlisted(self) -> None:
        """Start each lazily started extension whose tools are unknown until its handshake."""
        loop = asyncio.get_running_loop()
        for extension in self._host.extensions:
            has_unknown_tools = (
                extension.state == "admitted" and extension.internals.is_offer_unknown
            )
            if has_unknown_tools and not extension.internals.starts_eagerly:
                task = loop.create_task(_start(extension))
                self._start_tasks.add(task)
                task.add_done_callback(self._start_tasks.discard)

    async def close(self) -> None:
        for unsubscribe in self._unsubscribes:
            unsubscribe()
        waits = (self._opening, self._first_list, self._handshake)
        tasks = [task for task in waits if task is not None]
        tasks += self._start_tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- the list ----------------------------------------------------------------------------

    def list_for_version(self, version: str) -> list[dict[str, Any]]:
        """Return the tools in the form of this protocol version."""
        if self.is_searched:
            return list(search_mode.TOOLS)
        plain_names = wants_plain_names(self._plain_names)
        values = self._lists.get((version, plain_names))
        if values is None:
            tools = [tool for tool in self._host.tools.values() if not self._needs_task(tool)]
            values = [self._make_value(tool, version, plain_names) for tool in tools]
            self._lists[version, plain_names] = values
        return values

    @property
    def is_searched(self) -> bool:
        """Whether clients search for tools, instead of reading a list of all."""
        return self._host.config.gateway.mode == "search"

    def search_tools(self, query: str, limit: int, version: str) -> list[dict[str, Any]]:
        """Return the tools that fit these words best, in the form of this protocol version."""
        plain_names = wants_plain_names(self._plain_names)
        tools = self._host.tools
        # A tool that is not offered must not take the place of another.
        unoffered = sum(map(self._needs_task, tools.values()))
        found = tools.search(query, limit + unoffered).values()
        offered = [tool for tool in found if not self._needs_task(tool)]
        return [self._make_value(tool, version, plain_names) for tool in offered[:limit]]

    def _make_value(self, tool: RegisteredTool, version: str, plain_names: bool) -> dict[str, Any]:
        """Return a tool as clients see it. Warn once if its outputSchema is left out."""
        from_mcp_server = is_mcp_server(self._host[tool.extension])
        value = mcp_values.tool_value(
            tool,
            from_mcp_server=from_mcp_server,
            version=version,
            plain_name=plain_names and self._is_found_by_own_name(tool),
        )
        lacks_schema = tool.output_schema is not None and "outputSchema" not in value
        if from_mcp_server and lacks_schema and tool.name not in self._warned_tools:
            self._warned_tools.add(tool.name)
            _log.warning(
                "%s: the tool %s is offered without its outputSchema, which clients may fail to "
                "read: it is not valid, or refers to itself in a circle or to something outside",
                tool.extension,
                tool.tool,
            )
        return value

    def _is_found_by_own_name(self, tool: RegisteredTool) -> bool:
        return self._host.registry.get_candidates(tool.tool) == [tool]

    def _needs_task(self, tool: RegisteredTool) -> bool:
        """Return whether a tool can only be called as an MCP task. Warn once for each such tool."""
        execution = tool.extra.get("execution")
        if not isinstance(execution, Mapping) or execution.get("taskSupport") != "required":
            return False
        if tool.name not in self._warned_tools:
            self._warned_tools.add(tool.name)
            _log.warning(
                "%s: the tool %s is not offered: it can only be called as a task, which the "
                "gateway does not support",
                tool.extension,
                tool.tool,
            )
        return True

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool's arguments, or None. Used to check the HTTP headers in which
        a client repeats some of the arguments."""
        if self.is_searched and (own_schema := search_mode.find_schema(name)) is not None:
            return own_schema
        try:
            schema = self._host.registry.find(name).input_schema
        except NotFound:
            return None
        return schema if isinstance(schema, Mapping) else None

    # -- one tool ----------------------------------------------------------------------------

    async def find(self, name: str) -> RegisteredTool:
        """Return the tool of this name, waiting until its extension is ready. Raises NotFound, or
        the error because of which the extension did not start."""
        tool = self._host.registry.get(name)
        if tool is not None:
            return tool
        deadline = asyncio.get_running_loop().time() + UNKNOWN_NAME_SECONDS
        while True:
            change = self._next_change()
            # While the host has loaded no extensions yet, every name would be unknown.
            if self._host.extensions or self._is_open:
                try:
                    return await self._host.find_tool(name)
                except NotFound:
                    # A plain name does not say which extension to wait for, so the search goes on
                    # while the host opens.
                    if self._is_open or not wants_plain_names(self._plain_names):
                        raise
            seconds = deadline - asyncio.get_running_loop().time()
            if seconds <= 0:  # a name that is still unknown raises NotFound
                return await self._host.find_tool(name)
            assert self._opening is not None
            await asyncio.wait(
                [self._opening, change], timeout=seconds, return_when="FIRST_COMPLETED"
            )

    async def search(self, search_once: Callable[[], Awaitable[T | None]]) -> T | None:
        """Return what `search_once` returns. While that is None and the host is opening, call it
        again after each change of an extension, for at most UNKNOWN_NAME_SECONDS."""
        assert self._opening is not None, "the gateway is open"
        deadline = asyncio.get_running_loop().time() + UNKNOWN_NAME_SECONDS
        while True:
            change, is_open = self._next_change(), self._is_open
            result = await search_once()
            seconds = deadline - asyncio.get_running_loop().time()
            if result is not None or is_open or seconds <= 0:
                return result
            await asyncio.wait(
                [self._opening, change], timeout=seconds, return_when="FIRST_COMPLETED"
            )

    @property
    def _is_open(self) -> bool:
        return self._opening is not None and self._opening.done()

    def _next_change(self) -> "asyncio.Future[None]":
        """Return a future that is done at the next change of an extension."""
        if self._change is None or self._change.done():
            self._change = asyncio.get_running_loop().create_future()
        return self._change

    def _on_tools_changed(self, event: ToolsChanged) -> None:
        self._lists.clear()
        self._on_change(event)

    def _on_change(self, _: ToolsChanged | StateChanged) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)


async def _wait(task: "asyncio.Task[None] | None") -> None:
    assert task is not None, "the gateway is open"
    if not task.done():
        await asyncio.shield(task)


async def _start(extension: Extension) -> None:
    try:
        await extension.start()
    except ExthostError as error:  # calls of the extension report it, too
        _log.warning("%s", error)
