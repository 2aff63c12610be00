"""Detects which dialect a host speaks, from the first bytes that it sends.

An extension that is started without `--dialect` speaks the dialect of its host. In every dialect
the host sends the first message, and no first message is valid in two built-in dialects: one that
begins with `Content-Length:` is synaps, for example. Each dialect recognises its own
(`SdkDialect.recognises`).
"""

from typing import Any

from exthost_sdk.dialects import built_in_names, load_dialect, load_installed
from exthost_sdk.types.json_text import decode

# An upper bound of the first message: longer than that of any host, and small enough to be parsed
# twice, here and by the endpoint.
MAX_FIRST_BYTES = 1024 * 1024


def detect_dialect(first_bytes: bytes) -> str | None:
    """Return the name of the dialect; "" if the bytes begin no message of any dialect; None if more
    bytes are needed to decide."""
    text = first_bytes.lstrip()
    if not text:
        return None
    message = _read_message(text)
    # A JSON message ends with a newline. Before that, more bytes are needed, up to the limit.
    is_undecided = b"\n" not in text and text[:1] in b"{[" and len(text) < MAX_FIRST_BYTES
    dialects = [(name, load_dialect(name)) for name in built_in_names()]
    for name, dialect in sorted(dialects, key=lambda row: row[1].is_tried_last):
        verdict = dialect.recognises(first_bytes, message)
        if verdict:
            return name
        is_undecided = is_undecided or verdict is None
    if is_undecided:
        return None
    for name, dialect in load_installed():
        verdict = dialect.recognises(first_bytes, message)
        if verdict:
            return name
        is_undecided = is_undecided or verdict is None
    return None if is_undecided and len(text) < MAX_FIRST_BYTES else ""


def _read_message(text: bytes) -> dict[str, Any] | None:
    """Return the JSON object on the first line; None if there is none yet, or none at all. Of a
    batch of messages, return the first."""
    line, newline, _ = text.partition(b"\n")
    try:
        message = decode(line) if newline else None
    except (ValueError, RecursionError):
        return None
    if type(message) is list and message:
        message = message[0]
    return message if type(message) is dict else None
