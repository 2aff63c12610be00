"""Which dialect a host speaks, by its first bytes.

Every host speaks first, and no two dialects begin alike: by the framing, by the method, or by what
`initialize` says about the host. Pure.
"""

from typing import Any

from exthost.sdk.types.json_text import decode

# Longer than the first message of any host, and short enough to be read twice.
MAX_FIRST_BYTES = 1024 * 1024

_HEADER = b"content-length"


def dialect_of(first: bytes) -> str | None:
    """Return the dialect of these first bytes; "" if none begins so, None if more are needed."""
    if first[:1] == b"\0":
        return "cigen"
    text = first.lstrip()
    start = text[: len(_HEADER)].lower()
    if start == _HEADER:
        return "synaps"
    if not text or (_HEADER.startswith(start) and start):
        return None
    line, newline, _ = text.partition(b"\n")
    if not newline:
        return None if text[:1] in b"{[" and len(text) < MAX_FIRST_BYTES else ""
    try:
        message = decode(line)
    except (ValueError, RecursionError):
        return ""
    if type(message) is list and message:
        message = message[0]
    return _of_message(message) if type(message) is dict else ""


def _of_message(message: dict[str, Any]) -> str:
    method, params = message.get("method"), message.get("params")
    if "jsonrpc" not in message:
        return "morphir" if type(method) is str else ""
    if type(method) is not str:
        return ""
    if method.startswith("extension/"):
        return "roder"
    members = params if type(params) is dict else {}
    if method == "initialize" and "protocolVersion" not in members:
        return "nexo"
    return "mcp"
