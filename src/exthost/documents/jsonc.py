"""JSON as editors write it for themselves: with comments, and a comma after the last member.

Both are blanked out and nothing is moved, so that a mistake is still told at its place. Pure.
"""

import json
import re
from typing import Any

# A string is looked for first: what looks like a comment inside it is none.
_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)


def loads(text: str) -> Any:
    """The value in this text. Raises as `json.loads` does."""
    try:
        return json.loads(text)
    except ValueError:
        plain = _LAST_COMMA.sub(_blank, _COMMENT.sub(_blank, text))
        if plain == text:
            raise
    return json.loads(plain)


def _blank(found: re.Match[str]) -> str:
    said = found[0]
    return said if said[0] == '"' else re.sub(r"[^\n]", " ", said)
