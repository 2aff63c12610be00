"""Limits how much of a tool's result a model reads (the setting `limits.result`). No I/O.

Of a text that is too long, the beginning and the end are kept, and a sentence in between says how
much is missing and where it is:

    first lines of a log
    [… 1,204,511 characters are left out here; result.raw has all of it …]
    last lines of the log

Structured content larger than the limit is left out as a whole, and so is an image or sound that is
too large for the APIs of models. `ToolResult.raw` is never changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from exthost.errors import ExthostError
from exthost.tool_result import (
    AudioBlock,
    Block,
    ImageBlock,
    ResourceBlock,
    ResultReader,
    TextBlock,
)
from exthost.wire import jsontext

# Media are not text, so they do not count. The APIs of models accept about so much of one image.
MAX_MEDIA_CHARS: Final = 5_000_000

# Where the whole result is, in a program that uses the host.
IN_PYTHON: Final = "result.raw has all of it"

# Of the text that is kept, this part is from the beginning, and the rest from the end.
_HEAD_SHARE: Final = 2 / 3


def limit_texts(texts: Sequence[str], limit: int, where: str) -> list[str] | None:
    """Return the texts cut to `limit` bytes of UTF-8 together; None if they are not longer. A text
    in the middle that is left out is "". `where` says where the whole result is."""
    # A character has at most four bytes, so the bytes of a short text need not be counted.
    if sum(map(len, texts)) <= limit // 4 or sum(map(_count_bytes, texts)) <= limit:
        return None
    total = sum(map(len, texts))
    budget = max(0, limit - len(_note(total, where).encode()))
    head_bytes = int(budget * _HEAD_SHARE)
    kept = [""] * len(texts)

    # Keep whole texts from the beginning, and of `texts[cut]`, the first that does not fit, its
    # head. The loop always breaks, because not all texts fit.
    cut, head = 0, ""
    remaining = head_bytes
    for cut, text in enumerate(texts):
        head = _first_bytes(text, remaining)
        if len(head) < len(text):
            break
        kept[cut] = head
        remaining -= _count_bytes(head)

    # In the same way, keep texts from the end. If all that follow `texts[cut]` fit, its tail is
    # kept, too.
    tail = ""
    remaining = budget - head_bytes
    for number in range(len(texts) - 1, cut, -1):
        kept[number] = _last_bytes(texts[number], remaining)
        if len(kept[number]) < len(texts[number]):
            break
        remaining -= _count_bytes(kept[number])
    else:
        tail = _last_bytes(texts[cut][len(head) :], remaining)

    missing = total - sum(map(len, kept)) - len(head) - len(tail)
    kept[cut] = f"{head}{_note(missing, where)}{tail}"
    return kept


def _note(characters: int, where: str) -> str:
    return f"\n[… {characters:,} characters are left out here; {where} …]\n"


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _first_bytes(text: str, size: int) -> str:
    """Return the whole characters at the beginning of a text that have at most `size` bytes."""
    data = text[:size].encode("utf-8", "surrogatepass")
    end = min(size, len(data))
    while end < len(data) and _is_inside_character(data[end]):
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


def _last_bytes(text: str, size: int) -> str:
    """Return the whole characters at the end of a text that have at most `size` bytes."""
    if size <= 0:
        return ""
    data = text[-size:].encode("utf-8", "surrogatepass")
    start = max(0, len(data) - size)
    while start < len(data) and _is_inside_character(data[start]):
        start += 1
    return data[start:].decode("utf-8", "surrogatepass")


def _is_inside_character(byte: int) -> bool:
    """Return whether a byte of UTF-8 is not the first of its character."""
    return byte & 0xC0 == 0x80


def is_too_large(data: Any, limit: int) -> bool:
    """Return whether a structured value has more than `limit` bytes as JSON."""
    if data is None or isinstance(data, bool | int | float):
        return False
    try:
        return len(jsontext.encode(data)) > limit
    except ExthostError:  # nested too deeply
        return True


def structured_note(where: str) -> str:
    """Return the sentence for structured content that is left out."""
    return f"[the structured content is left out, because it is too large; {where}]"


def media_note(kind: str, media_type: str, characters: int, where: str) -> str:
    """Return the sentence for an image or sound that is left out."""
    about = f"{kind}: {media_type}" if media_type else kind
    return f"[{about}, {characters:,} characters of base64, is left out; {where}]"


# -- results in Python ---------------------------------------------------------------------------


def limit_reader(reader: ResultReader, limit: int | None) -> ResultReader:
    """Return a reader whose text, data and content are limited; `reader` itself without a limit."""
    if limit is None:
        return reader
    return ResultReader(
        reader.is_error,
        _LimitedText(reader, limit),
        _LimitedData(reader, limit),
        _LimitedContent(reader, limit),
        reader,
    )


# The three readers below are dataclasses with a `__call__` instead of closures, so results with the
# same reader are equal, and can be pickled.


@dataclass(frozen=True, slots=True)
class _LimitedText:
    reader: ResultReader
    limit: int

    def __call__(self, raw: Any) -> str:
        text = self.reader.text(raw)
        limited = limit_texts([text], self.limit, IN_PYTHON)
        return text if limited is None else limited[0]


@dataclass(frozen=True, slots=True)
class _LimitedData:
    reader: ResultReader
    limit: int

    def __call__(self, raw: Any) -> Any:
        data = self.reader.data(raw)
        return None if is_too_large(data, self.limit) else data


@dataclass(frozen=True, slots=True)
class _LimitedContent:
    reader: ResultReader
    limit: int

    def __call__(self, raw: Any) -> tuple[Block, ...]:
        blocks = [_without_large_media(block) for block in self.reader.content(raw)]
        texts = limit_texts([_block_text(block) for block in blocks], self.limit, IN_PYTHON)
        if texts is not None:
            blocks = [
                TextBlock(text) if _block_text(block) else block
                for block, text in zip(blocks, texts, strict=True)
                if text or not _block_text(block)
            ]
        if not isinstance(raw, str) and is_too_large(self.reader.data(raw), self.limit):
            blocks.append(TextBlock(structured_note(IN_PYTHON)))
        return tuple(blocks)


def _block_text(block: Block) -> str:
    """Return the text of a block; "" if it has none."""
    if isinstance(block, TextBlock):
        return block.text
    return block.text or "" if isinstance(block, ResourceBlock) else ""


def _without_large_media(block: Block) -> Block:
    if isinstance(block, ImageBlock | AudioBlock | ResourceBlock):
        size = len(block.data or "")
        if size > MAX_MEDIA_CHARS:
            return TextBlock(media_note(block.type, block.mime_type, size, IN_PYTHON))
    return block
