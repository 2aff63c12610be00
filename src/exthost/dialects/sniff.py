"""What a child's first bytes look like, for telling someone that the wrong dialect was chosen."""

from exthost.wire.framing import Framing
from exthost.wire.headers import Headers
from exthost.wire.lines import Lines
from exthost.wire.prefixed import Prefixed


def looks_like(first: bytes) -> tuple[type[Framing], str] | None:
    """The framing these bytes seem to be in and how to say so, or None if they tell nothing."""
    text = first.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:15].lower() == b"content-length:":
        return Headers, "answers in Content-Length frames (synaps, or a language server)"
    if text[:1] == b"{":
        return Lines, "answers in lines of JSON (morphir, nexo, roder, mcp)"
    if len(first) >= 5 and first[:1] == b"\0":
        return Prefixed, "answers in length-prefixed frames (cigen)"
    return None
