"""The interface of the code that a host runs around every tool call of its extensions.

The interceptor of a host (`host/guarded_calls.py`) *judges* a call: it applies the rules of the
config, and runs hooks, which are functions of extensions that can refuse or change a call.

`Calls.call_tool` is the one way to call a tool: the host, its blocking form, the control socket,
the command line, the web page and the gateway all enter there. It passes the call to the
interceptor of the host, unless that has nothing to do (`is_idle`). An extension without a host has
`NO_INTERCEPTOR`.
"""

from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple, Protocol

from exthost.dialects.meanings import OnProgress
from exthost.errors import CallFailed
from exthost.extension.confirmation import Confirm
from exthost.model.offer import Tool
from exthost.tool_result import ToolResult


class ToolOptions(NamedTuple):
    """The parameters of a tool call besides its name and arguments; see `Host.call_tool`."""

    timeout: float | None
    context: Mapping[str, Any]
    wait: bool
    on_progress: OnProgress | None
    check: bool
    hooks: bool
    confirm: Confirm | None


class InterceptedCalls(Protocol):
    """The calls of one extension, as an interceptor uses them."""

    @property
    def extension(self) -> str:
        """The id of the extension."""

    @property
    def dialect_name(self) -> str:
        """The name of its dialect."""

    def registered_name(self, name: str) -> str:
        """Return the name under which a tool of the extension is registered."""

    def tool(self, name: str) -> Tool:
        """Return the tool of this name. Raises NotFound."""

    def announced_tool(self, name: str) -> Tool | None:
        """Return the tool of this name if it was called before and has not changed, else None."""

    async def prepare_to_call(self, name: str, options: ToolOptions) -> None:
        """Raise the error of a call that cannot be made: an unknown tool, a wrong option, or with
        `wait` False no process. Start the extension if only that makes its tools known."""

    def call_directly(
        self, name: str, arguments: Any, options: ToolOptions
    ) -> Coroutine[Any, Any, ToolResult]:
        """Call a tool without an interceptor."""

    def tool_error(self, result: ToolResult, name: str) -> CallFailed:
        """Return the error for a result of this tool that is marked as an error."""


class ToolInterceptor(Protocol):
    """Judges tool calls before they are made, and sees their results.

    While `is_idle` is True, nothing would judge a call, so a call is made directly. It is a plain
    attribute, since every call reads it, on any thread; the thread of the event loop sets it. It is
    False after each change of an extension, until `refresh` or the next call (`is_stale`). While it
    is False, `is_unjudged` and `allows` find the calls of single tools that are made directly.
    """

    @property
    def is_idle(self) -> bool: ...
    @property
    def is_stale(self) -> bool: ...

    def refresh(self) -> None:
        """Set `is_idle` again after a change. Only the thread of the event loop calls this."""

    def is_unjudged(self, extension: str, tool: Tool) -> bool:
        """Return whether it is known that nothing judges the calls of this tool. Any thread may
        call this."""

    def allows(
        self, extension: str, tool: Tool, arguments: Any, context: Mapping[str, Any]
    ) -> bool:
        """Return whether a call of this tool is made directly: nothing judges it, or it was judged
        and recorded now. If False, `run` judges it. Only the thread of the event loop calls this.
        """

    def run(
        self, calls: InterceptedCalls, name: str, arguments: Any, options: ToolOptions
    ) -> Coroutine[Any, Any, ToolResult]:
        """Make the call, with everything that belongs before and after it."""


class _NoInterceptor:
    is_idle = True
    is_stale = False

    def refresh(self) -> None:
        pass

    def is_unjudged(self, extension: str, tool: Tool) -> bool:
        return True

    def allows(
        self, extension: str, tool: Tool, arguments: Any, context: Mapping[str, Any]
    ) -> bool:
        return True

    def run(
        self, calls: InterceptedCalls, name: str, arguments: Any, options: ToolOptions
    ) -> Coroutine[Any, Any, ToolResult]:
        return calls.call_directly(name, arguments, options)


NO_INTERCEPTOR: ToolInterceptor = _NoInterceptor()
