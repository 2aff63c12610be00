"""Which of the `[[rules]]` of a config decides about a tool call.

    [[rules]]
    tools = "fs:*"
    when = { argument = { path = "/etc/*" } }
    do = "deny"     # or "allow", or "ask", which asks a person

The first rule that fits decides. No test here makes a call: the tool is `write` of the extension
`fs`, whose registered name is `ext_fs_write`.
"""

from typing import Any

import pytest

from exthost.config import config_from_mapping
from exthost.errors import ConfigError
from exthost.model.offer import Tool
from exthost.model.rules import CallRule, ToolTraits, find_rule


def traits(name: str = "write", dialect: str = "mcp", **hints: Any) -> ToolTraits:
    """Return what rules know of a tool. The hints are annotations of MCP, such as readOnlyHint."""
    tool = Tool(name, extra={"annotations": hints} if hints else {})
    return ToolTraits.of(tool, f"ext_fs_{name}", "fs", dialect)


def decide(
    rules: list[dict[str, Any]],
    arguments: Any = None,
    client: str | None = None,
    tool: ToolTraits | None = None,
) -> int | None:
    """Return the number of the rule, counted from 1, that decides about a call of fs:write."""
    parsed = config_from_mapping({"rules": rules}).rules
    rules_of_tool = parsed.for_tool(tool or traits())
    rule = find_rule(rules_of_tool, {} if arguments is None else arguments, client)
    return None if rule is None else rule.number


@pytest.mark.parametrize("pattern", ["ext_fs_write", "ext_fs_*", "fs:write", "fs:*", "*"])
def test_a_rule_fits_the_registered_name_or_extension_and_tool(pattern: str) -> None:
    assert decide([{"tools": pattern, "do": "deny"}]) == 1


@pytest.mark.parametrize("pattern", ["write", "ext_fs", "EXT_fs_*", "ext_other_*", "fs:writer"])
def test_other_names_do_not_fit(pattern: str) -> None:
    assert decide([{"tools": pattern, "do": "deny"}]) is None


def test_the_first_rule_that_fits_decides() -> None:
    rules: list[dict[str, Any]] = [
        {"tools": "other", "do": "deny"},
        {"tools": "ext_fs_*", "when": {"argument": {"path": "/tmp/*"}}, "do": "allow"},
        {"tools": "*", "do": "deny"},
        {"tools": "fs:write", "do": "allow"},
    ]
    assert decide(rules, {"path": "/tmp/x"}) == 2
    assert decide(rules, {"path": "/etc/x"}) == 3


def test_missing_annotations_count_as_mcp_s_defaults() -> None:
    """By default a tool is destructive, and not read-only. A hint that is not a bool is missing."""
    destructive: list[Any] = [{"tools": "*", "when": {"destructive": True}, "do": "ask"}]
    reading: list[Any] = [{"tools": "*", "when": {"read_only": True}, "do": "allow"}]
    assert decide(destructive) == 1 and decide(reading) is None
    reader = traits(readOnlyHint=True)
    assert decide(destructive, tool=reader) is None and decide(reading, tool=reader) == 1
    assert decide(destructive, tool=traits(destructiveHint=False)) is None
    for wrong in ("yes", 1, None):
        assert decide(reading, tool=traits(readOnlyHint=wrong)) is None
        assert decide(destructive, tool=traits(destructiveHint=wrong)) == 1
        reader = traits(readOnlyHint=True, destructiveHint=wrong)
        assert decide(destructive, tool=reader) is None


def test_dialect_and_client_must_fit() -> None:
    assert decide([{"tools": "*", "when": {"dialect": "nexo"}, "do": "deny"}]) is None
    rules = [{"tools": "*", "when": {"client": "claude-*"}, "do": "deny"}]
    assert decide(rules) is None and decide(rules, client="other") is None
    assert decide(rules, client="claude-code") == 1
    # Any client fits, even without a name; a call of the program itself has no client.
    any_client = [{"tools": "*", "when": {"client": "*"}, "do": "deny"}]
    assert decide(any_client, client="") == 1 and decide(any_client) is None


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("/etc/passwd", True),
        ("/srv/../etc/passwd", False),
        (["/tmp", "/etc/x"], True),
        ({"to": {"deep": ["/etc/x"]}}, True),
        ({"/etc/key": 1}, True),
        (["/tmp"], False),
        (3, False),
        (None, False),
    ],
)
def test_a_text_inside_a_list_or_table_fits_deny_and_ask_and_never_allow(
    value: Any, fits: bool
) -> None:
    """One permitted text in a list must not allow the other texts in it."""
    is_nested = isinstance(value, list | dict)
    for action in ("deny", "ask", "allow"):
        rules = [{"tools": "*", "when": {"argument": {"path": "/etc/*"}}, "do": action}]
        decides = fits and not (action == "allow" and is_nested)
        assert decide(rules, {"path": value}) == (1 if decides else None)


def test_an_argument_is_compared_as_the_text_of_its_json_value() -> None:
    for value, pattern in ((3, "3"), (True, "true"), (None, "null"), (1.5, "1.5"), ("3", "3")):
        rules = [{"tools": "*", "when": {"argument": {"n": pattern}}, "do": "allow"}]
        assert decide(rules, {"n": value}) == 1
    rules = [{"tools": "*", "when": {"argument": {"a": "*", "b": "*"}}, "do": "deny"}]
    assert decide(rules, {"a": 1}) is None, "a missing argument does not fit"
    assert decide(rules, {"a": 1, "b": 2}) == 1 and decide(rules, [1]) is None


def test_an_argument_with_too_many_values_fits_deny() -> None:
    """Not all of its values are compared, so one of them might be "x"."""
    rules = [{"tools": "*", "when": {"argument": {"a": "x"}}, "do": "deny"}]
    assert decide(rules, {"a": [0] * 200_000}) == 1


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ({"do": "deny"}, "no `tools`"),
        ({"tools": "*"}, "no `do`"),
        ({"tools": "*", "do": "dney"}, 'did you mean "deny"'),
        ({"tools": "*", "do": "deny", "when": {"args": {}}}, "unknown key"),
        ({"tools": "*", "do": "deny", "when": {"argument": {"a": 3}}}, "must be text"),
        ({"tools": "*" * 2000, "do": "deny"}, "1000 characters"),
        ({"tools": ["a"], "do": "deny"}, "must be text"),
        ("deny", "must be a table"),
    ],
)
def test_a_wrong_rule_is_an_error_of_the_config(rule: Any, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        config_from_mapping({"rules": [rule]})


def test_the_error_for_rules_as_one_table_says_to_write_two_brackets() -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_mapping({"rules": {"tools": "*", "do": "deny"}})
    assert "two brackets" in caught.value.help


def test_rules_after_an_unconditional_rule_are_ignored() -> None:
    parsed = config_from_mapping({"rules": [{"tools": "*", "do": "allow"}] * 3}).rules
    assert parsed.for_tool(traits()) == (CallRule(number=1, tools="*", action="allow"),)
