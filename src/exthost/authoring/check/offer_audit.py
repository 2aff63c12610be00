"""Checks the tools that an extension announces in its handshake (its offer): their names,
descriptions and schemas. `exthost check`, a command for authors of extensions, reports each
`Problem` as a finding of a rule, such as `tool-names`. Does no I/O.

    {"name": "get weather", "description": ""}    breaks `tool-names` (a space) and `tools`
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from exthost.dialects.conformance import OfferWarning, Problem
from exthost.model.offer import Offer, Tool
from exthost.model.schema import Checker, schema_problem

# Capabilities that announce nothing by themselves: an extension may have `tools`, but no tool.
_EMPTY_LABELS = frozenset({"logging", "tools"})

# A name that every host accepts. Hosts replace the characters that the APIs of models do not allow.
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")

# The warnings that the dialects give for a tool whose name cannot be used, by a part of their text.
_NAME_WARNINGS = (
    OfferWarning(" has no name and is ignored", "tool-names", "give each tool a name, as text"),
    OfferWarning(" twice; the first is used", "tool-names"),
)

# A part of the line that the SDK writes to stderr for a handler that the dialect cannot announce.
_NOT_OFFERED = "so not offered: "


def audit_offer(offer: Offer, known_warnings: Sequence[OfferWarning] = ()) -> list[Problem]:
    """Return the problems of an offer: the tools, hooks and capabilities that an extension
    announced. `known_warnings` are the warnings that do not concern the tools."""
    problems = []
    for warning in offer.warnings:
        known = (kind for kind in (*known_warnings, *_NAME_WARNINGS) if kind.text in warning)
        _, rule, fix = next(known, OfferWarning("", "tools"))
        if rule:  # "" if another check reports the same mistake
            problems.append(Problem(rule, warning, fix=fix))
    for tool in offer.tools:
        if not _NAME.fullmatch(tool.name):
            problems.append(Problem("tool-names", f"{tool.name!r} is not a name for a tool"))
        if not tool.description.strip():
            problems.append(Problem("tools", f"{tool.name} has no description"))
        problems += _input_problems(tool)
        if tool.output_schema is not None:
            problems += _schema_problems("output-schema", tool.name, tool.output_schema)
    return problems


def audit_emptiness(offer: Offer, fix: str = "") -> list[Problem]:
    """Return one problem if the offer is empty, else an empty list. `fix` is how to fix it; "" for
    the fix that the rule suggests."""
    labels = {*offer.capabilities} - _EMPTY_LABELS
    if offer.tools or offer.hooks or offer.details or labels:
        return []
    return [Problem("offer", "it offers nothing: no tools, and nothing else", fix=fix)]


def audit_declared_tools(declared: Iterable[Tool], offer: Offer) -> list[Problem]:
    """Return a problem for tools that only the manifest names, and one for tools that only the
    handshake names."""
    in_manifest = {tool.name for tool in declared}
    in_handshake = {tool.name for tool in offer.tools}
    differences = (
        ("its manifest and not in its handshake", in_manifest - in_handshake),
        ("its handshake and not in its manifest", in_handshake - in_manifest),
    )
    return [
        Problem("tools", f"tools in {place}: {', '.join(sorted(names))}; write the manifest again")
        for place, names in differences
        if names
    ]


def audit_stderr(lines: Iterable[str]) -> list[Problem]:
    """Return a problem for each handler that the SDK, in the stderr of an extension, reports as not
    offered."""
    return [Problem("offer", line.strip()) for line in lines if _NOT_OFFERED in line]


def _input_problems(tool: Tool) -> list[Problem]:
    schema = tool.input_schema
    if schema is None or schema == {}:  # the tool takes any arguments
        return []
    problems = _schema_problems("input-schema", tool.name, schema)
    if not problems and isinstance(schema, Mapping) and schema.get("type") != "object":
        has = f"it is {schema['type']!r}" if "type" in schema else "there is none"
        reason = f'the schema of {tool.name} must have "type": "object", and {has}'
        problems.append(Problem("input-schema", reason))
    return problems


def _schema_problems(rule: str, name: str, schema: object) -> list[Problem]:
    if not isinstance(schema, Mapping):
        return [Problem(rule, f"the schema of {name} is not an object")]
    reason = schema_problem(schema)
    if reason:
        return [Problem(rule, f"the schema of {name} is invalid: {reason}")]
    checker = Checker.of(schema)  # None for a schema that accepts every value
    # A warning is about a valid schema that the host cannot use, for example since it is too large.
    if checker is not None and checker.warning:
        return [Problem(rule, f"{name}: {checker.warning}")]
    return []


def tool_with_required_arguments(offer: Offer) -> Tool | None:
    """Return a tool whose schema rejects a call without arguments; None if there is no such tool.
    `exthost check` calls it without arguments, to see whether the extension refuses the call.

    Only schemas with `required` count, because the finding says that the tool requires arguments.
    The schema is then also applied, because `required` may be an empty list.
    """
    for tool in offer.tools:
        schema = tool.input_schema
        if isinstance(schema, Mapping) and isinstance(schema.get("required"), list | tuple):
            checker = Checker.of(schema)
            if checker is not None and checker.problems({}):
                return tool
    return None


def describe_offer_change(first: Offer, second: Offer) -> str:
    """Return how the offer of a second start differs from that of the first; "" if it does not."""
    before = {tool.name for tool in first.tools}
    after = {tool.name for tool in second.tools}
    if before != after:
        removed, new = sorted(before - after), sorted(after - before)
        parts = [f"gone: {', '.join(removed)}"] if removed else []
        parts += [f"new: {', '.join(new)}"] if new else []
        return f"its tools changed ({'; '.join(parts)})"
    if first.name != second.name or first.version != second.version:
        return (
            f"it called itself {first.name} {first.version}, and now {second.name} {second.version}"
        )
    return ""
