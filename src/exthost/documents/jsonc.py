"""JSON as editors use it for their own settings: with comments, and a comma after the last member.

Both are replaced by blanks, so that every error is still reported at its place. Pure.
"""

import json
import re
from typing import Any

# Strings are matched first, because text in a string may look like a comment.
_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)


def loads(text: str) -> Any:
    """Return the value of this text. Raises as `json.loads` does."""
    try:
        return json.loads(text)
    except ValueError:
        plain = _LAST_COMMA.sub(_blank, _COMMENT.sub(_blank, text))
        if plain == text:
            raise
    return json.loads(plain)


def _blank(match: re.Match[str]) -> str:
    text = match[0]
    return text if text[0] == '"' else re.sub(r"[^\n]", " ", text)
