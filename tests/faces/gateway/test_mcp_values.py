"""Tests of `mcp_values`, which turns tools, results and errors of exthost into values of MCP.

The gateway is an MCP server in front of all extensions, also of those that do not speak MCP. Their
schemas and results may be anything, but what an MCP client gets must be valid in the client's
version of MCP. Values of an extension that is an MCP server itself are passed on unchanged if they
are valid.
"""

import json
import math
from typing import Any

import mcp_types as types
import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from exthost.dialects.mcp.result import MCP_RESULT
from exthost.dialects.value_result import VALUE_RESULT
from exthost.errors import CallFailed, CallTimeout, Evidence, ProtocolViolation
from exthost.faces.gateway import mcp_values
from exthost.model.offer import RegisteredTool
from exthost.tool_result import ToolResult
from tests.dialects.requirements import shows

OLDEST, NEWEST = HANDSHAKE_PROTOCOL_VERSIONS[0], MODERN_PROTOCOL_VERSIONS[-1]
VERSIONS = [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS]

# Half of a character in UTF-16: JSON can have it as an escape, but it cannot be encoded in UTF-8.
LONE_SURROGATE = "\ud800"


def nested_lists(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def mcp_tool(version: str = NEWEST, from_mcp_server: bool = False, **about: Any) -> types.Tool:
    """Return the MCP form of a tool; it must be valid."""
    tool = RegisteredTool(name="ext_a_b", tool="b", extension="a", **about)
    return types.Tool.model_validate(
        mcp_values.tool_value(tool, from_mcp_server=from_mcp_server, version=version)
    )


def mcp_result(
    result: Any, *, version: str = NEWEST, from_mcp_server: bool = False, is_error: bool = False
) -> Any:
    """Return the MCP form of a result; it must be valid and have a JSON form."""
    reader = MCP_RESULT if from_mcp_server else VALUE_RESULT
    if is_error:
        reader = reader._replace(is_error=lambda raw: True)
    value = mcp_values.result_value(
        ToolResult(result, reader), from_mcp_server=from_mcp_server, version=version
    )
    types.CallToolResult.model_validate(value)
    types.JSONRPCResponse(jsonrpc="2.0", id=1, result=value).model_dump_json()
    return value


@shows("gateway-tools-04")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        "nonsense",
        {"type": "array"},
        {"type": ["object", "null"]},
        {"type": "object", "properties": {"a": nested_lists(300)}},
        {"type": "object", "description": LONE_SURROGATE},
    ],
)
def test_a_schema_that_mcp_does_not_allow_is_replaced_by_any_object(
    schema: Any, version: str
) -> None:
    assert mcp_tool(version, input_schema=schema).input_schema == {"type": "object"}


def test_a_schema_without_a_type_becomes_that_of_an_object() -> None:
    schema = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert mcp_tool(input_schema=schema).input_schema == {**schema, "type": "object"}
    assert mcp_tool(input_schema={"type": "object", "oneOf": []}).input_schema["oneOf"] == []


@pytest.mark.parametrize(
    "unusable",
    [
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"properties": {"a": {"$ref": "https://example.org/a.json"}}},
        {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {
            "properties": {"a": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
        },
        {"properties": {"a": {"type": "strnig"}}},
        {"properties": {"a": {"type": "string", "pattern": "(?P<x"}}},
        {"required": "a"},
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "properties": {"a": {"type": "number", "minimum": 0, "exclusiveMinimum": True}},
        },
    ],
)
def test_an_output_schema_that_clients_cannot_compile_is_left_out(unusable: Any) -> None:
    """The official client for Node compiles all output schemas of a list. If one of them fails, the
    client has no tools at all."""
    schema = {"type": "object", **unusable}
    tool = mcp_tool(from_mcp_server=True, input_schema={"type": "object"}, output_schema=schema)
    assert tool.output_schema is None
    assert tool.input_schema == {"type": "object"}


@pytest.mark.parametrize(
    "usable",
    [
        {"properties": {"child": {"$ref": "#"}}},
        {
            "properties": {"a": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {}},
        },
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{}]},
        {"properties": {"a": {"type": "array", "items": [{"type": "string"}]}}},
        {"properties": {"a": {"type": "string", "format": "of-its-own"}}},
    ],
)
def test_an_output_schema_that_can_be_compiled_is_kept(usable: Any) -> None:
    schema = {"type": "object", **usable}
    tool = mcp_tool(from_mcp_server=True, input_schema={"type": "object"}, output_schema=schema)
    assert tool.output_schema == schema


