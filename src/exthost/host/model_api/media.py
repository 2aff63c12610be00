"""The content of a tool result as texts and media, for models that accept images or sounds. No I/O.

An API answers a whole request with an error if one image in it is not valid. An extension may send
any text as base64 and any media type, so both are checked here. A block that is not valid or not
accepted becomes a note in brackets, such as `[image: image/svg+xml]`.
"""

import base64
import binascii
import re
from collections.abc import Collection
from typing import Final, Literal, NamedTuple, TypeAlias

from exthost.tool_result import (
    AudioBlock,
    Block,
    ImageBlock,
    ResourceBlock,
    ToolResult,
    block_text,
)

MediaKind: TypeAlias = Literal["image", "audio", "document"]
KINDS: Final[tuple[MediaKind, ...]] = ("image", "audio", "document")

# The types that the APIs of OpenAI and Anthropic document for images.
IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

_DOCUMENT_TYPES: Final = frozenset({"application/pdf"})


_SURROGATES: Final = re.compile("[\ud800-\udfff]")

# The suffix of a file, where it is not the second part of the media type.
_SUFFIXES: Final = {"mpeg": "mp3", "wave": "wav"}


class Media(NamedTuple):
    """An image, a sound or a document of a result. `data` is valid base64."""

    kind: MediaKind
    media_type: str
    data: str

    @property
    def content(self) -> bytes:
        """The decoded data."""
        return base64.b64decode(self.data)

    @property
    def url(self) -> str:
        """The data as a URL."""
        return f"data:{self.media_type};base64,{self.data}"

    @property
    def file_name(self) -> str:
        """A file name with the suffix of the media type, such as `result.pdf`."""
        subtype = self.media_type.partition("/")[2].removeprefix("x-")
        return f"result.{_SUFFIXES.get(subtype, subtype)}"


def result_parts(
    result: ToolResult,
    kinds: Collection[str] = KINDS,
    types: Collection[str] | None = None,
    max_bytes: int | None = None,
) -> list[str | Media]:
    """Return the content of a result in its order, as texts and media of these kinds.

    `types` are the media types that are accepted; None is any. `max_bytes` is the largest size of
    one medium. A result without accepted media gives a list of one text, which is `result.text`.
    """
    parts = [
        media if (media := _read_media(block, kinds, types, max_bytes)) else block_text(block)
        for block in result.content
    ]
    parts = parts if any(isinstance(part, Media) for part in parts) else [result.text]
    return [part if isinstance(part, Media) else model_text(part) for part in parts]


def model_text(text: str) -> str:
    """Return the text with U+FFFD in place of each lone surrogate. An extension may send them, and
    the packages of models' APIs cannot send them on."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _read_media(
    block: Block, kinds: Collection[str], types: Collection[str] | None, max_bytes: int | None
) -> Media | None:
    """Return the medium in a block; None if there is none, or if it is not valid or accepted."""
    if not isinstance(block, ImageBlock | AudioBlock | ResourceBlock) or not block.data:
        return None
    media_type = block.mime_type.partition(";")[0].strip().lower()
    kind: MediaKind
    if media_type.startswith("image/"):
        kind = "image"
    elif media_type.startswith("audio/"):
        kind = "audio"
    elif media_type in _DOCUMENT_TYPES:
        kind = "document"
    else:
        return None
    if kind not in kinds or (types is not None and media_type not in types):
        return None
    size = len(block.data) * 3 // 4  # four characters of base64 are three bytes
    if max_bytes is not None and size > max_bytes:
        return None
    try:
        base64.b64decode(block.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return Media(kind, media_type, block.data)
