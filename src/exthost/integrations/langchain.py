"""Offers the tools of a host to agents of LangChain and LangGraph.

    agent = create_agent("openai:gpt-5-mini", tools(host))

A failed tool is a ToolMessage with the status "error". The content of a message has the texts and
images of the result; its artifact is the `ToolResult`. With `Host` and `exthost.attach`, use the
asynchronous methods (`ainvoke`); if they are cancelled, their calls are cancelled, too. With
`SyncHost`, both kinds work.
"""

from typing import Any, Unpack

from exthost.integrations.host_tools import (
    CallSettings,
    HostTool,
    HostTools,
    Media,
    Source,
    ToolOutcome,
    framework,
)
from exthost.tool_result import ToolResult

with framework("langchain"):
    from langchain_core.tools import StructuredTool, ToolException
    from pydantic import PrivateAttr

__all__ = ["tools"]


def tools(host: Source, **settings: Unpack[CallSettings]) -> list[StructuredTool]:
    """Return the tools that can be called now, of a host or of a selection of its tools. The
    settings are explained at `host_tools.CallSettings`."""
    host_tools = HostTools(host, **settings)

    def convert(listed: HostTool) -> StructuredTool:
        tool = _HostTool(
            name=listed.name,
            description=listed.description,
            args_schema=listed.schema,
            coroutine=host_tools.call,  # without one, `ainvoke` would use `_run` on a thread
            response_format="content_and_artifact",
            handle_tool_error=True,
            metadata={"extension": listed.registered.extension},
        )
        tool._tools = host_tools
        return tool

    return host_tools.converted(convert)


class _HostTool(StructuredTool):
    """A tool that overrides the two methods by which LangChain calls it, because those of the base
    class would take arguments named `config` or `run_manager` as their own."""

    _tools: HostTools = PrivateAttr()

    def _run(self, /, **arguments: Any) -> tuple[Any, ToolResult | None]:
        return _answer(self._tools.call_blocking(self.name, arguments))

    async def _arun(self, /, **arguments: Any) -> tuple[Any, ToolResult | None]:
        return _answer(await self._tools.call(self.name, arguments))


def _answer(outcome: ToolOutcome) -> tuple[Any, ToolResult | None]:
    """Return the content and the artifact of a message. Raises ToolException, which LangChain
    converts to a message with the status "error", if the tool failed."""
    if outcome.is_error:
        raise ToolException(outcome.text)
    if not outcome.has_media:
        return outcome.text, outcome.result
    return [
        {"type": _BLOCK_TYPES[part.kind], "base64": part.data, "mime_type": part.media_type}
        if isinstance(part, Media)
        else {"type": "text", "text": part}
        for part in outcome.parts
    ], outcome.result


_BLOCK_TYPES = {"image": "image", "audio": "audio", "document": "file"}
