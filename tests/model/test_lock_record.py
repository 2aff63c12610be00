"""How an extension differs from its record in `exthost.lock`, and how a difference is reported.

The record has what the extension ran and offered when the user approved it: its command, digests of
its files, its permissions, and its tools with their descriptions. `compare_start` compares what is
known before the process starts, `compare_offer` what the process announces, and `judge_tools` its
tools: a tool that differs is quarantined, which means that it is neither listed nor called.

A `Severity` says how much a change matters; with it, reports are sorted.
"""

from dataclasses import fields, replace
from typing import Any, Literal

import pytest

from exthost.model.lock_record import (
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


# The fields of a record that are texts and are compared before a start, with the severity of their
# changes.
TEXTS = {
    "dialect": Severity.PROGRAM,
    "source": Severity.PROGRAM,
    "folder": Severity.PROGRAM,
    "interpreter": Severity.PROGRAM,
    "program": Severity.PROGRAM,
    "package": Severity.PROGRAM,
    "manifest": Severity.PROGRAM,
    "registry": Severity.PROGRAM,
    "integrity": Severity.PROGRAM,
    "unknown_code": Severity.PROGRAM,
    "sandbox": Severity.PERMISSION,
    "env_policy": Severity.VARIABLE,
}
# The other fields: those that are not texts, and what is compared after the handshake.
OTHER_FIELDS = {"command", "compiled", "permissions", "variables", "limits"}
OFFER_FIELDS = {"hooks", "capabilities", "instructions", "tools"}


def test_every_field_of_a_record_is_tested_here() -> None:
    names = {field.name for field in fields(LockRecord)}
    assert names == TEXTS.keys() | OTHER_FIELDS | OFFER_FIELDS


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    ("before", "after", "kind"), [("a", "b", "changed"), ("", "b", "new"), ("a", "", "gone")]
)
def test_each_text_is_compared_before_a_start(
    name: str, before: str, after: str, kind: Kind
) -> None:
    locked, now = make_record(name, before), make_record(name, after)
    expected = LockChange(TEXTS[name], (name,), kind, before, after)
    assert compare_start(locked, now, "linux") == [expected]
    assert compare_start(locked, locked, "linux") == []


@pytest.mark.parametrize(
    ("before", "after", "kind", "texts"),
    [
        ((), ("sh", "a"), "new", ("", '["sh", "a"]')),
        (("sh", "a"), (), "gone", ('["sh", "a"]', "")),
        (("sh", "a"), ("sh", "b"), "changed", ('["sh", "a"]', '["sh", "b"]')),
    ],
)
def test_a_change_of_the_command_is_reported_as_lists(
    before: tuple[str, ...], after: tuple[str, ...], kind: Kind, texts: tuple[str, str]
) -> None:
    locked, now = make_record("command", before), make_record("command", after)
    expected = LockChange(Severity.PROGRAM, ("command",), kind, *texts)
    assert compare_start(locked, now, "linux") == [expected]


@pytest.mark.parametrize(("before", "after"), [("", "sha256:b"), ("sha256:a", "")])
def test_a_digest_of_the_registry_may_be_unknown_if_the_files_are_the_same(
    before: str, after: str
) -> None:
    """`integrity` is the digest that a registry such as PyPI reports; it may be unreachable."""
    package = LockRecord(registry="pypi:toy@1", program="sha256:f")
    locked, now = replace(package, integrity=before), replace(package, integrity=after)
    assert compare_start(locked, now, "linux") == []
    # If the files differ too, the unknown digest is a change.
    with_other_files = replace(now, program="sha256:g")
    changes = compare_start(locked, with_other_files, "linux")
    assert {change.key for change in changes} == {"program", "integrity"}


def test_another_digest_of_the_registry_is_a_change_also_if_the_files_are_the_same() -> None:
    package = LockRecord(registry="pypi:toy@1", program="sha256:f")
    locked, now = replace(package, integrity="sha256:a"), replace(package, integrity="sha256:b")
    (change,) = compare_start(locked, now, "linux")
    assert (change.key, change.kind) == ("integrity", "changed")


@pytest.mark.parametrize(
    ("before", "after", "kind"), [("a", "b", "changed"), ("", "b", "new"), ("a", "", "gone")]
)
def test_only_the_compiled_files_of_this_platform_are_compared(
    before: str, after: str, kind: Kind
) -> None:
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
def test_a_new_item_has_the_severity_of_its_list_and_a_removed_one_the_lowest(
    name: str, severity: Severity
) -> None:
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


@pytest.mark.parametrize("name", ["hooks", "capabilities"])
def test_hooks_and_capabilities_are_compared_after_the_handshake(name: str) -> None:
    offered: dict[str, Any] = {name: ("c", "b")}
    locked, offer = make_record(name, ("a", "b")), Offer(**offered)
    new = LockChange(Severity.LESS, (name,), "new", "", "c")
    gone = LockChange(Severity.LESS, (name,), "gone", "a")
    assert compare_offer(locked, offer) == [gone, new]


@pytest.mark.parametrize(
    ("changed_tool", "part", "kind"),
    [
        (Tool("get", "other", extra={"a": 1}), "description", "changed"),
        (Tool("get", "", extra={"a": 1}), "description", "gone"),
        (Tool("get", "Gets.", {"type": "object"}, extra={"a": 1}), "schema", "changed"),
        # A record calls the other fields of a tool its annotations.
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


# A tool with every part, of which a manifest may leave out some.
GET = Tool("get", "Gets.", {"type": "object"}, extra={"a": 1})


@pytest.mark.parametrize(
    "declared",
    [
        Tool("get"),
        Tool("get", input_schema={}),
        Tool("get", "Gets."),
        GET,
    ],
)
def test_a_manifest_may_leave_out_parts_of_a_tool(declared: Tool) -> None:
    locked = LockRecord(tools={"get": record_tool(GET)})
    assert judge_tools(locked, [declared], is_manifest=True) == ((declared,), {})


@pytest.mark.parametrize(
    ("declared", "different_key"),
    [
        (Tool("get", "other", {"type": "object"}), "tools.get.description"),
        (Tool("get", "Gets.", {"type": "array"}), "tools.get.schema"),
        (Tool("get", input_schema={}, extra={"a": 2}), "tools.get.annotations"),
        (Tool("put", input_schema={}), "tools.put"),
    ],
)
def test_a_part_that_a_manifest_declares_differently_quarantines_the_tool(
    declared: Tool, different_key: str
) -> None:
    locked = LockRecord(tools={"get": record_tool(GET)})
    allowed, quarantined = judge_tools(locked, [declared], is_manifest=True)
    (change,) = quarantined[declared.name].changes
    assert allowed == () and change.key == different_key


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            LockChange(Severity.PROGRAM, ("program",), "changed", "a", "b"),
            "program has changed: locked 'a', now 'b'",
        ),
        (
            LockChange(Severity.PROGRAM, ("package",), "changed", "a", "b", detail="x.py"),
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
