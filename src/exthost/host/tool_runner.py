"""Implements `host.run_tool`: calls a tool by its name, with the hooks before and after it. Also
calls a tool for `host.call_tool`, if the tool has to be found first."""

from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any, Protocol

from exthost.dialects.meanings import OnProgress
from exthost.errors import CallFailed
from exthost.events import check_callback
from exthost.extension.extension import Extension
from exthost.extension.misuse import check_context
from exthost.extension.timeouts import require_time_left
from exthost.host.hooked_call import HookedCall
from exthost.host.hooks import Hooks
from exthost.host.tool_finder import ToolFinder
from exthost.offer import RegisteredTool
from exthost.tool_result import ToolResult, tool_error

__all__ = ["ToolRunner"]


class CallTool(Protocol):
    """`host.call_tool`."""

    def __call__(
        self,
        name: str,
        arguments: Any,
        *,
        timeout: float | None,
        context: Mapping[str, Any],
        on_progress: OnProgress | None,
        check: bool,
    ) -> Coroutine[Any, Any, ToolResult]: ...


class ToolRunner:
    """Finds and runs the tools of one host."""

    def __init__(
        self,
        finder: ToolFinder,
        hooks: Hooks,
        extensions: Mapping[str, Extension],
        call_tool: CallTool,
    ) -> None:
        self._finder = finder
        self._hooks = hooks
        self._extensions = extensions
        self._call_tool = call_tool

    async def find_and_call(
        self, name: str, arguments: Any, timeout: float | None, *options: Any
    ) -> ToolResult:
        """Find the tool, starting extensions if needed, and call it without hooks. The parameters
        are those of `host.call_tool`."""
        if timeout is not None:  # before an extension is started
            require_time_left("", name, timeout)
        tool = await self._finder.find(name)
        calls = self._extensions[tool.extension].calls
        return await calls.call_tool(tool.tool, arguments, timeout, *options)

    async def run(
        self,
        name: str,
        arguments: Any,
        timeout: float | None,
        context: Mapping[str, Any],
        on_progress: OnProgress | None,
        check: bool,
    ) -> ToolResult:
        """Find the tool, run the hooks and call it. With `check`, raise CallFailed if the tool
        failed; without it, return the result of the failure."""
        call = partial(self._call_tool, timeout=timeout, context=context, on_progress=on_progress)
        if not self._hooks.may_be_called():
            return await call(name, arguments, check=check)
        context = check_context(context)  # before the hooks run
        if on_progress is not None:
            check_callback(on_progress, "on_progress")
        if timeout is not None:
            require_time_left("", name, timeout)
        tool = await self._finder.find(name)
        call_found = partial(call, tool.name, check=False)
        try:
            result = await HookedCall(tool, self._hooks, context).run(arguments, call_found)
        except CallFailed as error:
            if check:
                raise
            notes = tuple(getattr(error, "__notes__", ()))
            return ToolResult.from_error_reply(error).with_warnings(notes)
        if check and result.is_error:
            tool_failed_error = self._tool_failed_error(result, tool)
            for warning in result.warnings:
                tool_failed_error.add_note(warning)
            raise tool_failed_error
        return result

    def _tool_failed_error(self, result: ToolResult, tool: RegisteredTool) -> CallFailed:
        extension = self._extensions.get(tool.extension)
        if extension is None:  # it was unloaded while a hook examined the result
            return tool_error(result, tool.tool, extension=tool.extension)
        return extension.calls.tool_error(result, tool.tool)
