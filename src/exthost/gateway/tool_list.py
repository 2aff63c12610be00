"""The tools that clients see, and when they see them.

The host opens while clients already connect. The first list is answered when each extension is
ready or has failed, or after two seconds with the extensions that are ready; a notification follows
when the others are. Extensions that start at first use are started if their tools are unknown,
since a client cannot use a tool that it does not see. A call waits for its own extension only.

A tool that can only be called as a task is not listed, since the gateway has no tasks.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from exthost.errors import ExthostError, NotFound
from exthost.events import ToolsChanged
from exthost.extension.extension import Extension
from exthost.gateway import mcp_values
from exthost.gateway.catalog import is_native
from exthost.host.host import Host
from exthost.offer import RegisteredTool

__all__ = ["ToolList"]

_log = logging.getLogger("exthost.gateway")

# The first list is answered after this at the latest.
FIRST_LIST_SECONDS = 2.0

# A call of a name that no extension has yet is answered after this at the latest, while some start.
UNKNOWN_NAME_SECONDS = 60.0


class ToolList:
    """The tools of a host that opens. `plain_names`: a tool has its own name where only one
    extension has it."""

    def __init__(self, host: Host, *, plain_names: bool = False) -> None:
        self._host = host
        self._plain_names = plain_names
        self._by_version: dict[str, list[dict[str, Any]]] = {}
        self._opening: asyncio.Task[None] | None = None
        self._first: asyncio.Task[None] | None = None
        self._starting: set[asyncio.Task[None]] = set()
        self._left_out: set[str] = set()
        self._change: asyncio.Future[None] | None = None
        self._unsubscribe = host.events.subscribe(ToolsChanged, self._on_change)

    # -- opening -----------------------------------------------------------------------------

    def open(self) -> "asyncio.Task[None]":
        """Open the host; done when each extension that is started is ready or has failed."""
        loop = asyncio.get_running_loop()
        self._opening = loop.create_task(self._open())
        self._first = loop.create_task(self._wait_for_first())
        return self._opening

    async def _open(self) -> None:
        await self._host.__aenter__()
        self.start_silent()
        await asyncio.gather(*self._starting)

    async def _wait_for_first(self) -> None:
        assert self._opening is not None
        await asyncio.wait([self._opening], timeout=FIRST_LIST_SECONDS)

    async def ready(self) -> None:
        """Wait until a list can be answered."""
        assert self._first is not None, "the gateway is open"
        if not self._first.done():
            await asyncio.shield(self._first)

    def start_silent(self) -> None:
        """Start the extensions that start at first use, if their tools are unknown."""
        loop = asyncio.get_running_loop()
        for extension in self._host.extensions:
            is_untold = extension.state == "admitted" and extension.is_silent
            if is_untold and not extension.starts_eagerly:
                task = loop.create_task(_start(extension))
                self._starting.add(task)
                task.add_done_callback(self._starting.discard)

    async def close(self) -> None:
        self._unsubscribe()
        tasks = [task for task in (self._opening, self._first) if task is not None]
        tasks += self._starting
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- the list ----------------------------------------------------------------------------

    def shown(self, version: str) -> list[dict[str, Any]]:
        """Return the tools as a client of this protocol version reads them."""
        if version not in self._by_version:
            offered = [tool for tool in self._host.tools.values() if not self._needs_task(tool)]
            own = [tool.tool for tool in offered]
            self._by_version[version] = [
                mcp_values.tool(
                    tool,
                    native=is_native(self._host[tool.extension]),
                    version=version,
                    plain_name=self._plain_names and own.count(tool.tool) == 1,
                )
                for tool in offered
            ]
        return self._by_version[version]

    def _needs_task(self, tool: RegisteredTool) -> bool:
        execution = tool.extra.get("execution")
        if not isinstance(execution, Mapping) or execution.get("taskSupport") != "required":
            return False
        if tool.name not in self._left_out:
            self._left_out.add(tool.name)
            _log.warning(
                "%s: the tool %s is not offered: it can only be called as a task, which the "
                "gateway does not support",
                tool.extension,
                tool.tool,
            )
        return True

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool's arguments, for HTTP headers that repeat some of them."""
        try:
            schema = self._host.registry.find(name).input_schema
        except NotFound:
            return None
        return schema if isinstance(schema, Mapping) else None

    # -- one tool ----------------------------------------------------------------------------

    async def find(self, name: str) -> RegisteredTool:
        """Return the tool of this name, waiting for its extension. Raises NotFound, or the error
        that keeps the extension from being ready."""
        known = self._host.registry.get(name)
        if known is not None:
            return known
        deadline = asyncio.get_running_loop().time() + UNKNOWN_NAME_SECONDS
        while True:
            change = self._next_change()
            if self._host.extensions or self._is_open:
                try:
                    return await self._host.find_tool(name)
                except NotFound:
                    if self._is_open or not self._plain_names:
                        raise
            seconds = deadline - asyncio.get_running_loop().time()
            if seconds <= 0:
                return await self._host.find_tool(name)
            assert self._opening is not None
            await asyncio.wait(
                [self._opening, change], timeout=seconds, return_when="FIRST_COMPLETED"
            )

    @property
    def _is_open(self) -> bool:
        return self._opening is not None and self._opening.done()

    def _next_change(self) -> "asyncio.Future[None]":
        if self._change is None or self._change.done():
            self._change = asyncio.get_running_loop().create_future()
        return self._change

    def _on_change(self, _: ToolsChanged) -> None:
        self._by_version.clear()
        if self._change is not None and not self._change.done():
            self._change.set_result(None)


async def _start(extension: Extension) -> None:
    try:
        await extension.start()
    except ExthostError as error:  # its calls will say so, too
        _log.warning("%s", error)
