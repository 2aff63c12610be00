"""`ext.tools`: a mapping of an extension's tools by their own names, with a `call` that returns
failures instead of raising them.

The mapping is a live view of the tools that the extension offers now. `call` is for programs that
pass every outcome to a language model. It returns a failure of any kind (an error reply, a timeout,
a program that does not start, a malformed reply) as a result that is marked as an error. The result
has the format of the dialect (protocol). In dialects without such results, `call` raises
UsageError.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from exthost.dialects.base import Dialect
from exthost.errors import ExthostError, UsageError
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.offer import Tool
from exthost.tool_result import ToolResult


class Toolbox(Mapping[str, Tool]):
    """The tools of one extension."""

    __slots__ = ("_call_tool", "_dialect", "_tools")

    def __init__(
        self,
        dialect: Dialect,
        tools: Callable[[], Mapping[str, Tool]],
        call_tool: Callable[..., Awaitable[ToolResult]],
    ) -> None:
        self._dialect = dialect
        self._tools = tools
        self._call_tool = call_tool

    def __getitem__(self, name: str) -> Tool:
        return self._tools()[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tools()

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools())

    def __len__(self) -> int:
        return len(self._tools())

    def __repr__(self) -> str:
        return f"<Toolbox {', '.join(self)}>"

    async def call(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] = EMPTY_MAPPING,
    ) -> ToolResult:
        """Call a tool. Return a failure of the call as a result that is marked as an error. A
        cancellation is raised as usual. Raises UsageError in a dialect without such results (all
        but mcp and roder)."""
        make_error_result = self._dialect.error_result
        if make_error_result is None:
            raise UsageError(
                "X1341",
                f"the {self._dialect.name} dialect has no error results, which this call returns",
                help="use call_tool(), which raises an error",
            )
        try:
            result = await self._call_tool(
                name, arguments, timeout=timeout, context=context, check=False
            )
        except ExthostError as error:
            return ToolResult(make_error_result(error), self._dialect.result_reader)
        if result.error_reply is not None:
            return ToolResult(make_error_result(result.error_reply), self._dialect.result_reader)
        return result