def test_only_a_tool_of_an_mcp_server_keeps_its_output_schema_and_other_fields() -> None:
    about: dict[str, Any] = {
        "description": f"it {LONE_SURROGATE}",
        "output_schema": {"type": "object"},
        "extra": {"title": "B", "annotations": {"readOnlyHint": True}, "unknown": 1},
    }
    relayed = mcp_tool(from_mcp_server=True, **about)
    assert (relayed.title, relayed.output_schema) == ("B", {"type": "object"})
    assert relayed.annotations is not None and relayed.annotations.read_only_hint is True
    other = mcp_tool(**about)
    assert (other.title, other.output_schema, other.annotations) == (None, None, None)
    assert other.description == "it \ufffd"


@shows("gateway-call-02")
@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("plain", "plain"),
        (LONE_SURROGATE, "\ufffd"),
        (None, "null"),
        ([1, "ü"], '[1,"ü"]'),
        (True, "true"),
        ({"a": None}, '{"a":null}'),
        ({}, "{}"),
    ],
)
def test_a_result_is_text_and_structured_if_it_is_an_object(result: Any, text: str) -> None:
    value = mcp_result(result)
    assert value["content"] == [{"type": "text", "text": text}] and value["isError"] is False
    assert value.get("structuredContent") == (result if isinstance(result, dict) else None)
    assert mcp_result(result, is_error=True)["isError"] is True


@shows("gateway-call-07")
@pytest.mark.parametrize(
    "result",
    [{"a": LONE_SURROGATE}, {LONE_SURROGATE: 1}, {"a": nested_lists(300)}, nested_lists(300)],
)
def test_a_result_that_cannot_be_structured_content_is_only_text(result: Any) -> None:
    value = mcp_result(result)
    assert "structuredContent" not in value
    assert json.loads(value["content"][0]["text"]) == result


def test_a_number_that_json_does_not_have_becomes_null() -> None:
    assert mcp_result({"a": math.nan})["content"][0]["text"] == '{"a":null}'


@shows("gateway-call-07")
def test_a_result_too_deep_for_json_is_a_protocol_violation() -> None:
    with pytest.raises(ProtocolViolation) as caught:
        mcp_result(nested_lists(100_000))
    assert caught.value.code == "X0665"


@shows("gateway-call-02")
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_answer_of_an_mcp_server_is_passed_on_unchanged(version: str) -> None:
    result = {
        "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
        ],
        "structuredContent": {"a": 1},
        "isError": True,
        "_meta": {"mine": 1},
    }
    assert mcp_result(result, from_mcp_server=True, version=version) == {
        **result,
        "resultType": "complete",
    }


def test_structured_content_that_is_not_an_object_is_for_newer_clients_only() -> None:
    result = {"content": [], "structuredContent": [1]}
    assert mcp_result(result, from_mcp_server=True, version=NEWEST)["structuredContent"] == [1]
    assert "structuredContent" not in mcp_result(result, from_mcp_server=True, version=OLDEST)


def test_an_mcp_result_with_only_structured_content_is_valid() -> None:
    value = mcp_result({"structuredContent": {"a": 1}}, from_mcp_server=True)
    assert (value["content"], value["structuredContent"]) == ([], {"a": 1})


@pytest.mark.parametrize("result", [{"content": "text"}, {"content": [{"type": "hologram"}]}, 7])
def test_a_value_that_is_not_an_mcp_result_becomes_text(result: Any) -> None:
    assert json.loads(mcp_result(result, from_mcp_server=True)["content"][0]["text"]) == result


@shows("gateway-call-06")
def test_an_error_shows_code_message_and_help_but_no_evidence() -> None:
    error = CallTimeout(
        "X0801",
        "it took too long",
        extension="a",
        help="wait longer",
        evidence=Evidence(stderr=("a secret",), argv=("/bin/secret",)),
    )
    value = mcp_values.error_result(error)
    assert value["isError"] is True and "secret" not in json.dumps(value)
    assert value["content"][0]["text"] == "a: it took too long [X0801]"
    assert value["_meta"][mcp_values.ERROR] == {
        "code": "X0801",
        "kind": "CallTimeout",
        "extension": "a",
        "message": "it took too long",
        "help": "wait longer",
    }


def test_an_extensions_own_error_keeps_its_code_and_data_if_they_can_be_expressed() -> None:
    def failed_call(data: Any) -> Any:
        error = CallFailed("X0701", "no", error_code=-1, error_message=LONE_SURROGATE, data=data)
        return mcp_values.error_result(error)

    answer = failed_call({"a": 1})["_meta"][mcp_values.ERROR]["answer"]
    assert answer == {"code": -1, "message": "\ufffd", "data": {"a": 1}}
    assert "_meta" not in failed_call(LONE_SURROGATE)
