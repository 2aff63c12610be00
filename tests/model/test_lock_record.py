"""How an extension differs from its record in `exthost.lock`, and how a difference is reported.

The record has what the extension ran and offered when the user approved it: its command, digests of
its files, its permissions, and its tools with their descriptions. `compare_start` compares what is
known before the process starts, `compare_offer` what the process announces, and `judge_tools` its
tools: a tool that differs is quarantined, which means that it is neither listed nor called.

A `Severity` says how much a change matters; with it, reports are sorted.
"""

from dataclasses import replace
from typing import Any, Literal

import pytest

from exthost.model.lock_record import (
    _VALUES,
    LockChange,
    LockRecord,
    Severity,
    compare_offer,
    compare_start,
    judge_tools,
    record_tool,
)
from exthost.model.offer import Offer, Tool

Kind = Literal["new", "gone", "changed"]


def make_record(name: str, value: Any) -> LockRecord:
    return replace(LockRecord(), **{name: value})


# `command` is a tuple, unlike the other values.
@pytest.mark.parametrize("name", [name for name in _VALUES if name != "command"])
@pytest.mark.parametrize(
    ("before", "after", "kind"), [("a", "b", "changed"), ("", "b", "new"), ("a", "", "gone")]
)
def test_each_value_is_compared_before_a_start(
    name: str, before: str, after: str, kind: Kind
) -> None:
    locked, now = make_record(name, before), make_record(name, after)
    expected = LockChange(_VALUES[name], (name,), kind, before, after)
    assert compare_start(locked, now, "linux") == [expected]
    assert compare_start(locked, locked, "linux") == []


def test_the_command_of_a_new_extension_is_new() -> None:
    now = make_record("command", ("python3", "main.py"))
    (change,) = compare_start(LockRecord(), now, "linux")
    assert (change.key, change.kind, change.before) == ("command", "new", "")


@pytest.mark.parametrize(("before", "after"), [("", "sha256:b"), ("sha256:a", "")])
def test_a_digest_of_the_registry_may_be_unknown_if_the_files_are_the_same(
    before: str, after: str
) -> None:
    """`integrity` is the digest that a registry such as PyPI reports; it may be unreachable."""
    package = LockRecord(registry="pypi:toy@1", program="sha256:f")
    locked, now = replace(package, integrity=before), replace(package, integrity=after)
    assert compare_start(locked, now, "linux") == []
    old_digest = replace(package, integrity="sha256:a")
    new_digest = replace(package, integrity="sha256:c")
    assert compare_start(old_digest, new_digest, "linux") != []
    other_files = replace(now, program="sha256:g")
    keys = [change.key for change in compare_start(locked, other_files, "linux")]
    assert set(keys) == {"program", "integrity"}


@pytest.mark.parametrize(
    ("before", "after", "kind"), [("a", "b", "changed"), ("", "b", "new"), ("a", "", "gone")]
)
def test_compiled_files_of_one_platform_are_compared(before: str, after: str, kind: Kind) -> None:
    locked = LockRecord(compiled={"linux": before, "other": "x"})
    now = LockRecord(compiled={"linux": after, "other": "y"})
    expected = LockChange(Severity.PROGRAM, ("compiled", "linux"), kind, before, after)
    assert compare_start(locked, now, "linux") == [expected]


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("permissions", Severity.PERMISSION),
        ("variables", Severity.VARIABLE),
        ("limits", Severity.LESS),
    ],
)
def test_new_items_matter_more_than_removed_items(name: str, severity: Severity) -> None:
    locked, now = make_record(name, ("a",)), make_record(name, ("b",))
    assert compare_start(locked, now, "linux") == sorted(
        [
            LockChange(severity, (name,), "new", "", "b"),
            LockChange(Severity.LESS, (name,), "gone", "a"),
        ]
    )


@pytest.mark.parametrize(
    ("before", "after", "kind"), [("a", "b", "changed"), ("", "b", "new"), ("a", "", "gone")]
)
def test_instructions_are_compared_after_the_handshake(before: str, after: str, kind: Kind) -> None:
    offer = Offer(extra={"instructions": after})
    expected = LockChange(Severity.DESCRIPTION, ("instructions",), kind, before, after)
    assert compare_offer(LockRecord(instructions=before), offer) == [expected]
    assert compare_offer(LockRecord(instructions=after), offer) == []


@pytest.mark.parametrize(
    ("changed_tool", "part", "kind"),
    [
        (Tool("get", "other", extra={"a": 1}), "description", "changed"),
        (Tool("get", "", extra={"a": 1}), "description", "gone"),
        (Tool("get", "Gets.", {"type": "object"}, extra={"a": 1}), "schema", "changed"),
        (Tool("get", "Gets.", extra={"a": 2}), "annotations", "changed"),
        (Tool("get", "Gets."), "annotations", "gone"),
    ],
)
def test_a_tool_that_differs_from_its_record_is_quarantined(
    changed_tool: Tool, part: str, kind: Kind
) -> None:
    tool = Tool("get", "Gets.", extra={"a": 1})
    locked = LockRecord(tools={"get": record_tool(tool)})
    assert judge_tools(locked, [tool]) == ((tool,), {})
    allowed, quarantined = judge_tools(locked, [changed_tool])
    (change,) = quarantined["get"].changes
    assert allowed == () and change.path == ("tools", "get", part) and change.kind == kind
    # Of two tools with the same name, a different one quarantines both.
    assert judge_tools(locked, [tool, changed_tool])[0] == ()


@pytest.mark.parametrize(
    ("declared", "is_allowed"),
    [
        (Tool("get", input_schema={}), True),
        (Tool("get", "Gets.", {"type": "object"}, extra={"a": 1}), True),
        (Tool("get", "other", {"type": "object"}), False),
        (Tool("get", "Gets.", {"type": "array"}), False),
        (Tool("get", extra={"a": 2}), False),
        (Tool("put", input_schema={}), False),
    ],
)
def test_parts_that_a_manifest_leaves_out_do_not_quarantine_a_tool(
    declared: Tool, is_allowed: bool
) -> None:
    tool = Tool("get", "Gets.", {"type": "object"}, extra={"a": 1})
    locked = LockRecord(tools={"get": record_tool(tool)})
    allowed, quarantined = judge_tools(locked, [declared], is_manifest=True)
    assert bool(allowed) is is_allowed and bool(quarantined) is not is_allowed


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            LockChange(Severity.PROGRAM, ("program",), "changed", "a", "b"),
            "program has changed: locked 'a', now 'b'",
        ),
        (
            LockChange(Severity.PROGRAM, ("package",), "changed", "a", "b", "x.py"),
            "package has changed: x.py",
        ),
        (
            LockChange(Severity.DESCRIPTION, ("tools", "get", "description"), "changed", "a", "b"),
            "tools.get.description has changed",
        ),
        (
            LockChange(Severity.PERMISSION, ("permissions",), "new", "", "network"),
            "permissions: network is new",
        ),
        (
            LockChange(Severity.LESS, ("permissions",), "gone", "network"),
            "permissions: network is gone",
        ),
        (LockChange(Severity.PROGRAM, ("program",), "new"), "program is new"),
        (LockChange(Severity.NEW_TOOL, ("tools", "get"), "new", "", "Gets."), "tools.get is new"),
    ],
)
def test_a_change_is_reported_without_texts_of_the_extension(change: LockChange, text: str) -> None:
    """A model may read the report, so it must not contain the description of a tool."""
    assert str(change) == text
