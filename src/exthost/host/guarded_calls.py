"""The steps of a host around every tool call: rules, hooks, the call, and hooks again.

Rules are lines of the config that allow or deny calls, or request that a person is asked. Hooks are
functions of extensions: `before_tool_call` may change or stop a call, `after_tool_call` may change
its result. `Calls.call_tool` passes the tool calls of the host here, from any caller. To save time,
it makes a call directly in two cases:

- `is_idle` is True: the host has neither rules nor hooks. Each change of an extension sets it to
  False, until the next call finds out if there are hooks now.
- The host has rules but no hooks, and the rules allow the call (`allows`). The first call of each
  tool is passed here, and finds the rules that may decide about the tool.

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
    from exthost.model.rules import CallRule
    from exthost.tool_result import ToolResult


class GuardedCalls:
    """Runs the tool calls of one host. Implements `ToolInterceptor`."""

    def __init__(self, hooks: Hooks, rules: RuledCalls, bus: Bus) -> None:
        self._hooks = hooks
        self.rules = rules
        self._bus = bus
        self.is_idle = False
        self.is_stale = True  # whether `is_idle` and `_has_hooks` must be determined again
        self._has_hooks = True
        # How calls of single tools are judged while there are no hooks, by the id of the extension
        # and `id(tool)`. The tool is kept alive here, so that no other tool gets the same id.
        self._judges: dict[tuple[str, int], tuple[Judge, Tool]] = {}

    def mark_stale(self) -> None:
        """Look at the hooks again at the next call. Must be called when an extension has changed,
        was added or removed, and when the rules or the settings of hooks have changed."""
        self._hooks.index.mark_stale()
        self.is_idle = False
        self.is_stale = True
        self._judges = {}

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
        """Judge a call by the rules, and make it with the hooks before and after it. Raises Refused
        if a rule or a hook stops the call, or if a hook could not judge it. A call that cannot be
        made at all, such as one of an unknown tool, raises before rules and hooks are used. `calls`
        makes the calls of the extension, and `name` is the tool's own name."""
        if not options.hooks:
            return await self._run_without_hooks(calls, name, arguments, options)
        if self.is_stale:
            self.refresh()
        if self.is_idle:
            return await calls.call_directly(name, arguments, options)
        # `prepare_to_call` raises if the call cannot be made: no hook must get an event for it.
        # Without hooks the call itself raises, so only a tool that is not known yet is prepared.
        tool = calls.announced_tool(name) if not self._has_hooks else None
        if tool is None:
            await calls.prepare_to_call(name, options)
            tool = calls.tool(name)
        rules = self.rules.for_tool(calls, tool)
        if rules:
            await self._apply_rules(rules, calls, name, arguments, options)
        if not self._has_hooks:
            judge = self.rules.make_judge(rules, calls, name)
            self._judges[calls.extension, id(tool)] = judge, tool
            return await calls.call_directly(name, arguments, options)
        if rules and arguments is None:
            # The rules judged no arguments as an empty object, so hooks and the tool get that, too.
            arguments = {}
        return await self._run_with_hooks(rules, calls, name, arguments, options)

    async def _apply_rules(
        self,
        rules: tuple[CallRule, ...],
        calls: InterceptedCalls,
        name: str,
        arguments: Any,
        options: ToolOptions,
    ) -> None:
        """Judge a call by the rules of its tool. Raises Refused if a rule denies it, or if a rule
        requests that a person is asked, and that person does not agree."""
        rule = self.rules.decide(rules, calls, name, arguments, options)
        if rule is not None:
            await self.rules.ask(rule, calls, name, arguments, options)

    async def _run_with_hooks(
        self,
        rules: tuple[CallRule, ...],
        calls: InterceptedCalls,
        name: str,
        arguments: Any,
        options: ToolOptions,
    ) -> ToolResult:
        """Make a call that the rules allow, with the hooks before and after it."""
        context = check_context(options.context)
        registered_name = calls.registered_name(name)
        from exthost.host.hooked_call import HookedCall

        call = HookedCall(
            calls.extension, name, registered_name, self._hooks, context, options.confirm
        )
        # Without `check` the result of a failed tool is returned, and the hooks get it. The
        # caller's own `check` is applied below, after the hooks.
        unchecked = options._replace(check=False)
        judged_digest = digest_arguments(arguments) if rules else ""

        async def call_with(changed: Any) -> ToolResult:
            """Call the tool with the arguments that the hooks return."""
            if rules and digest_arguments(changed) != judged_digest:
                await self._apply_rules(rules, calls, name, changed, options)
            return await calls.call_directly(name, changed, unchecked)

        try:
            result = await call.run(arguments, call_with)
        except CallFailed as error:
            if options.check:
                raise
            # The notes name the hooks that failed, and whose failure did not stop the call.
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
        """Make a call without rules and hooks, and publish that."""
        if HooksSkipped in self._bus.listeners:
            context = check_context(options.context)
            tool_name = calls.registered_name(name)
            self._bus.publish(HooksSkipped(calls.extension, tool_name, context))
        return await calls.call_directly(name, arguments, options)
