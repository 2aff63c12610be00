"""Long results are cut in the middle; the rest of a result is kept or left out whole.

`limits.result = "40KB"` limits how much of a tool's result a model gets: its texts are cut, and
data and images are whole or missing. `result.raw` always has the complete result.
"""

import pickle
import time
from typing import Any

import pytest

from exthost.dialects import find
from exthost.model.result_limit import MAX_MEDIA_CHARS, limit_reader, limit_texts
from exthost.tool_result import ImageBlock, TextBlock, ToolResult


def result(dialect: str, raw: Any, limit: int | None) -> ToolResult:
    return ToolResult(raw, limit_reader(find.find_dialect(dialect).result_reader, limit))


def test_the_beginning_and_the_end_are_kept_and_the_middle_says_what_is_missing() -> None:
    text = "a" * 5000 + "b" * 5000
    advice = "look there"  # about where the rest is
    [cut] = limit_texts([text], 1000, advice) or [""]
    head, _, note_and_tail = cut.partition("\n[… ")
    note, _, tail = note_and_tail.rpartition(" …]\n")
    assert set(head) == {"a"} and set(tail) == {"b"} and len(head) > len(tail) > 200
    missing = 10_000 - len(head) - len(tail)
    assert f"{missing:,} characters are left out here; {advice}" in note
    assert len(cut.encode()) <= 1000


@pytest.mark.parametrize("text", ["x" * 1000, "ü" * 500, "😀" * 250, ""])
def test_a_text_within_the_limit_is_not_changed(text: str) -> None:
    assert limit_texts([text], 1000, "") is None


@pytest.mark.parametrize("text", ["ü", "😀", "\ud800", "a"])
@pytest.mark.parametrize("limit", [1, 60, 199, 1000, 5003])
def test_characters_stay_whole_and_the_limit_is_kept(text: str, limit: int) -> None:
    [cut] = limit_texts([text * 20_000], limit, "there") or [""]
    assert set(cut.partition("\n")[0]) <= {text} and "�" not in cut
    # A limit below 80 bytes leaves no room for the note, which is not cut.
    assert len(cut.encode("utf-8", "surrogatepass")) <= max(limit, 80)


@pytest.mark.parametrize("unit", ["\ud800abc", "ü\udfff😀"])
@pytest.mark.parametrize("limit", [150, 151, 152, 153, 154])
def test_a_text_with_half_surrogate_pairs_is_kept_and_counted(unit: str, limit: int) -> None:
    text = unit * 100
    [cut] = limit_texts([text], limit, "there") or [""]
    head, _, note_and_tail = cut.partition("\n[… ")
    note, _, tail = note_and_tail.rpartition(" …]\n")
    assert text.startswith(head) and text.endswith(tail) and head and tail
    assert note.startswith(f"{len(text) - len(head) - len(tail)} characters")


def test_several_texts_share_the_limit() -> None:
    texts = ["first " * 10, "middle " * 1000, "other " * 1000, "last " * 10]
    cut = limit_texts(texts, 400, "there")
    assert cut is not None
    assert cut[0] == texts[0] and cut[3] == texts[3] and "left out" in cut[1]
    assert texts[2].endswith(cut[2]) and len(cut[2]) < 100
    assert sum(len(text.encode()) for text in cut) <= 400
    for order in (texts, texts[::-1], ["x" * 10_000, ""], ["", "x" * 10_000]):
        assert sum(len(text.encode()) for text in limit_texts(order, 400, "there") or []) <= 400


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "cigen", "synaps", "roder", "mcp"])
def test_text_and_data_are_limited_in_every_dialect_and_raw_is_not(dialect: str) -> None:
    raw: Any = {"rows": ["row " * 100] * 100}
    if dialect == "mcp":
        raw = {"content": [{"type": "text", "text": "row " * 10_000}], "structuredContent": raw}
    if dialect == "roder":
        raw = {"content": "row " * 10_000, "isError": False, "data": raw}
    limited, whole = result(dialect, raw, 2000), result(dialect, raw, None)
    assert len(limited.text) <= 2000 < len(whole.text) and "result.raw" in limited.text
    assert limited.raw is raw and limited.data is None and whole.data is not None
    texts = [block.text for block in limited.content if isinstance(block, TextBlock)]
    assert "structured content is left out" in texts[-1]
    assert pickle.loads(pickle.dumps(limited)) == limited
    assert limited.with_raw({"a": 1}).data == {"a": 1}


def test_images_are_kept_or_left_out_whole() -> None:
    small = {"type": "image", "data": "A" * 100_000, "mimeType": "image/png"}
    large = {**small, "data": "A" * (MAX_MEDIA_CHARS + 1)}
    blocks = result("mcp", {"content": [small, large]}, 1000).content
    assert blocks[0] == ImageBlock("A" * 100_000, "image/png")
    assert isinstance(blocks[1], TextBlock) and "image/png, 5,000,001 characters" in blocks[1].text


def test_one_line_of_a_hundred_megabytes_is_cut_quickly() -> None:
    text = "x" * 100_000_000
    began = time.process_time()
    limited = result("nexo", text, 40_000)
    assert len(limited.text) <= 40_000
    assert time.process_time() - began < 20  # in seconds; generous, for a busy machine
