"""The rules of an operator about tool calls: which calls are allowed, denied, or need a person.

    [[rules]]
    tools = "ext_files_*"
    arguments = { path = "/srv/*" }
    action = "allow"

    [[rules]]
    tools = "ext_files_*"
    destructive = true
    action = "ask"

The operator is the person who wrote the config of the host. The first rule that fits a call
decides; without one the call is allowed. All values are frozen, and patterns are compiled once. A
rule fits by the tool (its names, its dialect, its annotations), which is the same for every call of
the tool, and by the arguments and the client of one call.

The annotations are what the extension says about its own tool. If they are missing, MCP's defaults
count: the tool is not read-only, and it is destructive. An argument is compared as text, and never
as a file: `/srv/../etc` fits `/srv/*`, so rules are not a sandbox.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from exthost.model.patterns import compile_pattern

if TYPE_CHECKING:
    from exthost.model.offer import Tool

Action: TypeAlias = Literal["allow", "deny", "ask"]

# How many values of one argument are compared. A larger argument fits each `deny` and `ask`.
_MAX_VALUES = 100_000


class ToolTraits(NamedTuple):
    """The properties of a tool that rules compare. `name` is its registered name; `tool` its name
    in the extension `extension`."""

    name: str
    extension: str
    tool: str
    dialect: str
    read_only: bool
    destructive: bool

    @classmethod
    def of(cls, tool: Tool, name: str, extension: str, dialect: str) -> ToolTraits:
        """Return the traits of a tool. `tool` is what its extension announced."""
        annotations = tool.extra.get("annotations")
        hints = annotations if isinstance(annotations, Mapping) else {}
        # Only true and false count. Any other value is treated as if it were missing.
        read_only = hints.get("readOnlyHint") is True
        hint = hints.get("destructiveHint")
        destructive = hint if isinstance(hint, bool) else not read_only
        return cls(name, extension, tool.name, dialect, read_only, destructive)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRule:
    """One rule. `number` is its position in the config, from 1.

    tools        a pattern of registered names, or of `extension:tool`
    action       what happens to a call that the rule fits
    reason       why, for the caller and the audit; may be ""
    destructive, read_only, dialect  what the tool must be; None for any
    client       a pattern of names of the gateway's clients; None for every caller
    arguments    a pattern for each of these arguments, all of which must fit
    """

    number: int
    tools: str
    action: Action
    reason: str = ""
    destructive: bool | None = None
    read_only: bool | None = None
    dialect: str | None = None
    client: str | None = None
    arguments: tuple[tuple[str, str], ...] = ()

    @property
    def is_unconditional(self) -> bool:
        """Whether the rule fits every call of a tool that it fits."""
        return self.client is None and not self.arguments

    def fits_tool(self, tool: ToolTraits) -> bool:
        """Return whether the rule fits calls of this tool."""
        matches = compile_pattern(self.tools)
        return (
            bool(matches(tool.name) or matches(f"{tool.extension}:{tool.tool}"))
            and self.destructive in (None, tool.destructive)
            and self.read_only in (None, tool.read_only)
            and self.dialect in (None, tool.dialect)
        )

    def fits_call(self, arguments: Any, client: str | None) -> bool:
        """Return whether the rule fits a call of such a tool. `client` is the name of the gateway's
        client that makes the call; None if another caller does."""
        if self.client is not None and (client is None or not compile_pattern(self.client)(client)):
            return False
        # Not all(…), which takes longer; most rules have no or one argument, which is text.
        for name, pattern in self.arguments:
            if type(arguments) is dict and type(text := arguments.get(name)) is str:
                if not compile_pattern(pattern)(text):
                    return False
            elif not self._fits_argument(arguments, name, pattern):
                return False
        return True

    def _fits_argument(self, arguments: Any, name: str, pattern: str) -> bool:
        """Return whether an argument of any type fits. A list or object fits a rule that denies or
        asks if any value inside it does, and never fits a rule that allows."""
        if not isinstance(arguments, Mapping) or name not in arguments:
            return False
        matches, value = compile_pattern(pattern), arguments[name]
        if not isinstance(value, Mapping | list | tuple):
            return bool(matches(_as_text(value)))
        if self.action == "allow":  # one value that fits must not be enough to allow all of them
            return False
        # None stands for the values of a large argument that were not compared: they count as
        # fitting, to be safe.
        return any(text is None or matches(text) for text in _iter_texts(value))


def _as_text(value: Any) -> str:
    """Return a plain value as the text of its JSON, and text as it is."""
    from exthost.wire import jsontext

    return value if isinstance(value, str) else jsontext.encode(value).decode()


def _iter_texts(value: Any) -> Iterator[str | None]:
    """Yield each text and plain value inside a list or object, and the keys; None at the end if
    there are too many."""
    stack, values_left = [value], _MAX_VALUES
    while stack:
        if not values_left:
            yield None
            return
        values_left -= 1
        item = stack.pop()
        if isinstance(item, Mapping):
            yield from map(str, item)
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
        else:
            yield _as_text(item)


class Rules:
    """The rules of a config, in order. Immutable."""

    __slots__ = ("_rules",)

    def __init__(self, rules: tuple[CallRule, ...] = ()) -> None:
        self._rules = rules

    def __bool__(self) -> bool:
        return bool(self._rules)

    def __iter__(self) -> Iterator[CallRule]:
        return iter(self._rules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and self._rules == other._rules

    def __hash__(self) -> int:
        return hash(self._rules)

    def for_tool(self, tool: ToolTraits) -> tuple[CallRule, ...]:
        """Return the rules that may decide about a call of this tool, in order."""
        fitting = []
        for rule in self._rules:
            if rule.fits_tool(tool):
                fitting.append(rule)
                if rule.is_unconditional:
                    break
        return tuple(fitting)


def find_rule(rules: tuple[CallRule, ...], arguments: Any, client: str | None) -> CallRule | None:
    """Return the rule that decides about a call, of those for its tool; None if none fits."""
    for rule in rules:
        if rule.fits_call(arguments, client):
            return rule
    return None


NO_RULES = Rules()
