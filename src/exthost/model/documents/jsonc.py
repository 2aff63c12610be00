"""Parses JSON with comments and trailing commas, as editors allow in their settings files.

    {"servers": {"weather": {"command": "weather-server"},}}   // the comma before } is allowed

The configs of other MCP clients, which exthost reads, may have this form. Comments and trailing
commas are replaced by blanks, so that the line and the column in an error message stay correct.
"""

import json
import re
from typing import Any

# Strings are matched first, because text in a string may look like a comment.
# A string without its end matches to the end of the text, and is looked at only once.
_STRING = r'"(?:\\.|[^"\\])*+"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)


def loads(text: str) -> Any:
    """Return the value of this text. Raises ValueError or RecursionError, as `json.loads` does."""
    try:
        return json.loads(text)
    except ValueError:
        plain = strict_text(text)
        if plain == text:
            raise
    return json.loads(plain)


def strict_text(text: str) -> str:
    """Return the text with blanks in place of comments and trailing commas."""
    return _LAST_COMMA.sub(_blank, without_comments(text))


def without_comments(text: str) -> str:
    """Return the text with blanks in place of comments."""
    return _COMMENT.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    """Return a match with each character except line ends replaced by a blank. A string is returned
    unchanged."""
    text = match[0]
    return text if text[0] == '"' else re.sub(r"[^\n]", " ", text)
