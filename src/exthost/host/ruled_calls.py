"""Applies the rules of the config to tool calls, and asks a person if a rule requests that.

    [[rules]]
    tools = "ext_mail_*"
    action = "ask"              # or "allow", or "deny"
    reason = "it sends mail"

`model.rules` has the rules as values; `guarded_calls` applies them with this module.

A person's answer is for one call, with the arguments that the person was shown. If the caller
changes the arguments while the person is asked, the call is refused. It is also refused if the
person does not answer in time, or if there is no person to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from exthost.errors import ExthostError, Refused
from exthost.events import RuleApplied
from exthost.extension.confirmation import Confirmation
from exthost.model.rules import NO_RULES, ToolTraits, find_rule

if TYPE_CHECKING:
    from exthost.events import Bus
    from exthost.extension.confirmation import Confirm
    from exthost.extension.tool_interceptor import InterceptedCalls, ToolOptions
    from exthost.model.offer import Tool
    from exthost.model.rules import CallRule, Rules

# How long a person has to answer if the caller sets no timeout. A person reads the arguments first.
ANSWER_SECONDS = 120.0


Judge: TypeAlias = Callable[[Any, Mapping[str, Any]], bool]
"""A function that gets the arguments and the context of a call. It returns True if the call may be
made at once, and publishes the rule that allows the call, if there is one."""


def allow_every_call(arguments: Any, context: Mapping[str, Any]) -> bool:
    """The judge of tools to which no rule applies."""
    return True


class RuledCalls:
    """The rules of one host. `confirm` is the host's function that asks a person, or None."""

    def __init__(self, rules: Rules, confirm: Confirm | None, bus: Bus) -> None:
        self._rules = rules
        self.are_set = bool(rules)
        self.confirm = confirm
        self._bus = bus
        # The rules that may decide about each tool, by the id of its extension and its own name.
        # The tool is stored, too: after a handshake, another tool may have the same name.
        self._by_tool: dict[tuple[str, str], tuple[Tool, tuple[CallRule, ...]]] = {}

    def replace(self, rules: Rules) -> None:
        """Use these rules from now on."""
        self._rules = rules
        self.are_set = bool(rules)
        self._by_tool = {}

    def for_tool(self, calls: InterceptedCalls, tool: Tool) -> tuple[CallRule, ...]:
        """Return the rules that may decide about calls of this tool, in order."""
        if self._rules is NO_RULES:
            return ()
        key = calls.extension, tool.name
        known_tool, known_rules = self._by_tool.get(key, (None, ()))
        if known_tool is tool:
            return known_rules
        name = calls.registered_name(tool.name)
        traits = ToolTraits.of(tool, name, calls.extension, calls.dialect_name)
        rules = self._rules.for_tool(traits)
        self._by_tool[key] = tool, rules
        return rules

    def make_judge(self, rules: tuple[CallRule, ...], calls: InterceptedCalls, tool: str) -> Judge:
        """Return a function that judges calls of a tool by these rules. It is a fast way to find
        that a call is allowed. If it returns False, a rule denies the call or requests a person,
        and `decide` and `ask` are called."""
        if not rules:
            return allow_every_call
        from exthost.extension.caller import CLIENT

        listeners, get_client = self._bus.listeners, CLIENT.get
        extension, registered_name = calls.extension, calls.registered_name(tool)

        def judge(arguments: Any, context: Mapping[str, Any]) -> bool:
            client = get_client()
            for rule in rules:
                if rule.fits_call(arguments, client):
                    if rule.action != "allow":
                        return False
                    if RuleApplied in listeners:
                        self._bus.publish(
                            RuleApplied(
                                extension,
                                registered_name,
                                rule.number,
                                "allowed",
                                rule.reason,
                                client,
                                context,
                            )
                        )
                    return True
            return True

        return judge

    def decide(
        self,
        rules: tuple[CallRule, ...],
        calls: InterceptedCalls,
        tool: str,
        arguments: Any,
        options: ToolOptions,
    ) -> CallRule | None:
        """Apply the first rule that fits a call. Return the rule if it requests that a person is
        asked (see `ask`). Return None if the call may be made. Raises Refused if the rule denies
        it."""
        from exthost.extension.caller import CLIENT

        client = CLIENT.get()
        rule = find_rule(rules, arguments, client)
        if rule is None:
            return None
        if rule.action == "ask":
            return rule
        outcome = "allowed" if rule.action == "allow" else "denied"
        self._publish(rule, calls, tool, outcome, options)
        if rule.action == "allow":
            return None
        name = calls.registered_name(tool)
        raise Refused(
            "X1841",
            f"{name} was not called: rule {rule.number} of the config denies it{_because(rule)}",
            extension=calls.extension,
            help="the operator of the host can change [[rules]]; exthost rules test shows which "
            "rule fits a call",
        )

    async def ask(
        self,
        rule: CallRule,
        calls: InterceptedCalls,
        tool: str,
        arguments: Any,
        options: ToolOptions,
    ) -> None:
        """Ask a person about a call. Raises Refused unless the answer is yes."""
        name = calls.registered_name(tool)
        digest = digest_arguments(arguments)
        event = {
            "tool_name": name,
            "tool": tool,
            "extension_id": calls.extension,
            "context": options.context,
            "arguments": {} if arguments is None else arguments,
        }
        message = f"rule {rule.number} of the config: {rule.reason or 'may this call be made?'}"
        try:
            agreed = await self._ask(Confirmation("", message, "rules", event), options)
        except ExthostError as error:
            self._publish(rule, calls, tool, "unanswered", options)
            text = f"{name} was not called: rule {rule.number} of the config asks a person first"
            raise Refused(
                "X1842", f"{text}, and {error.message}", extension=calls.extension, help=error.help
            ) from None
        self._publish(rule, calls, tool, "agreed" if agreed else "declined", options)
        if not agreed:
            raise Refused(
                "X1842",
                f"{name} was not called: rule {rule.number} of the config asks a person, who did "
                f"not agree{_because(rule)}",
                extension=calls.extension,
            )
        if digest_arguments(arguments) != digest:
            raise Refused(
                "X1843",
                f"{name} was not called: its arguments have changed since a person was asked",
                extension=calls.extension,
                help="do not change the arguments of a call while it is in progress",
            )

    async def _ask(self, confirmation: Confirmation, options: ToolOptions) -> bool:
        """Return whether a person agrees. Raises ExthostError if no person answers in time."""
        seconds = ANSWER_SECONDS if options.timeout is None else options.timeout
        try:
            async with asyncio.timeout(seconds):
                from exthost.host.person import ask_person

                return await ask_person(confirmation, options.confirm, self.confirm)
        except TimeoutError:
            raise Refused(
                "X1842",
                f"no answer arrived within {seconds:g} s",
                help="answer sooner, or give the call more time: timeout=…, --timeout",
            ) from None

    def _publish(
        self, rule: CallRule, calls: InterceptedCalls, tool: str, outcome: str, options: ToolOptions
    ) -> None:
        """Publish what a rule decided about a call, for the audit."""
        if RuleApplied in self._bus.listeners:
            from exthost.extension.caller import CLIENT

            self._bus.publish(
                RuleApplied(
                    calls.extension,
                    calls.registered_name(tool),
                    rule.number,
                    outcome,
                    rule.reason,
                    CLIENT.get(),
                    options.context,
                )
            )


def _because(rule: CallRule) -> str:
    """Return the reason of a rule as the end of a message; "" if it gives none."""
    return f": {rule.reason}" if rule.reason else ""


def digest_arguments(arguments: Any) -> str:
    """Return a digest of the arguments of a call, which does not depend on the order of keys.
    Raises Refused for arguments that are nested too deep."""
    import hashlib

    from exthost.wire import jsontext

    try:
        return hashlib.sha256(jsontext.encode(_sorted(arguments))).hexdigest()
    except RecursionError:
        raise Refused("X1843", "the arguments are nested too deep to be judged") from None


def _sorted(value: Any) -> Any:
    """Return JSON data with the keys of each object in order."""
    if isinstance(value, Mapping):
        return {str(key): _sorted(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value
