"""Tools in the forms of model APIs, and what is reported about them."""

import logging
from typing import Any

import pytest

from exthost.host.model_api.model_tools import FORMS, Form, model_tool
from exthost.host.model_api.registered_tools import RegisteredTools
from exthost.model.offer import RegisteredTool

OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("schema", [None, True, {}, OBJECT])
def test_schemas_that_every_api_accepts_are_not_reported(form: Form, schema: Any) -> None:
    tool = model_tool(form, "shout", "Upper case", schema)
    assert tool.changes == ()
    parameters = (
        tool.data["function"]["parameters"]
        if form == "openai"
        else tool.data["input_schema" if form == "anthropic" else "inputSchema"]
    )
    assert parameters["type"] == "object" and isinstance(parameters["properties"], dict)


def test_keywords_that_are_rejected_at_the_top_are_left_out_and_reported() -> None:
    schema = {**OBJECT, "oneOf": [{"required": ["text"]}], "not": {"required": ["x"]}}
    for form in ("openai", "anthropic"):
        tool = model_tool(form, "shout", "", schema)
        assert "oneOf" not in str(tool.data) and "`oneOf`, `not`" in tool.changes[0]
    kept = model_tool("mcp", "shout", "", schema)
    assert kept.data["inputSchema"]["oneOf"] and not kept.changes


def test_the_same_keyword_further_inside_stays() -> None:
    inner = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}}
    assert model_tool("openai", "t", "", inner).changes == ()


@pytest.mark.parametrize(
    ("form", "schema", "reported"),
    [
        ("mcp", {"type": "array"}, "not one of an object"),
        ("openai", {"properties": {"a": {"$ref": "https://example.org/s"}}}, "example.org"),
        ("anthropic", {"properties": {"a b": {}}}, "'a b'"),
    ],
)
def test_other_inexpressible_parts_are_reported(form: Form, schema: Any, reported: str) -> None:
    [change] = model_tool(form, "t", "", schema).changes
    assert change.startswith("t: ") and reported in change


def test_a_description_is_cut_where_the_api_limits_it() -> None:
    tool = model_tool("openai", "t", "x" * 2000, None)
    assert len(tool.data["function"]["description"]) == 1024 and tool.changes
    assert not model_tool("anthropic", "t", "x" * 2000, None).changes


def test_a_schema_that_nests_without_end_is_survived() -> None:
    schema: dict[str, Any] = {"properties": {}}
    schema["properties"]["a"] = schema
    assert model_tool("openai", "t", "", schema).changes == ()


def test_a_change_is_logged_once_per_host(caplog: pytest.LogCaptureFixture) -> None:
    tool = RegisteredTool("a_b", "", {"anyOf": []}, tool="b", extension="a")
    report: set[str] = set()
    with caplog.at_level(logging.WARNING, "exthost.tools"):
        for _ in range(2):
            RegisteredTools({"a_b": tool}, report).as_openai()
    assert len(caplog.records) == 1 and "`anyOf`" in caplog.text
    assert len(RegisteredTools({"a_b": tool}, report).changes("openai")) == 1
