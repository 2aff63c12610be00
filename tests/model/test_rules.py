"""Rules of the config: which rule decides about a call."""

from typing import Any

import pytest

from exthost.config import config_from_mapping
from exthost.errors import ConfigError
from exthost.model.offer import Tool
from exthost.model.rules import CallRule, ToolTraits, find_rule


def traits(name: str = "write", dialect: str = "mcp", **hints: Any) -> ToolTraits:
    tool = Tool(name, extra={"annotations": hints} if hints else {})
    return ToolTraits.of(tool, f"ext_fs_{name}", "fs", dialect)


def decide(
    rules: list[dict[str, Any]],
    arguments: Any = None,
    client: str | None = None,
    tool: ToolTraits | None = None,
) -> int | None:
    """The number of the rule that decides about a call of fs:write."""
    parsed = config_from_mapping({"rules": rules}).rules
    rule = find_rule(
        parsed.for_tool(tool or traits()), {} if arguments is None else arguments, client
    )
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
    destructive: list[Any] = [{"tools": "*", "when": {"destructive": True}, "do": "ask"}]
    reading: list[Any] = [{"tools": "*", "when": {"read_only": True}, "do": "allow"}]
    assert decide(destructive) == 1 and decide(reading) is None
    reader = traits(readOnlyHint=True)
    assert decide(destructive, tool=reader) is None and decide(reading, tool=reader) == 1
    assert decide(destructive, tool=traits(destructiveHint=False)) is None
    for wrong in ("yes", 1, None):
        assert decide(reading, tool=traits(readOnlyHint=wrong)) is None
        assert decide(destructive, tool=traits(destructiveHint=wrong)) == 1


def test_dialect_and_client_must_fit() -> None:
    assert decide([{"tools": "*", "when": {"dialect": "nexo"}, "do": "deny"}]) is None
    rules = [{"tools": "*", "when": {"client": "claude-*"}, "do": "deny"}]
    assert decide(rules) is None and decide(rules, client="other") is None
    assert decide(rules, client="claude-code") == 1
    everyone = [{"tools": "*", "when": {"client": "*"}, "do": "deny"}]
    assert decide(everyone, client="") == 1 and decide(everyone) is None


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
def test_a_text_inside_an_argument_fits_deny_and_ask_and_never_allow(
    value: Any, fits: bool
) -> None:
    for action in ("deny", "ask", "allow"):
        rules = [{"tools": "*", "when": {"argument": {"path": "/etc/*"}}, "do": action}]
        nested = isinstance(value, list | dict)
        expected = 1 if fits and not (action == "allow" and nested) else None
        assert decide(rules, {"path": value}) == expected


def test_an_argument_is_compared_as_the_text_of_its_json_value() -> None:
    for value, pattern in ((3, "3"), (True, "true"), (None, "null"), (1.5, "1.5"), ("3", "3")):
        rules = [{"tools": "*", "when": {"argument": {"n": pattern}}, "do": "allow"}]
        assert decide(rules, {"n": value}) == 1
    rules = [{"tools": "*", "when": {"argument": {"a": "*", "b": "*"}}, "do": "deny"}]
    assert decide(rules, {"a": 1}) is None, "a missing argument does not fit"
    assert decide(rules, {"a": 1, "b": 2}) == 1 and decide(rules, [1]) is None


def test_an_argument_with_too_many_values_fits_deny() -> None:
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


def test_one_rule_without_brackets_says_how_to_write_it() -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_mapping({"rules": {"tools": "*", "do": "deny"}})
    assert "two brackets" in caught.value.help


def test_rules_after_an_unconditional_one_are_not_looked_at() -> None:
    parsed = config_from_mapping({"rules": [{"tools": "*", "do": "allow"}] * 3}).rules
    assert parsed.for_tool(traits()) == (CallRule(number=1, tools="*", action="allow"),)
