"""The results of MCP tools: content blocks, `structuredContent` and `isError`.

The text of a result is the text of its blocks, joined by line breaks; a block that is not text is
named in brackets. The text of a result with structured content only is that content as JSON. A
malformed block, or one of an unknown kind, stays in `content` unchanged.
"""

from typing import Any

from exthost.dialects.value_result import value_content, value_text
from exthost.tool_result import (
    AudioBlock,
    Block,
    ImageBlock,
    ResourceBlock,
    ResultReader,
    TextBlock,
    UnknownBlock,
)

__all__ = ["MCP_RESULT"]

# Each of these members is optional.
_MEMBERS = frozenset({"content", "structuredContent", "isError", "resultType", "_meta"})


def _is_error(result: Any) -> bool:
    return type(result) is dict and result.get("isError") is True


def _text(result: Any) -> str:
    if not _is_tool_result(result):
        return value_text(result)
    if not result.get("content"):
        return value_text(result["structuredContent"]) if "structuredContent" in result else ""
    return "\n".join(map(_block_text, _content(result)))


def _data(result: Any) -> Any:
    return result.get("structuredContent") if _is_tool_result(result) else result


def _content(result: Any) -> tuple[Block, ...]:
    if not _is_tool_result(result):
        return value_content(result)
    return tuple(map(_block, result.get("content", ())))


def _is_tool_result(result: Any) -> bool:
    """Return whether this is the result of `tools/call`, and not what a hook put in its place."""
    if type(result) is not dict or (result and _MEMBERS.isdisjoint(result)):
        return False
    return type(result.get("content", ())) in (list, tuple)


def _block(sent: Any) -> Block:
    if type(sent) is not dict:
        return UnknownBlock(sent)
    match sent:
        case {"type": "text", "text": str(text)}:
            return TextBlock(text)
        case {"type": "image", "data": str(data)}:
            return ImageBlock(data, _string(sent.get("mimeType")))
        case {"type": "audio", "data": str(data)}:
            return AudioBlock(data, _string(sent.get("mimeType")))
        case {"type": "resource_link", "uri": str()}:
            return _resource(sent)
        case {"type": "resource", "resource": {"uri": str()} as resource}:
            return _resource(resource)
    return UnknownBlock(sent)


def _resource(sent: dict[str, Any]) -> ResourceBlock:
    text, data = sent.get("text"), sent.get("blob")
    return ResourceBlock(
        sent["uri"],
        _string(sent.get("mimeType")),
        text if type(text) is str else None,
        data if type(data) is str else None,
        _string(sent.get("name")),
    )


def _string(value: Any) -> str:
    return value if type(value) is str else ""


def _block_text(block: Block) -> str:
    match block:
        case TextBlock(text):
            return text
        case ResourceBlock(text=str(text)):
            return text
        case ResourceBlock(uri=uri):
            return f"[resource: {uri}]"
        case ImageBlock(mime_type=kind) | AudioBlock(mime_type=kind):
            return f"[{block.type}: {kind}]" if kind else f"[{block.type}]"
        case UnknownBlock(raw):
            kind = _string(raw.get("type")) if type(raw) is dict else ""
            return f"[{kind or 'unknown content'}]"


MCP_RESULT = ResultReader(_is_error, _text, _data, _content)
