"""Reads the results of synaps tools. A result is any JSON value."""

from typing import Any

from exthost.dialects.value_result import VALUE_RESULT, value_text
from exthost.tool_result import Block, TextBlock


def has_text(result: Any) -> bool:
    """Return whether a result is an object with text in `content`; the result then stands for that
    text."""
    return type(result) is dict and type(result.get("content")) is str


def _read_text(result: Any) -> str:
    return value_text(result["content"] if has_text(result) else result)


def _read_content(result: Any) -> tuple[Block, ...]:
    return (TextBlock(_read_text(result)),)


SYNAPS_RESULT = VALUE_RESULT._replace(text=_read_text, content=_read_content)
