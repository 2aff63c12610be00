"""The steps of a host around every tool call: rules, hooks, the call, and hooks again.

`Calls.call_tool` passes every tool call of the host here, from any caller, unless `is_idle` is
True: then there are no rules and no hook may be called, and a call costs what it costs without
them. `is_idle` is False whenever an extension has changed, until the next call has looked at the
hooks again. If there are rules and no hooks, the first call of a tool finds the rules that may
decide about it, and later calls that these rules do not stop are not passed here (`allows`).

Rules judge the arguments again after hooks have changed them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from exthost.errors import CallFailed
from exthost.events import HooksSkipped
from exthost.extension.misuse import check_context
from exthost.host.ruled_calls import allow_every_call, digest_arguments

if TYPE_CHECKING:
    from exthost.events import Bus
    from exthost.extension.tool_interceptor import InterceptedCalls, ToolOptions
    from exthost.host.hooks import Hooks
    from exthost.host.ruled_calls import Judge, RuledCalls
    from exthost.model.offer import Tool
    from exthost.tool_result import ToolResult


class GuardedCalls:
    """Runs the tool calls of one host. Implements `ToolInterceptor`."""

    def __init__(self, hooks: Hooks, rules: RuledCalls, bus: Bus) -> None:
        self._hooks = hooks
        self.rules = rules
        self._bus = bus
        self.is_idle = False
        self.is_stale = True
        self._has_hooks = True
        # How calls of single tools are judged while there are no hooks, by extension and identity
        # of the tool. The tool is kept, so that no other tool gets its identity.
        self._judges: dict[tuple[str, int], tuple[Judge, Tool]] = {}

    def mark_stale(self) -> None:
        """Look at the hooks again at the next call. Must be called when an extension has changed,
        was added or removed, and when the rules or the settings of hooks have changed."""
        self._hooks.index.mark_stale()
        self.is_idle, self.is_stale, self._judges = False, True, {}

    def refresh(self) -> None:
        """Set `is_idle` again after a change."""
        self._has_hooks = self._hooks.may_be_called()
        self.is_idle = not self._has_hooks and not self.rules.are_set
        self.is_stale = False

    def is_unjudged(self, extension: str, tool: Tool) -> bool:
        """Return whether it is known that nothing judges the calls of this tool."""
        known = self._judges.get((extension, id(tool)))
        return known is not None and known[0] is allow_every_call

    def allows(
        self, extension: str, tool: Tool, arguments: Any, context: Mapping[str, Any]
    ) -> bool:
        """Return whether a call of this tool is made directly; see `ToolInterceptor`."""
        known = self._judges.get((extension, id(tool)))
        return known is not None and known[0](arguments, context)

    async def run(
        self, calls: InterceptedCalls, name: str, arguments: Any, options: ToolOptions
    ) -> ToolResult:
        """Call a tool between its hooks. Raises Refused if a rule or a hook stops the call, or a
        hook could not judge it. A call that cannot be made raises before that."""
        if not options.hooks:
            return await self._run_without_hooks(calls, name, arguments, options)
        if self.is_stale:
            self.refresh()
        if self.is_idle:
            return await calls.call_directly(name, arguments, options)
        # With hooks, a call that cannot be made must raise before a hook gets the event.
        tool = calls.announced_tool(name) if not self._has_hooks else None
        if tool is None:
            await calls.prepare_to_call(name, options)
            tool = calls.tool(name)
        rules = self.rules.for_tool(calls, tool)
        if rules:
            rule = self.rules.decide(rules, calls, name, arguments, options)
            if rule is not None:
                await self.rules.ask(rule, calls, name, arguments, options)
        if not self._has_hooks:
            judge = self.rules.make_judge(rules, calls, name)
            self._judges[calls.extension, id(tool)] = judge, tool
            return await calls.call_directly(name, arguments, options)
        if rules:  # they have judged an empty object, so hooks and the tool get it, too
            arguments = {} if arguments is None else arguments
        context = check_context(options.context)
        registered_name = calls.registered_name(name)
        from exthost.host.hooked_call import HookedCall

        call = HookedCall(
            calls.extension, name, registered_name, self._hooks, context, options.confirm
        )
        direct = options._replace(check=False)
        judged = digest_arguments(arguments) if rules else ""

        async def call_changed(changed: Any) -> ToolResult:
            if rules and digest_arguments(changed) != judged:
                rule = self.rules.decide(rules, calls, name, changed, options)
                if rule is not None:
                    await self.rules.ask(rule, calls, name, changed, options)
            return await calls.call_directly(name, changed, direct)

        try:
            result = await call.run(arguments, call_changed)
        except CallFailed as error:
            if options.check:
                raise
            notes = tuple(getattr(error, "__notes__", ()))
            from exthost.tool_result import ToolResult

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
