"""Tests of `ToolResult`, the result of a tool call, and of how each dialect reads its results.

A dialect is the protocol of an extension. In some (VALUE_DIALECTS) a result is any JSON value; in
roder and mcp it is an object with text, data and a flag for errors. A `ToolResult` keeps the value
as it was sent (`raw`), and shows it in one form: `text`, `data`, `content` and `is_error`.
"""

import copy
import pickle
from typing import Any

import pytest

import exthost
from exthost.dialects import find
from exthost.errors import CallFailed, Evidence, ProtocolViolation
from exthost.tool_result import (
    AudioBlock,
    Block,
    ImageBlock,
    ResourceBlock,
    TextBlock,
    ToolResult,
    UnknownBlock,
    tool_error,
)

VALUE_DIALECTS = ("morphir", "nexo", "synaps", "cigen")


def tool_result(dialect: str, raw: Any) -> ToolResult:
    """Return a result as the dialect reads it."""
    return ToolResult(raw, find.find_dialect(dialect).result_reader)


def nested_lists(depth: int) -> Any:
    """Return a list in a list, and so on, `depth` times."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


# -- results of each dialect -----------------------------------------------------------------


@pytest.mark.parametrize("dialect", VALUE_DIALECTS)
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ({"a": [1, "ü"]}, '{"a":[1,"ü"]}'),
        ([], "[]"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ({"isError": True, "content": "no"}, '{"isError":true,"content":"no"}'),
        ({"a": "\ud800"}, '{"a":"\\ud800"}'),
    ],
)
def test_the_data_of_a_plain_value_is_the_value_and_its_text_is_compact_json(
    dialect: str, raw: Any, text: str
) -> None:
    if dialect == "synaps" and raw == {"isError": True, "content": "no"}:
        text = "no"  # synaps tools return text in this form: synaps-prov-08
    result = tool_result(dialect, raw)
    assert (result.text, result.data, result.is_error) == (text, raw, False)
    assert result.content == (TextBlock(text),)
    assert result.raw is raw and str(result) == text


@pytest.mark.parametrize(
    ("raw", "text", "data", "is_error"),
    [
        (
            {"content": "2 words", "isError": False, "data": {"words": 2}},
            "2 words",
            {"words": 2},
            False,
        ),
        ({"content": "no", "isError": True, "data": None}, "no", None, True),
        ({"content": "", "isError": False}, "", None, False),
        # Values that a hook could replace the result with.
        ("gilded", "gilded", "gilded", False),
        ({"a": 1}, '{"a":1}', {"a": 1}, False),
        (
            {"content": 7, "isError": True},
            '{"content":7,"isError":true}',
            {"content": 7, "isError": True},
            True,
        ),
    ],
)
def test_a_roder_result_is_content_is_error_and_data(
    raw: Any, text: str, data: Any, is_error: bool
) -> None:
    result = tool_result("roder", raw)
    assert (result.text, result.data, result.is_error) == (text, data, is_error)
    assert result.content == (TextBlock(text),) and result.raw is raw


TEXT = {"type": "text", "text": "a"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///x", "name": "x", "mimeType": "text/plain"}
PAGE = {"type": "resource", "resource": {"uri": "demo://a", "text": "hello"}}
BLOB = {"type": "resource", "resource": {"uri": "demo://b", "blob": "aGk=", "mimeType": "a/b"}}


@pytest.mark.parametrize(
    # `block` None is an UnknownBlock with what was sent.
    ("sent", "block", "text"),
    [
        (TEXT, TextBlock("a"), "a"),
        (IMAGE, ImageBlock("aGk=", "image/png"), "[image: image/png]"),
        ({"type": "image", "data": ""}, ImageBlock(""), "[image]"),
        (AUDIO, AudioBlock("aGk=", "audio/wav"), "[audio: audio/wav]"),
        (LINK, ResourceBlock("file:///x", "text/plain", name="x"), "[resource: file:///x]"),
        (PAGE, ResourceBlock("demo://a", text="hello"), "hello"),
        (BLOB, ResourceBlock("demo://b", "a/b", data="aGk="), "[resource: demo://b]"),
        ({"type": "hologram"}, UnknownBlock({"type": "hologram"}), "[hologram]"),
        ({"type": "text", "text": 1}, UnknownBlock({"type": "text", "text": 1}), "[text]"),
        ({"type": "image"}, UnknownBlock({"type": "image"}), "[image]"),
        ({"type": ["x"]}, UnknownBlock({"type": ["x"]}), "[unknown content]"),
        ({"type": "resource", "resource": 7}, None, "[resource]"),
        (7, UnknownBlock(7), "[unknown content]"),
        (None, UnknownBlock(None), "[unknown content]"),
    ],
)
def test_an_mcp_block_is_read_by_its_type(sent: Any, block: Block | None, text: str) -> None:
    result = tool_result("mcp", {"content": [TEXT, sent]})
    assert result.content == (TextBlock("a"), block or UnknownBlock(sent))
    assert result.text == f"a\n{text}"
    assert (result.data, result.is_error) == (None, False)


@pytest.mark.parametrize(
    ("raw", "text", "data", "is_error"),
    [
        ({"content": [TEXT], "structuredContent": {"a": 1}}, "a", {"a": 1}, False),
        ({"content": [TEXT], "isError": True}, "a", None, True),
        ({"content": [TEXT], "isError": "yes"}, "a", None, False),
        ({"content": [], "structuredContent": {"a": 1}}, '{"a":1}', {"a": 1}, False),
        ({"structuredContent": [1]}, "[1]", [1], False),
        ({"structuredContent": None}, "null", None, False),
        ({"content": []}, "", None, False),
        ({"isError": True}, "", None, True),
        ({}, "", None, False),
        # Values that a hook could replace the result with.
        ("gilded", "gilded", "gilded", False),
        ({"a": 1}, '{"a":1}', {"a": 1}, False),
        ({"content": "b"}, '{"content":"b"}', {"content": "b"}, False),
        (None, "null", None, False),
    ],
)
def test_an_mcp_result_is_content_structured_content_and_is_error(
    raw: Any, text: str, data: Any, is_error: bool
) -> None:
    result = tool_result("mcp", raw)
    assert (result.text, result.data, result.is_error) == (text, data, is_error)
    assert result.raw is raw and isinstance(result.content, tuple)


@pytest.mark.more
@pytest.mark.parametrize("name", find.BUILT_IN)
def test_a_value_too_deep_for_json_has_no_text_but_has_data_and_a_repr(name: str) -> None:
    raw = nested_lists(100_000)
    result = tool_result(name, raw)
    assert result.raw is raw and result.data is raw and repr(result) == "ToolResult(…)"
    with pytest.raises(ProtocolViolation) as caught:
        str(result)
    assert caught.value.code == "X0665"


# -- ToolResult as a value -------------------------------------------------------------------


def test_tool_result_is_a_public_name() -> None:
    assert exthost.ToolResult is ToolResult


def test_a_tool_result_is_read_only() -> None:
    result = tool_result("mcp", {"content": [TEXT]})
    for name in ("raw", "text", "data", "content", "is_error", "error_reply", "other"):
        with pytest.raises(AttributeError):
            setattr(result, name, 1)


def test_attributes_are_read_when_they_are_used_and_is_error_only_once() -> None:
    read_attributes: list[str] = []
    reader = find.find_dialect("morphir").result_reader

    def is_error(raw: Any) -> bool:
        read_attributes.append("is_error")
        return False

    def text(raw: Any) -> Any:
        read_attributes.append("text")
        return "x"

    result = ToolResult(1, reader._replace(is_error=is_error, text=text))
    assert read_attributes == []
    assert (result.is_error, result.is_error, result.data) == (False, False, 1)
    assert read_attributes == ["is_error"]
    assert result.text == "x" and read_attributes == ["is_error", "text"]


def test_the_repr_shows_the_text_and_is_error() -> None:
    assert repr(tool_result("morphir", {"a": 1})) == """ToolResult('{"a":1}')"""
    failed = tool_result("roder", {"content": "no", "isError": True})
    assert repr(failed) == "ToolResult('no', is_error=True)"
    assert len(repr(tool_result("morphir", "x" * 1000))) < 120


def test_results_are_equal_if_they_have_the_same_format_and_value() -> None:
    raw = {"content": "a", "isError": False}
    assert tool_result("roder", raw) == tool_result("roder", dict(raw))
    assert tool_result("roder", raw) != tool_result("roder", raw | {"content": "b"})
    assert tool_result("roder", raw) != tool_result("morphir", raw)
    assert tool_result("morphir", 1) == tool_result("nexo", 1)
    assert tool_result("morphir", 1) != 1
    with pytest.raises(TypeError):
        hash(tool_result("morphir", 1))


@pytest.mark.parametrize("name", find.BUILT_IN)
def test_results_can_be_pickled_and_copied(name: str) -> None:
    error = CallFailed("X0701", "boom", error_code=-1, error_message="no", data=[1])
    returned = tool_result(name, {"content": "a", "isError": True})
    for result in (returned, ToolResult.from_error_reply(error)):
        for copied in (
            pickle.loads(pickle.dumps(result)),
            copy.copy(result),
            copy.deepcopy(result),
        ):
            assert copied == result and copied is not result
            assert (copied.text, copied.is_error) == (result.text, result.is_error)
            assert (copied.error_reply is None) == (result.error_reply is None)


def test_with_raw_returns_a_result_with_another_value() -> None:
    failed = tool_result("roder", {"content": "no", "isError": True})
    repaired = failed.with_raw({"content": "yes", "isError": False})
    assert (repaired.text, repaired.is_error) == ("yes", False)
    assert repaired.with_raw(failed.raw) == failed


# -- failures --------------------------------------------------------------------------------


def test_an_error_reply_is_a_failed_result_with_its_message_code_and_data() -> None:
    error = CallFailed("X0701", "t failed: no", error_code=-1, error_message="no", data=[1])
    result = ToolResult.from_error_reply(error)
    assert result.is_error and result.error_reply is error
    assert (result.text, result.data) == ("no", [1])
    assert result.content == (TextBlock("no"),)
    assert result.raw == {"code": -1, "message": "no", "data": [1]}
    assert tool_error(result, "t") is error


def test_an_error_reply_without_a_message_has_the_message_of_the_host() -> None:
    error = CallFailed("X0701", "t was answered with an error", error_message=" ")
    assert ToolResult.from_error_reply(error).text == "t was answered with an error"


def test_a_result_marked_as_an_error_becomes_an_error_with_its_text_and_data() -> None:
    raw = {"content": [TEXT], "isError": True}
    evidence = Evidence(stderr=("a trace",))
    error = tool_error(tool_result("mcp", raw), "t", extension="e", evidence=evidence)
    assert isinstance(error, CallFailed) and error.code == "X0702"
    assert (error.message, error.error_message, error.extension) == ("t failed: a", "a", "e")
    assert error.data is raw and error.evidence is evidence and "check=False" in error.help
    assert error.as_dict()["evidence"]["answer"]["data"] == raw


def test_the_message_of_a_failed_tool_is_short_and_never_empty() -> None:
    long = tool_error(tool_result("roder", {"content": "x" * 9000, "isError": True}), "t")
    assert len(long.message) < 600 and len(long.error_message) == 9000
    silent = tool_error(tool_result("mcp", {"content": [], "isError": True}), "t")
    assert silent.message == "t failed: it gives no reason"
