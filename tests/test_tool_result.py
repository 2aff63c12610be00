"""ToolResult, and how each dialect reads its results. No process runs here."""

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


def read(dialect: str, raw: Any) -> ToolResult:
    return ToolResult(raw, find.find_dialect(dialect).result_reader)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


# -- what each dialect's results say ---------------------------------------------------------


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
def test_a_plain_value_is_its_own_data_and_its_text_is_compact_json(
    dialect: str, raw: Any, text: str
) -> None:
    if dialect == "synaps" and raw == {"isError": True, "content": "no"}:
        text = "no"  # its tools wrap text so: synaps-prov-08
    result = read(dialect, raw)
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
            0,
        ),
        ({"content": "no", "isError": True, "data": None}, "no", None, 1),
        ({"content": "", "isError": False}, "", None, 0),
        # What a hook may put in its place.
        ("gilded", "gilded", "gilded", 0),
        ({"a": 1}, '{"a":1}', {"a": 1}, 0),
        ({"content": 7, "isError": True}, '{"content":7,"isError":true}', None, 1),
    ],
)
def test_a_roder_result_is_content_is_error_and_data(
    raw: Any, text: str, data: Any, is_error: int
) -> None:
    result = read("roder", raw)
    assert (result.text, result.is_error) == (text, bool(is_error))
    assert result.data == (raw if raw == {"content": 7, "isError": True} else data)
    assert result.content == (TextBlock(text),) and result.raw is raw


TEXT = {"type": "text", "text": "a"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///x", "name": "x", "mimeType": "text/plain"}
PAGE = {"type": "resource", "resource": {"uri": "demo://a", "text": "hello"}}
BLOB = {"type": "resource", "resource": {"uri": "demo://b", "blob": "aGk=", "mimeType": "a/b"}}


@pytest.mark.parametrize(
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
    result = read("mcp", {"content": [TEXT, sent]})
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
        # What a hook may put in its place.
        ("gilded", "gilded", "gilded", False),
        ({"a": 1}, '{"a":1}', {"a": 1}, False),
        ({"content": "b"}, '{"content":"b"}', {"content": "b"}, False),
        (None, "null", None, False),
    ],
)
def test_an_mcp_result_is_content_structured_content_and_is_error(
    raw: Any, text: str, data: Any, is_error: bool
) -> None:
    result = read("mcp", raw)
    assert (result.text, result.data, result.is_error) == (text, data, is_error)
    assert result.raw is raw and isinstance(result.content, tuple)


@pytest.mark.parametrize("name", find.BUILT_IN)
def test_a_value_too_deep_for_json_has_no_text_but_can_be_had_and_shown(name: str) -> None:
    raw = nested(100_000)
    result = read(name, raw)
    assert result.raw is raw and result.data is raw and repr(result) == "ToolResult(…)"
    with pytest.raises(ProtocolViolation) as caught:
        str(result)
    assert caught.value.code == "X0665"


# -- the value -------------------------------------------------------------------------------


def test_it_is_a_public_name() -> None:
    assert exthost.ToolResult is ToolResult


def test_it_is_read_only() -> None:
    result = read("mcp", {"content": [TEXT]})
    for name in ("raw", "text", "data", "content", "is_error", "error_reply", "other"):
        with pytest.raises(AttributeError):
            setattr(result, name, 1)


def test_nothing_is_read_before_it_is_asked_for_and_the_error_flag_once() -> None:
    observed: list[str] = []
    reader = find.find_dialect("morphir").result_reader

    def is_error(raw: Any) -> bool:
        observed.append("is_error")
        return False

    def unread(raw: Any) -> Any:
        observed.append("text")
        return "x"

    result = ToolResult(1, reader._replace(is_error=is_error, text=unread))
    assert observed == []
    assert (result.is_error, result.is_error, result.data) == (False, False, 1)
    assert observed == ["is_error"]
    assert result.text == "x" and observed == ["is_error", "text"]


def test_its_repr_shows_the_text_and_whether_it_failed() -> None:
    assert repr(read("morphir", {"a": 1})) == """ToolResult('{"a":1}')"""
    failed = read("roder", {"content": "no", "isError": True})
    assert repr(failed) == "ToolResult('no', is_error=True)"
    assert len(repr(read("morphir", "x" * 1000))) < 120


def test_results_are_equal_if_dialect_format_and_value_are() -> None:
    raw = {"content": "a", "isError": False}
    assert read("roder", raw) == read("roder", dict(raw))
    assert read("roder", raw) != read("roder", raw | {"content": "b"})
    assert read("roder", raw) != read("morphir", raw)
    assert read("morphir", 1) == read("nexo", 1)
    assert read("morphir", 1) != 1
    with pytest.raises(TypeError):
        hash(read("morphir", 1))


@pytest.mark.parametrize("name", find.BUILT_IN)
def test_results_can_be_pickled_and_copied(name: str) -> None:
    error = CallFailed("X0701", "boom", error_code=-1, error_message="no", data=[1])
    mine = read(name, {"content": "a", "isError": True})
    for result in (mine, ToolResult.from_error_reply(error)):
        for twin in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
            assert twin == result and twin is not result
            assert (twin.text, twin.is_error) == (result.text, result.is_error)
            assert (twin.error_reply is None) == (result.error_reply is None)


def test_a_hook_may_put_another_value_in_its_place() -> None:
    failed = read("roder", {"content": "no", "isError": True})
    mended = failed.with_raw({"content": "yes", "isError": False})
    assert (mended.text, mended.is_error) == ("yes", False)
    assert mended.with_raw(failed.raw) == failed


# -- failures --------------------------------------------------------------------------------


def test_an_error_reply_is_a_failed_result_with_its_message_code_and_data() -> None:
    error = CallFailed("X0701", "t failed: no", error_code=-1, error_message="no", data=[1])
    result = ToolResult.from_error_reply(error)
    assert result.is_error and result.error_reply is error
    assert (result.text, result.data) == ("no", [1])
    assert result.content == (TextBlock("no"),)
    assert result.raw == {"code": -1, "message": "no", "data": [1]}
    assert tool_error(result, "t") is error


def test_an_error_reply_without_words_reads_as_our_own_message() -> None:
    error = CallFailed("X0701", "t was answered with an error", error_message=" ")
    assert ToolResult.from_error_reply(error).text == "t was answered with an error"


def test_a_result_marked_as_an_error_becomes_an_error_with_all_of_it() -> None:
    raw = {"content": [TEXT], "isError": True}
    observed = Evidence(stderr=("a trace",))
    error = tool_error(read("mcp", raw), "t", extension="e", evidence=observed)
    assert isinstance(error, CallFailed) and error.code == "X0702"
    assert (error.message, error.error_message, error.extension) == ("t failed: a", "a", "e")
    assert error.data is raw and error.evidence is observed and "check=False" in error.help
    assert error.as_dict()["evidence"]["answer"]["data"] == raw


def test_the_message_of_a_failed_tool_is_short_and_never_empty() -> None:
    long = tool_error(read("roder", {"content": "x" * 9000, "isError": True}), "t")
    assert len(long.message) < 600 and len(long.error_message) == 9000
    silent = tool_error(read("mcp", {"content": [], "isError": True}), "t")
    assert silent.message == "t failed: it gives no reason"
