"""A tool call between its hooks: `before_tool_call` may change the arguments or stop the call,
`after_tool_call` may change the result and sees failures as well."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from exthost.errors import ExthostError, Refused
from exthost.host.hook_policy import HookFailure
from exthost.host.hooks import Hooks
from exthost.offer import RegisteredTool
from exthost.tool_result import ToolResult

__all__ = ["HookedCall"]

Call = Callable[[Any], Awaitable[ToolResult]]
"""Calls the tool with these arguments; a tool that fails is returned as a result."""


class HookedCall:
    """One call of one tool."""

    def __init__(self, tool: RegisteredTool, hooks: Hooks, context: Mapping[str, Any]) -> None:
        self._tool = tool
        self._hooks = hooks
        self._context = context
        self._passed_over: tuple[HookFailure, ...] = ()

    async def run(self, arguments: Any, call: Call) -> ToolResult:
        """Run the hooks and the call. Raises Refused if a hook stops it, and CallFailed for an
        error reply; a result that is marked as an error is returned."""
        if arguments is None:
            arguments = {}
        if self._hooks.may_be_called():
            arguments = await self._before(arguments)
        began = time.monotonic()
        try:
            result = await call(arguments)
            if result.error_reply is not None:
                raise result.error_reply
        except ExthostError as error:
            if self._hooks.may_be_called():
                failure = {"code": error.code, "message": error.message}
                await self._after(arguments, began, "error", failure)
            for passed in self._passed_over:
                error.add_note(f"passed over: {passed}")
            raise
        if self._hooks.may_be_called():
            raw = await self._after(arguments, began, "result", result.raw)
            if raw is not result.raw:
                result = result.with_raw(raw)
        if self._passed_over:
            result = result.with_warnings(tuple(map(str, self._passed_over)))
        return result

    async def _before(self, arguments: Any) -> Any:
        """Return the arguments that the hooks leave."""
        before = await self._hooks.run("before_tool_call", self._event(arguments))
        self._passed_over = before.passed_over
        if before.failure is not None:
            raise _unjudged(self._tool.name, before.failure)
        if before.stopped:
            stopper = before.aborted_by or before.decided_by
            reason = f": {before.reason}" if before.reason else ""
            name = self._tool.name
            raise Refused("X0332", f"{name} was stopped by {stopper}{reason}", extension=stopper)
        return before.event["arguments"]

    async def _after(self, arguments: Any, began: float, member: str, value: Any) -> Any:
        """Return the result, or the error, that the hooks leave."""
        event = {**self._event(arguments), "duration_ms": _milliseconds(began), member: value}
        after = await self._hooks.run("after_tool_call", event)
        self._passed_over += after.passed_over
        return after.event[member]

    def _event(self, arguments: Any) -> dict[str, Any]:
        return {
            "tool_name": self._tool.name,
            "tool": self._tool.tool,
            "extension_id": self._tool.extension,
            "context": self._context,
            "arguments": arguments,
        }


def _milliseconds(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _unjudged(name: str, failure: HookFailure) -> Refused:
    """Return the error of a call that was not sent because a hook failed."""
    id, hook, error = failure
    return Refused(
        "X0333",
        f"{name} was not called: {id} has to judge it first ({hook}), and could not: "
        f"{error.message}",
        extension=id,
        help=f'mend {id} and restart it; [overrides.{id}] hooks = {{ on_failure = "open" }} lets '
        "calls pass that it cannot judge",
        evidence=error.evidence,
    )
