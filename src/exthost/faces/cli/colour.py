"""Colours text for a terminal. A stream that is not a terminal gets plain text.

The environment variables `NO_COLOR`, with any value but "", and `TERM=dumb` switch colours off.
Callers escape the text of extensions before they colour it, so that it cannot contain escape
sequences.
"""

import os
from typing import Final, TextIO

# By style: the parameters of the SGR escape sequence, which sets the colour on a terminal.
_CODES: Final = {"error": "1;31", "warning": "1;33", "info": "36", "place": "1;31", "label": "2"}


def paint(text: str, style: str, stream: TextIO) -> str:
    """Return the text in the colour of this style if the stream shows colours, else unchanged."""
    code = _CODES.get(style)
    if code is None or not wants_colour(stream):
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


def wants_colour(stream: TextIO) -> bool:
    """Return whether this stream is a terminal, and colours are not switched off."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()
