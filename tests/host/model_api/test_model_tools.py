"""Tools in the forms of model APIs, and the reports about parts that an API does not accept.

`host.tools.as_openai()`, for example, returns the tools for a request to OpenAI. Each API accepts
only a part of JSON Schema: a keyword that it rejects is removed, and each change is reported.
"""

import logging
from typing import Any

import pytest

from exthost.errors import UsageError
from exthost.host.model_api.model_tools import FORMS, Form, model_tool
from exthost.host.model_api.registered_tools import RegisteredTools
from exthost.model.offer import RegisteredTool

OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("schema", [None, True, {}, OBJECT])
def test_a_schema_that_every_api_accepts_is_not_reported(form: Form, schema: Any) -> None:
    tool = model_tool(form, "shout", "Upper case", schema)
    assert tool.changes == ()
    data = tool.data["function"] if form == "openai" else tool.data
    # Each API has another name for it: parameters, input_schema, inputSchema, parametersJsonSchema.
    [parameters] = [data[key] for key in data if "schema" in key.lower() or key == "parameters"]
    assert parameters["type"] == "object" and isinstance(parameters["properties"], dict)


def test_keywords_that_an_api_rejects_at_the_top_are_removed_and_reported() -> None:
    schema = {**OBJECT, "oneOf": [{"required": ["text"]}], "not": {"required": ["x"]}}
    for form in ("openai", "anthropic"):
        tool = model_tool(form, "shout", "", schema)
        assert "oneOf" not in str(tool.data) and "`oneOf`, `not`" in tool.changes[0]
    for_mcp = model_tool("mcp", "shout", "", schema)
    assert for_mcp.data["inputSchema"]["oneOf"] and not for_mcp.changes


def test_a_keyword_that_is_rejected_at_the_top_is_kept_in_a_nested_schema() -> None:
    inner = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}}
    assert model_tool("openai", "t", "", inner).changes == ()


@pytest.mark.parametrize(
    ("form", "schema", "expected_text"),
    [
        ("mcp", {"type": "array"}, "not one of an object"),
        ("mcp", {"properties": ["a"]}, "`properties` of its schema is not an object"),
        ("mcp", {"properties": {"a": 5, "b": {}}}, "the schema of the argument 'a' is not valid"),
        ("mcp", {"required": "a"}, "`required` of its schema is not a list"),
        ("openai", {"properties": {"a": {"$ref": "https://example.org/s"}}}, "example.org"),
        ("anthropic", {"properties": {"a b": {}}}, "'a b'"),
    ],
)
def test_other_parts_that_an_api_does_not_accept_are_reported(
    form: Form, schema: Any, expected_text: str
) -> None:
    [change] = model_tool(form, "t", "", schema).changes
    assert change.startswith("t: ") and expected_text in change


def test_a_description_is_cut_to_the_limit_of_the_api() -> None:
    tool = model_tool("openai", "t", "x" * 2000, None)
    assert len(tool.data["function"]["description"]) == 1024 and tool.changes
    assert not model_tool("anthropic", "t", "x" * 2000, None).changes


def test_a_schema_that_contains_itself_is_accepted() -> None:
    schema: dict[str, Any] = {"properties": {}}
    schema["properties"]["a"] = schema
    assert model_tool("openai", "t", "", schema).changes == ()


def test_a_change_is_logged_once_per_host(caplog: pytest.LogCaptureFixture) -> None:
    tool = RegisteredTool("a_b", "", {"anyOf": []}, tool="b", extension="a")
    logged_changes: set[str] = set()
    with caplog.at_level(logging.WARNING, "exthost.tools"):
        for _ in range(2):
            RegisteredTools({"a_b": tool}, logged_changes).as_openai()
    assert len(caplog.records) == 1 and "`anyOf`" in caplog.text
    assert len(RegisteredTools({"a_b": tool}, logged_changes).changes("openai")) == 1


def two_tools() -> RegisteredTools:
    """Return a tool with a description and one without."""
    tools = [
        RegisteredTool("ext_fs_read", "[ext:fs] Read a file", OBJECT, tool="read", extension="fs"),
        RegisteredTool("ext_web_get", "[ext:web] ", None, tool="get", extension="web"),
    ]
    return RegisteredTools({tool.name: tool for tool in tools})


def test_tools_have_the_form_of_each_api() -> None:
    tools = two_tools().select("ext_fs_read")
    fields = {"name": "ext_fs_read", "description": "[ext:fs] Read a file"}
    assert tools.as_openai() == [{"type": "function", "function": {**fields, "parameters": OBJECT}}]
    assert tools.as_openai("responses") == [
        {"type": "function", **fields, "parameters": OBJECT, "strict": False}
    ]
    assert tools.as_anthropic() == [{**fields, "input_schema": OBJECT}]
    assert tools.as_gemini() == [
        {"functionDeclarations": [{**fields, "parametersJsonSchema": OBJECT}]}
    ]
    assert RegisteredTools({}).as_gemini() == []


def test_the_id_of_the_extension_can_be_left_out() -> None:
    tools = two_tools()
    lists = [
        [tool["function"] for tool in tools.as_openai(prefix=False)],
        tools.as_openai("responses", prefix=False),
        tools.as_anthropic(prefix=False),
        tools.as_gemini(prefix=False)[0]["functionDeclarations"],
        tools.as_mcp(prefix=False),
    ]
    for tool_list in lists:
        assert [tool["description"] for tool in tool_list] == ["Read a file", "get"]


def test_an_unknown_form_of_openai_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        two_tools().as_openai("respones")  # type: ignore[arg-type]
    assert caught.value.code == "X1338"
    assert caught.value.message == 'form must be "chat" or "responses", not \'respones\''


def test_tools_are_selected_in_the_order_of_the_patterns() -> None:
    tools = two_tools()
    assert list(tools.select("web:*", "ext_*")) == ["ext_web_get", "ext_fs_read"]
    assert list(tools.select("fs:read").select("*")) == ["ext_fs_read"]
    assert list(tools.select()) == list(tools.select("read")) == []
