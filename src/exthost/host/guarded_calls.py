"""The steps of a host around every tool call: the hooks before it, the call, the hooks after it.

`Calls.call_tool` passes every tool call of the host here, whoever makes it, unless `is_idle` is
True: then no hook may be called, and a call costs what it costs without hooks. `is_idle` is False
whenever an extension has changed, until the next call has looked at the hooks again.
"""

from typing import Any

from exthost.errors import CallFailed
from exthost.events import Bus, HooksSkipped
from exthost.extension.misuse import check_context
from exthost.extension.tool_interceptor import InterceptedCalls, ToolOptions
from exthost.host.hooked_call import HookedCall
from exthost.host.hooks import Hooks
from exthost.tool_result import ToolResult


class GuardedCalls:
    """Runs the tool calls of one host. Implements `ToolInterceptor`."""

    def __init__(self, hooks: Hooks, bus: Bus) -> None:
        self._hooks = hooks
        self._bus = bus
        self.is_idle = False
        self.is_stale = True

    def mark_stale(self) -> None:
        """Look at the hooks again at the next call. Must be called when an extension has changed,
        was added or removed, and when the settings of hooks have changed."""
        self._hooks.index.mark_stale()
        self.is_idle, self.is_stale = False, True

    def refresh(self) -> None:
        """Set `is_idle` again after a change."""
        self.is_idle, self.is_stale = not self._hooks.may_be_called(), False

    async def run(
        self, calls: InterceptedCalls, name: str, arguments: Any, options: ToolOptions
    ) -> ToolResult:
        """Call a tool between its hooks. Raises Refused if a hook stops the call or could not judge
        it. A call that cannot be made raises before a hook is called."""
        if not options.hooks:
            return await self._run_without_hooks(calls, name, arguments, options)
        self.refresh()
        if self.is_idle:
            return await calls.call_directly(name, arguments, options)
        await calls.prepare_to_call(name, options)
        context = check_context(options.context)
        registered_name = calls.registered_name(name)
        call = HookedCall(
            calls.extension, name, registered_name, self._hooks, context, options.confirm
        )
        direct = options._replace(check=False)
        try:
            result = await call.run(
                arguments, lambda changed: calls.call_directly(name, changed, direct)
            )
        except CallFailed as error:
            if options.check:
                raise
            notes = tuple(getattr(error, "__notes__", ()))
            return ToolResult.from_error_reply(error).with_warnings(notes)
        if options.check and result.is_error:
            failed = calls.tool_error(result, name)
            for warning in result.warnings:
                failed.add_note(warning)
            raise failed
        return result

    async def _run_without_hooks(
        self, calls: InterceptedCalls, name: str, arguments: Any, options: ToolOptions
    ) -> ToolResult:
        if HooksSkipped in self._bus.listeners:
            context = check_context(options.context)
            tool_name = calls.registered_name(name)
            self._bus.publish(HooksSkipped(calls.extension, tool_name, context))
        return await calls.call_directly(name, arguments, options)
