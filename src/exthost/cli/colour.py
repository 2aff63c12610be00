"""Colours, for a terminal that can show them. Everything else gets plain text.

`NO_COLOR` with any value, and `TERM=dumb`, switch them off. Text of extensions is escaped before it
is coloured, so it cannot add colours of its own.
"""

import os
from typing import Final, TextIO

_CODES: Final = {"error": "1;31", "warning": "1;33", "info": "36", "place": "1;31", "label": "2"}


def painted(text: str, style: str, stream: TextIO) -> str:
    """Return the text in the colour of this style, if the stream is a terminal that wants it."""
    code = _CODES.get(style)
    if code is None or not wants_colour(stream):
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


def wants_colour(stream: TextIO) -> bool:
    """Return whether colours can be written to this stream."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()
