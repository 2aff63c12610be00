"""Reads the tool results of dialects whose tools return a plain JSON value.

The data of such a result is the value itself. Its text is the value if that is a string, and the
value as compact JSON otherwise. It is never an error result, because tools of these dialects report
errors with error replies.

Dialects that have their own result format use these functions as well: a hook may replace a result
by a plain value that does not have this format.
"""

from typing import Any

from exthost.errors import ProtocolViolation, UsageError
from exthost.tool_result import Block, ResultReader, TextBlock
from exthost.wire import jsontext


def value_text(value: Any) -> str:
    """Return a string as it is, and any other value as compact JSON.

    Raises ProtocolViolation for a value that cannot be written as JSON.
    """
    if isinstance(value, str):
        return value
    try:
        return jsontext.encode(value).decode()
    except UsageError as problem:  # it was decoded from JSON, so it can only be nested too deeply
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
