"""Reads the section `[[rules]]`: which tool calls are allowed, denied, or need a person.

    [[rules]]
    tools = "ext_fs_*"
    when = { destructive = true }
    do = "ask"
    reason = "it changes files"

`RULE_KEYS` and `WHEN_KEYS` declare the keys, and `read_rules` returns the section as `Rules`. The
host applies them before each call (`host.ruled_calls`).
"""

from collections.abc import Mapping
from typing import Any

from exthost.model.documents.keys import (
    ANY_TEXT,
    FLAG,
    TEXT,
    Key,
    ValueType,
    one_of,
    table_type,
)
from exthost.model.documents.problems import WRONG_VALUE, Place
from exthost.model.documents.readers import describe_type, read_table, read_text, read_variables
from exthost.model.documents.setting_keys import check_pattern
from exthost.model.rules import CallRule, Rules

# No person writes more rules than this: they are a mistake of a program.
_MAX_RULES = 10_000


def _read_pattern(value: Any, place: Place) -> str | None:
    pattern = read_text(value, place)
    if pattern is not None:
        check_pattern(pattern, place)
    return pattern


def _read_argument_patterns(value: Any, place: Place) -> tuple[tuple[str, str], ...] | None:
    read = read_variables(value, place)
    for name, pattern in (read or {}).items():
        check_pattern(pattern, place.at(name))
    return None if read is None else tuple(read.items())


PATTERN = ValueType(_read_pattern, "pattern", {"type": "string", "pattern": r"\S"})

WHEN_KEYS: Mapping[str, Key] = {
    "destructive": Key(
        FLAG, "Whether the tool is destructive, by its own word (default: yes).", "true"
    ),
    "read_only": Key(FLAG, "Whether it only reads, by its own word (default: no).", "false"),
    "argument": Key(
        ValueType(
            _read_argument_patterns,
            "table of patterns",
            {"type": "object", "additionalProperties": {"type": "string"}},
        ),
        "Patterns of the texts of arguments; all of them must fit.",
        '{ path = "/etc/*" }',
    ),
    "dialect": Key(TEXT, "The dialect of the extension.", '"mcp"'),
    "client": Key(PATTERN, "The name that a client of the gateway has for itself.", '"claude-*"'),
}

RULE_KEYS: Mapping[str, Key] = {
    "tools": Key(
        PATTERN,
        "A pattern of the registered name, or of `extension:tool`.",
        '"ext_fs_*"',
        required=True,
    ),
    "when": Key(
        table_type(WHEN_KEYS),
        "What the call must be, for the rule to fit.",
        "{ destructive = true }",
        "(any call)",
    ),
    "do": Key(
        one_of("allow", "deny", "ask"),
        "What happens to the call: it is made, refused, or made if a person agrees.",
        '"ask"',
        required=True,
    ),
    "reason": Key(ANY_TEXT, "Why, for the caller and the audit.", '"it deletes files"', '""'),
}


def read_rules(value: Any, place: Place) -> Rules:
    """Read the section."""
    if not isinstance(value, list | tuple):
        help = "write [[rules]] with two brackets above the keys of each rule"
        text = f"must be a list of tables, not {describe_type(value)}"
        place.add_problem(WRONG_VALUE, text, help)
        return Rules()
    if len(value) > _MAX_RULES:
        place.add_problem(WRONG_VALUE, f"has {len(value)} rules, and {_MAX_RULES} are allowed")
        return Rules()
    rules = (_read_rule(item, place.at(i), i + 1) for i, item in enumerate(value))
    return Rules(tuple(rule for rule in rules if rule is not None))


def _read_rule(value: Any, place: Place, number: int) -> CallRule | None:
    """Return a rule; None if a required key is missing or wrong, which is then reported."""
    read = read_table(value, place, RULE_KEYS)
    # `read_table` reports wrong values and unknown keys, but not missing ones.
    for name, key in RULE_KEYS.items():
        if key.required and isinstance(value, Mapping) and name not in value:
            place.add_problem(
                WRONG_VALUE, f"the rule has no `{name}`", f"add {name} = {key.example}"
            )
    if read.get("tools") is None or read.get("do") is None:
        return None  # the problem is reported
    when = read.get("when") or {}
    return CallRule(
        number=number,
        tools=read["tools"],
        action=read["do"],
        reason=read.get("reason") or "",
        destructive=when.get("destructive"),
        read_only=when.get("read_only"),
        dialect=when.get("dialect"),
        client=when.get("client"),
        arguments=when.get("argument") or (),
    )
