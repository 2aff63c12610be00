"""Offers the tools of a host to agents of the OpenAI Agents SDK, as function tools or as one MCP
server.

    Agent(name="agent", tools=tools(host))
    Agent(name="agent", mcp_servers=[ExthostMCPServer(host)])

`tools` returns the tools that the host has when it is called. `ExthostMCPServer` is asked for its
tools again in each turn of the agent. A failed tool is a result that begins with "Error: "; it does
not raise. If the run is cancelled, its calls are cancelled, too.
"""

from typing import Any, Unpack

from exthost.integrations.host_tools import CallSettings, HostTools, Media, Source, framework

with framework("openai-agents"):
    from agents import FunctionTool
    from agents.mcp import MCPServer
    from agents.tool import ToolOutputFileContent, ToolOutputImage, ToolOutputText
    from agents.tool_context import ToolContext
    from mcp.types import CallToolResult, GetPromptResult, ListPromptsResult, Tool

__all__ = ["ExthostMCPServer", "tools"]


def tools(host: Source, **settings: Unpack[CallSettings]) -> list[FunctionTool]:
    """Return the tools that can be called now, of a host or of a selection of its tools. The
    settings are explained at `host_tools.CallSettings`."""
    host_tools = HostTools(host, **settings)

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        name, id = context.tool_name, context.tool_call_id
        outcome = await host_tools.call_json(name, arguments, call_id=id)
        if not outcome.has_media or outcome.is_error:
            return outcome.marked_text
        return list(map(_output, outcome.parts))

    return host_tools.converted(
        lambda tool: FunctionTool(
            tool.name, tool.description, tool.schema, invoke, strict_json_schema=False
        )
    )


def _output(part: str | Media) -> Any:
    if isinstance(part, str):
        return ToolOutputText(text=part)
    if part.kind == "image":
        return ToolOutputImage(image_url=part.url)
    return ToolOutputFileContent(file_data=part.url, filename=part.file_name)


class ExthostMCPServer(MCPServer):
    """The tools of a host, or a selection of them. The program opens and closes the host. `name` is
    the server's name in traces; the settings are explained at `host_tools.CallSettings`."""

    name = "exthost"

    def __init__(self, host: Source, *, name: str = name, **settings: Unpack[CallSettings]) -> None:
        super().__init__()
        self._tools = HostTools(host, **settings)
        self.name = name

    # The host is open already, and the program closes it.
    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Tool]:
        return self._tools.converted(lambda tool: Tool.model_validate(tool.as_mcp()))

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        outcome = await self._tools.call(tool_name, arguments or {})
        return CallToolResult.model_validate(outcome.as_mcp())

    async def list_prompts(self) -> ListPromptsResult:
        return ListPromptsResult(prompts=[])

    async def get_prompt(self, name: str, arguments: Any = None) -> GetPromptResult:
        raise NotImplementedError("a host has no prompts")
