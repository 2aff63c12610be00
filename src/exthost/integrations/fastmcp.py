"""Offers the tools of a host to a FastMCP server, as a provider.

    async with exthost.Host.from_config("exthost.toml") as host:
        server = FastMCP("server", providers=[ExthostProvider(host)])

Each request for the list of tools returns the tools that the host has at that moment. A failed tool
is a result that is marked as an error. Progress of a tool reaches the client. If the client cancels
a request, the call is cancelled, too.
"""

import asyncio
from collections.abc import Sequence
from contextvars import copy_context
from typing import Any, Unpack

from exthost.dialects.meanings import Progress
from exthost.integrations.host_tools import CallSettings, HostTool, HostTools, Source, framework

with framework("fastmcp"):
    from fastmcp.exceptions import ToolError
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.providers import Provider
    from fastmcp.tools import Tool, ToolResult
    from mcp.types import CallToolResult
    from pydantic import PrivateAttr

__all__ = ["ExthostProvider"]


class ExthostProvider(Provider):
    """The tools of a host, or a selection of them (`host.tools.select(…)`). The settings are
    explained at `host_tools.CallSettings`."""

    def __init__(self, host: Source, **settings: Unpack[CallSettings]) -> None:
        super().__init__()
        self._tools = HostTools(host, **settings)

    async def _list_tools(self) -> Sequence[Tool]:
        return self._tools.converted(self._convert)

    def _convert(self, tool: HostTool) -> Tool:
        host_tool = _HostTool(
            name=tool.name,
            description=tool.description,
            parameters=tool.schema,
            output_schema=tool.registered.output_schema,
            annotations=tool.registered.extra.get("annotations"),
        )
        host_tool._tools = self._tools
        return host_tool


class _HostTool(Tool):
    """One tool of a host in the form of FastMCP."""

    _tools: HostTools = PrivateAttr()

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        context, loop = get_context(), asyncio.get_running_loop()
        variables = copy_context()  # of the request: a report can only be sent in this context
        reports: set[asyncio.Task[None]] = set()

        def send(progress: Progress) -> None:
            report = context.report_progress(progress.progress, progress.total, progress.message)
            reports.add(loop.create_task(report, context=variables))

        def on_progress(progress: Progress) -> None:  # on the thread of the host's loop
            loop.call_soon_threadsafe(send, progress)

        outcome = await self._tools.call(self.name, arguments, on_progress=on_progress)
        await asyncio.sleep(0)  # lets `send` run for what was reported just before the result
        if reports:
            await asyncio.wait(reports)
        if outcome.is_error:
            raise ToolError(outcome.text)
        result = CallToolResult.model_validate(outcome.as_mcp())
        data = outcome.data if isinstance(outcome.data, dict) else None
        return ToolResult(content=result.content, structured_content=data)
