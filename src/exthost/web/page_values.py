"""Values of extensions as data that a page can show: bounded in size, and always valid JSON.

The page shows every text as text. Here only sizes are bounded, and images are limited to kinds that
a browser decodes without running anything in them.
"""

import json
from typing import Any

from exthost.control.as_data import as_data
from exthost.errors import ExthostError
from exthost.tool_result import AudioBlock, ImageBlock, ResourceBlock, TextBlock, ToolResult
from exthost.wire import jsontext

# Limits of what the page shows of one result. The command line shows all of it.
TEXT_CHARACTERS = 200_000
DATA_BYTES = 1_000_000
MEDIA_CHARACTERS = 12_000_000
BLOCKS = 100

# Without SVG, which can contain scripts and links: it is shown as text.
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})
SOUND_TYPES = frozenset({"audio/wav", "audio/mpeg", "audio/ogg", "audio/webm", "audio/mp4"})


def to_json(value: Any) -> bytes:
    """Return any value as JSON; what is no JSON is shown as text."""
    try:
        return jsontext.encode(value)
    except ExthostError:
        # Lone surrogates and values of unknown types.
        return json.dumps(value, default=str).encode("ascii")


def cut(text: str, limit: int = TEXT_CHARACTERS) -> str:
    """Return the text, cut with a note if it is too long."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n… {len(text) - limit} more characters"


def result_as_data(result: ToolResult) -> dict[str, Any]:
    """Return what a tool returned, for the page."""
    shown: dict[str, Any] = {"is_error": result.is_error}
    try:
        shown["content"] = [_block(block) for block in result.content[:BLOCKS]]
        data = as_data(result.data)
        is_small = data is not None and len(to_json(data)) <= DATA_BYTES
        shown["data"] = data if is_small else None
        shown["text"] = cut(result.text)
    except (ExthostError, RecursionError) as error:
        shown |= {"content": [], "data": None, "text": f"cannot be shown: {error}"}
    if result.error_reply is not None:
        shown["error"] = error_as_data(result.error_reply)
    return shown


def _block(block: Any) -> dict[str, Any]:
    match block:
        case TextBlock():
            return {"type": "text", "text": cut(block.text)}
        case ImageBlock() | AudioBlock():
            kinds = IMAGE_TYPES if isinstance(block, ImageBlock) else SOUND_TYPES
            kind = block.mime_type.lower()
            if kind in kinds and len(block.data) <= MEDIA_CHARACTERS:
                return {"type": block.type, "mime_type": kind, "data": block.data}
            return {"type": "text", "text": f"({block.type}, {block.mime_type}, not shown here)"}
        case ResourceBlock():
            text = cut(block.text) if block.text is not None else None
            return {"type": "resource", "uri": block.uri, "name": block.name, "text": text}
        case _:
            return {"type": "text", "text": cut(to_json(as_data(block)).decode("utf-8", "replace"))}


def error_as_data(error: ExthostError) -> dict[str, Any]:
    """Return an error for the page: what the command line shows with --json."""
    shown = error.as_dict()
    return {**shown, "message": cut(str(shown.get("message", "")), 20_000)}
