"""Offers the tools of a host to agents of Pydantic AI, as a toolset.

    agent = Agent("openai:gpt-5-mini", toolsets=[ExthostToolset(host)])

A failed tool is a failed result, which the model sees; it does not raise. Images, sounds and PDF
files of a result are `BinaryContent`. If the run is cancelled, its calls are cancelled, too.
"""

from typing import Any, Unpack

from exthost.integrations.host_tools import CallSettings, HostTools, Media, Source, framework

with framework("pydantic-ai"):
    from pydantic_ai import BinaryContent, RunContext, ToolDefinition, exceptions
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema

__all__ = ["ExthostToolset"]

# The framework accepts any arguments, because the host checks them against the schema of the tool.
_ANY_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))

# The exception that reports a failure to the model without a retry. Older releases do not have it:
# then the text of the failure is an ordinary result.
_ToolFailed: type[Exception] | None = getattr(exceptions, "ToolFailed", None)


class ExthostToolset(AbstractToolset[Any]):
    """The tools of a host, or a selection of them (`host.tools.select(…)`).

    The parameters after the star are explained at `host_tools.CallSettings`; `id` identifies the
    toolset in the framework, and `max_retries` is how often a model may correct arguments that are
    not JSON.
    """

    def __init__(
        self,
        host: Source,
        *,
        id: str | None = None,
        max_retries: int = 1,
        **settings: Unpack[CallSettings],
    ) -> None:
        self._tools = HostTools(host, **settings)
        self._id = id
        self._max_retries = max_retries

    @property
    def id(self) -> str | None:
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name,
                    description=tool.description,
                    parameters_json_schema=tool.schema,
                    metadata={"extension": tool.registered.extension, **tool.registered.extra},
                ),
                max_retries=self._max_retries,
                args_validator=_ANY_OBJECT,
            )
            for tool in self._tools.listed()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        outcome = await self._tools.call(name, tool_args, call_id=ctx.tool_call_id or "")
        if outcome.is_error and _ToolFailed is not None:
            raise _ToolFailed(outcome.text)
        if not outcome.has_media:
            return outcome.value
        return [
            BinaryContent(part.content, media_type=part.media_type)
            if isinstance(part, Media)
            else part
            for part in outcome.parts
        ]
