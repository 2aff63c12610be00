"""Reads the results of MCP tools: content blocks, `structuredContent` and `isError`.

The text of a result is the text of its blocks, joined by line breaks. The text of an embedded
resource is its contents, if they are text. The text of any other block is its type in brackets,
such as `[image: image/png]` or `[resource: URI]`. The text of a result that has only structured
content is that content as JSON. A malformed block, or one of an unknown type, is an `UnknownBlock`
with the block as it was sent.
"""

from typing import Any

from exthost import tool_result
from exthost.dialects.value_result import value_content, value_text

# The JSON fields of a tool result. Each is optional, but an object that has only other
# fields is not a tool result.
_RESULT_FIELDS = frozenset({"content", "structuredContent", "isError", "resultType", "_meta"})


def _is_error(result: Any) -> bool:
    return type(result) is dict and result.get("isError") is True


def _read_text(result: Any) -> str:
    if not _is_tool_result(result):
        return value_text(result)
    if not result.get("content"):
        return value_text(result["structuredContent"]) if "structuredContent" in result else ""
    return "\n".join(map(tool_result.block_text, _read_content(result)))


def _read_data(result: Any) -> Any:
    return result.get("structuredContent") if _is_tool_result(result) else result


def _read_content(result: Any) -> tuple[tool_result.Block, ...]:
    if not _is_tool_result(result):
        return value_content(result)
    return tuple(map(_parse_block, result.get("content", ())))


def _is_tool_result(result: Any) -> bool:
    """Return whether this is a result of `tools/call`. A hook may have replaced it by any value."""
    if type(result) is not dict or (result and _RESULT_FIELDS.isdisjoint(result)):
        return False
    return type(result.get("content", ())) in (list, tuple)


def _parse_block(sent: Any) -> tool_result.Block:
    if type(sent) is not dict:
        return tool_result.UnknownBlock(sent)
    match sent:
        case {"type": "text", "text": str(text)}:
            return tool_result.TextBlock(text)
        case {"type": "image", "data": str(data)}:
            return tool_result.ImageBlock(data, _text_or_empty(sent.get("mimeType")))
        case {"type": "audio", "data": str(data)}:
            return tool_result.AudioBlock(data, _text_or_empty(sent.get("mimeType")))
        case {"type": "resource_link", "uri": str()}:
            return _parse_resource(sent)
        case {"type": "resource", "resource": {"uri": str()} as resource}:
            return _parse_resource(resource)
    return tool_result.UnknownBlock(sent)


def _parse_resource(sent: dict[str, Any]) -> tool_result.ResourceBlock:
    text, data = sent.get("text"), sent.get("blob")
    return tool_result.ResourceBlock(
        sent["uri"],
        _text_or_empty(sent.get("mimeType")),
        text if type(text) is str else None,
        data if type(data) is str else None,
        _text_or_empty(sent.get("name")),
    )


def _text_or_empty(value: Any) -> str:
    return value if type(value) is str else ""


MCP_RESULT = tool_result.ResultReader(_is_error, _read_text, _read_data, _read_content)
