"""Applies the rules of the config to tool calls, and asks a person if a rule requests that.

An answer counts for one call: for its caller, its tool and the digest of its arguments. If the
arguments have changed when the answer comes, the call is refused. Without an answer in time, or
without anybody to ask, it is refused as well.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from exthost.errors import ExthostError, Refused
from exthost.events import Bus, RuleApplied
from exthost.extension.caller import CLIENT
from exthost.extension.confirmation import Confirm, Confirmation
from exthost.extension.tool_interceptor import InterceptedCalls, ToolOptions
from exthost.host.person import ask_person
from exthost.model.offer import Tool
from exthost.model.rules import NO_RULES, CallRule, Rules, ToolTraits, find_rule
from exthost.wire import jsontext

# How long a person has to answer if the caller sets no timeout. A person reads the arguments first.
ANSWER_SECONDS = 120.0


Judge: TypeAlias = Callable[[Any, Mapping[str, Any]], bool]
"""Returns whether a call with these arguments and this context may be made without further
questions, and publishes the rule that allows it."""


def allow_every_call(arguments: Any, context: Mapping[str, Any]) -> bool:
    """The judge of tools that no rule is about."""
    return True


class RuledCalls:
    """The rules of one host. `confirm` is the host's function that asks a person, or None."""

    def __init__(self, rules: Rules, confirm: Confirm | None, bus: Bus) -> None:
        self._rules = rules
        self.are_set = bool(rules)
        self.confirm = confirm
        self._bus = bus
        # The rules that may decide about each tool, by extension and own name, with the tool for
        # which they were found.
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
        known = self._by_tool.get(key)
        if known is not None and known[0] is tool:
            return known[1]
        name = calls.registered_name(tool.name)
        traits = ToolTraits.of(tool, name, calls.extension, calls.dialect_name)
        rules = self._rules.for_tool(traits)
        self._by_tool[key] = tool, rules
        return rules

    def make_judge(self, rules: tuple[CallRule, ...], calls: InterceptedCalls, tool: str) -> Judge:
        """Return a function that judges calls of a tool by these rules. It returns False if a rule
        denies or asks, which `decide` finds again: this function is for the common case alone."""
        if not rules:
            return allow_every_call
        listeners, get_client = self._bus.listeners, CLIENT.get
        about = calls.extension, calls.registered_name(tool)

        def judge(arguments: Any, context: Mapping[str, Any]) -> bool:
            client = get_client()
            for rule in rules:
                if rule.fits_call(arguments, client):
                    if rule.action != "allow":
                        return False
                    if RuleApplied in listeners:
                        number, reason = rule.number, rule.reason
                        event = RuleApplied(*about, number, "allowed", reason, client, context)
                        self._bus.publish(event)
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
        """Return the rule because of which a person must be asked about a call; None if it may be
        made. Raises Refused if a rule denies it."""
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
                f"{name} was not called: a person did not agree, whom rule {rule.number} of the "
                f"config asks{_because(rule)}",
                extension=calls.extension,
            )
        if digest_arguments(arguments) != digest:
            raise Refused(
                "X1843",
                f"{name} was not called: its arguments have changed since a person agreed",
                extension=calls.extension,
                help="do not change the arguments of a call while it is in progress",
            )

    async def _ask(self, confirmation: Confirmation, options: ToolOptions) -> bool:
        seconds = ANSWER_SECONDS if options.timeout is None else options.timeout
        try:
            async with asyncio.timeout(seconds):
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
        if RuleApplied in self._bus.listeners:
            name = calls.registered_name(tool)
            about = (calls.extension, name, rule.number, outcome, rule.reason)
            self._bus.publish(RuleApplied(*about, CLIENT.get(), options.context))


def _because(rule: CallRule) -> str:
    return f": {rule.reason}" if rule.reason else ""


def digest_arguments(arguments: Any) -> str:
    """Return a digest of the arguments of a call, which does not depend on the order of keys.
    Raises Refused for arguments that are nested too deep."""
    try:
        return hashlib.sha256(jsontext.encode(_sorted(arguments))).hexdigest()
    except RecursionError:
        raise Refused("X1843", "the arguments are nested too deep to be judged") from None


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _sorted(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value
