"""The results of dialects whose tools return a plain value.

The data of such a result is the value itself. Its text is the value if that is a string, else the
value as compact JSON. It is never marked as an error: these dialects send error replies.

Dialects with a result format of their own use these functions for a value that does not have it.
"""

from typing import Any

from exthost.errors import ProtocolViolation, UsageError
from exthost.tool_result import Block, ResultReader, TextBlock
from exthost.wire import jsontext

__all__ = ["VALUE_RESULT", "value_content", "value_text"]


def value_text(value: Any) -> str:
    """Return a string as it is, and any other value as compact JSON.

    Raises ProtocolViolation for what cannot be written as JSON.
    """
    if isinstance(value, str):
        return value
    try:
        return jsontext.encode(value).decode()
    except UsageError as problem:  # it was read as JSON, so only its depth can be in the way
        raise ProtocolViolation(
            "X0665",
            f"its result has no text: {problem.message}",
            help="it is nested too deeply; the extension should return something flatter",
        ) from None


def value_content(value: Any) -> tuple[Block, ...]:
    """Return one block with the text of the value."""
    return (TextBlock(value_text(value)),)


def _data(value: Any) -> Any:
    return value


VALUE_RESULT = ResultReader(None, value_text, _data, value_content)
