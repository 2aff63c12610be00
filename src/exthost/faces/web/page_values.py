"""Converts values of extensions, such as the results of tools, to data for the web page of a host:
of a bounded size, and always valid JSON.

The page displays every text as plain text, so nothing is escaped here. Images and sounds are
limited to types that cannot contain scripts.
"""

import json
from typing import Any

from exthost.errors import ExthostError
from exthost.host.control.as_data import as_data
from exthost.tool_result import AudioBlock, ImageBlock, ResourceBlock, TextBlock, ToolResult
from exthost.wire import jsontext

# How much of one result the page displays. The command line prints all of it.
TEXT_CHARACTERS = 200_000
DATA_BYTES = 1_000_000
MEDIA_CHARACTERS = 12_000_000
MAX_BLOCKS = 100

# SVG is left out, because it can contain scripts and links. It is displayed as text.
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})
SOUND_TYPES = frozenset({"audio/wav", "audio/mpeg", "audio/ogg", "audio/webm", "audio/mp4"})


def to_json(value: Any) -> bytes:
    """Return any value as JSON. Values of unknown types become strings."""
    try:
        return jsontext.encode(value)
    except ExthostError:
        # It has lone surrogates, or values of unknown types.
        return json.dumps(value, default=str).encode("ascii")


def truncate(text: str, limit: int = TEXT_CHARACTERS) -> str:
    """Return the text; if it is longer than `limit`, its beginning, with a note about the rest."""
    if len(text) <= limit:
        return text
    missing = len(text) - limit
    return f"{text[:limit]}\n… {missing} more {'character' if missing == 1 else 'characters'}"


def result_as_data(result: ToolResult) -> dict[str, Any]:
    """Return the result of a tool as data for the page."""
    page_data: dict[str, Any] = {"is_error": result.is_error}
    try:
        page_data["content"] = [_block_as_data(block) for block in result.content[:MAX_BLOCKS]]
        data = as_data(result.data)
        is_small = data is not None and len(to_json(data)) <= DATA_BYTES
        page_data["data"] = data if is_small else None
        page_data["text"] = truncate(result.text)
    except (ExthostError, RecursionError) as error:
        page_data |= {"content": [], "data": None, "text": f"cannot be shown: {error}"}
    if result.error_reply is not None:
        page_data["error"] = error_as_data(result.error_reply)
    return page_data


def _block_as_data(block: Any) -> dict[str, Any]:
    match block:
        case TextBlock():
            return {"type": "text", "text": truncate(block.text)}
        case ImageBlock() | AudioBlock():
            allowed_types = IMAGE_TYPES if isinstance(block, ImageBlock) else SOUND_TYPES
            mime_type = block.mime_type.lower()
            if mime_type in allowed_types and len(block.data) <= MEDIA_CHARACTERS:
                return {"type": block.type, "mime_type": mime_type, "data": block.data}
            return {"type": "text", "text": f"({block.type}, {block.mime_type}, not shown here)"}
        case ResourceBlock():
            text = truncate(block.text) if block.text is not None else None
            return {"type": "resource", "uri": block.uri, "name": block.name, "text": text}
        case _:
            return {
                "type": "text",
                "text": truncate(to_json(as_data(block)).decode("utf-8", "replace")),
            }


def error_as_data(error: ExthostError) -> dict[str, Any]:
    """Return an error as data for the page, with the fields that the command line prints with
    --json."""
    fields = error.as_dict()
    return {**fields, "message": truncate(str(fields.get("message", "")), 20_000)}
