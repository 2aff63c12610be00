"""The content of a tool result as texts and media (images, audio, documents) for a model.

The result of a tool is a tuple of blocks. A block with media that the model takes is passed on as
`Media`; any other block is described in the text.
"""

import pytest

from exthost.host.model_api.media import Media, result_parts
from exthost.tool_result import (
    AudioBlock,
    Block,
    ImageBlock,
    ResourceBlock,
    ResultReader,
    TextBlock,
    ToolResult,
)

DATA = "aGVsbG8h"  # six bytes

# Reads a result that is a tuple of blocks.
BLOCKS = ResultReader(is_error=None, text=lambda raw: "the text", data=tuple, content=tuple)


@pytest.mark.parametrize(
    ("block", "kind", "media_type"),
    [
        (ImageBlock(DATA, "image/png"), "image", "image/png"),
        (ImageBlock(DATA, " IMAGE/PNG ; x=y"), "image", "image/png"),
        (AudioBlock(DATA, "audio/wav"), "audio", "audio/wav"),
        (ResourceBlock("a", "application/pdf", data=DATA), "document", "application/pdf"),
        (ResourceBlock("a", "application/zip", data=DATA), None, ""),
        (ResourceBlock("a", "application/pdf", text="x"), None, ""),
        (ImageBlock("", "image/png"), None, ""),
        (ImageBlock("not base64!", "image/png"), None, ""),
        (TextBlock("x"), None, ""),
    ],
)
def test_valid_media_are_separate_parts(block: Block, kind: str | None, media_type: str) -> None:
    result = ToolResult((TextBlock("a"), block), BLOCKS)
    parts = result_parts(result)
    if kind is None:
        assert parts == ["the text"]
        return
    assert parts[0] == "a"
    media = parts[1]
    assert isinstance(media, Media) and (media.kind, media.media_type) == (kind, media_type)
    assert media.content == b"hello!" and media.url == f"data:{media_type};base64,{DATA}"


@pytest.mark.parametrize(
    ("kinds", "types", "max_bytes", "is_taken"),
    [
        (["image"], None, None, True),
        (["audio"], None, None, False),
        (["image"], ["image/png"], None, True),
        (["image"], ["image/gif"], None, False),
        (["image"], None, 6, True),
        (["image"], None, 5, False),
    ],
)
def test_media_that_a_model_does_not_take_are_texts(
    kinds: list[str], types: list[str] | None, max_bytes: int | None, is_taken: bool
) -> None:
    result = ToolResult((ImageBlock(DATA, "image/png"),), BLOCKS)
    parts = result_parts(result, kinds, types, max_bytes)
    assert isinstance(parts[0], Media) == is_taken


@pytest.mark.parametrize(
    ("media_type", "file_name"),
    [
        ("application/pdf", "result.pdf"),
        ("audio/mpeg", "result.mp3"),
        ("audio/wav", "result.wav"),
        ("audio/x-wav", "result.wav"),
        ("audio/wave", "result.wav"),
        ("audio/ogg", "result.ogg"),
    ],
)
def test_a_medium_has_the_file_name_of_its_type(media_type: str, file_name: str) -> None:
    assert Media("audio", media_type, "").file_name == file_name
