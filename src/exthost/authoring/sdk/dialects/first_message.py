"""Detects which dialect a host speaks, from the first bytes that it sends.

In every dialect the host sends the first message, and no first message is valid in two dialects.
They differ in the framing, in the method, or in the params of `initialize`. Pure.
"""

from typing import Any

from exthost.authoring.sdk.types.json_text import decode

# An upper bound of the first message: longer than that of any host, and small enough to be parsed
# twice, here and by the endpoint.
MAX_FIRST_BYTES = 1024 * 1024

_HEADER = b"content-length"


def detect_dialect(first_bytes: bytes) -> str | None:
    """Return the name of the dialect; "" if the bytes begin no message of any dialect; None if more
    bytes are needed to decide."""
    # cigen: a message begins with its length as a 32-bit big-endian number. The first message is
    # shorter than 16 MiB, so the highest byte is 0, with which no text begins.
    if first_bytes[:1] == b"\0":
        return "cigen"
    text = first_bytes.lstrip()
    header = text[: len(_HEADER)].lower()
    # synaps: the only dialect whose frames have headers.
    if header == _HEADER:
        return "synaps"
    # Nothing but white space so far, or only the beginning of that header.
    if not text or (_HEADER.startswith(header) and header):
        return None
    # All others send JSON, one message per line.
    line, newline, _ = text.partition(b"\n")
    if not newline:
        return None if text[:1] in b"{[" and len(text) < MAX_FIRST_BYTES else ""
    try:
        message = decode(line)
    except (ValueError, RecursionError):
        return ""
    if type(message) is list and message:  # a batch of JSON-RPC messages
        message = message[0]
    return _detect_by_message(message) if type(message) is dict else ""


def _detect_by_message(message: dict[str, Any]) -> str:
    method, params = message.get("method"), message.get("params")
    # morphir: the only dialect with JSON that is not JSON-RPC.
    if "jsonrpc" not in message:
        return "morphir" if type(method) is str else ""
    if type(method) is not str:
        return ""
    # roder: the handshake is extension/initialize.
    if method.startswith("extension/"):
        return "roder"
    # nexo and mcp both begin with initialize; only that of mcp has a protocolVersion.
    fields = params if type(params) is dict else {}
    if method == "initialize" and "protocolVersion" not in fields:
        return "nexo"
    # mcp may also begin with other methods, such as server/discover.
    return "mcp"
