"""Decodes JSON text to values, and encodes values to JSON text.

All dialects with JSON messages use it, in the host and in the SDK. It calls msgspec, and the
standard library's json in two cases: for text that msgspec rejects although other programs write it
(Node writes a lone surrogate, half of a surrogate pair, as `\\ud800`), and for everything if
msgspec is not installed, so that the SDK needs no other package.

Whatever the bytes are (not UTF-8, NaN, a hundred thousand brackets), this module raises only
`NotJson` and `UsageError`.

Messages are decoded into plain dicts, not into typed structs: so `in` tells a missing field from
null, and decoding a reply of a hundred bytes takes 0.61 µs instead of 0.76 µs.
"""

import json
import math
import re
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, NoReturn

from exthost.errors import UsageError
from exthost.wire.framing import Bytes

# Matches `"id": 7` after fields that are strings, numbers or literals. After a nested value it does
# not match, because an id inside that value would not be the id of the message. There must be no
# `method` before the id or right after it, because a message with a method is not a reply.
_LEADING_ID = re.compile(
    rb'\s*\{(?:\s*"(?!method")[^"\\]*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[-+.\w]+)\s*,)*?'
    rb'\s*"id"\s*:\s*(\d{1,20})\s*(?:\}|,(?!\s*"method"))'
)

# Matches the beginning of a text that is not a reply: neither an object nor an array (a batch), or
# an object with a `method` after fields as above.
_NOT_A_REPLY = re.compile(
    rb'\s*(?:[^\s{\[]|\{(?:\s*"[^"\\]*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[-+.\w]+)\s*,)*?'
    rb'\s*"method"\s*:)'
)

# DEL, the C1 control characters and the characters that change the direction of text, in UTF-8.
_TERMINAL_CONTROLS = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]"
)


class NotJson(ValueError):
    """The bytes are not valid JSON. The text gives the reason."""


def _reject_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not allowed")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise NotJson(f"{digits[:40]} is out of range")
    return number


def _decode_slowly(text: Bytes) -> Any:
    """Decode with the standard library."""
    # The bytes are decoded here, because json.loads would also accept UTF-16, and surrogates that
    # are encoded as bytes.
    return json.loads(str(text, "utf-8"), parse_constant=_reject_constant, parse_float=_parse_float)


def _encode_slowly(value: Any) -> bytes:
    """Encode with the standard library."""
    return _dump(value, ascii_only=False).encode()


def _dump(value: Any, *, ascii_only: bool) -> str:
    dump = partial(json.dumps, separators=(",", ":"), allow_nan=False, ensure_ascii=ascii_only)
    try:
        return dump(value)
    except ValueError:  # NaN or infinity; for another cause the second try fails, too
        return dump(_replace_nan(value))


def _replace_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _replace_nan(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_nan(member) for member in value]
    return value


# The exceptions that the functions below raise for a value or a text that they cannot handle. An
# exception of another type comes from a signal handler, such as a time limit, and must not be
# caught.
ENCODE_ERRORS = (TypeError, ValueError, RecursionError, OverflowError)
DECODE_ERRORS = (ValueError, RecursionError)

# A codec may call these two functions first on its hot path. If one raises an error of
# `DECODE_ERRORS` or `ENCODE_ERRORS`, it calls `decode` or `encode`, which handle the rare cases and
# raise errors with the reason.
decode_fast: Callable[[Bytes], Any] = _decode_slowly
encode_fast: Callable[[Any], bytes] = _encode_slowly
try:
    import msgspec
except ImportError:  # pragma: no cover - the SDK's own tests run without it
    pass
else:
    decode_fast = msgspec.json.Decoder().decode
    encode_fast = msgspec.json.Encoder().encode


def decode(text: Bytes) -> Any:
    """Return the value of this JSON text. Of two fields with the same name, the last is used.

    Raises NotJson.
    """
    try:
        return decode_fast(text)
    except RecursionError:
        raise NotJson("nested too deeply") from None
    except ValueError as error:  # every other error of msgspec or json is a ValueError
        if b"\\u" not in bytes(text):
            raise NotJson(f"not JSON: {error}") from None
    # The text has an escape. If that is a lone surrogate, msgspec rejects it and json accepts it.
    try:
        return _decode_slowly(text)
    except RecursionError:
        raise NotJson("nested too deeply") from None
    except ValueError as error:
        raise NotJson(f"not JSON: {error}") from None


def reply_decoder(*markers: str) -> Callable[[list[Any]], list[tuple[int, Any]] | None]:
    """Return a function that decodes many plain replies at once, in half the time.

    A plain reply is an object with exactly these fields: `id` (an integer that is not negative),
    `result` and those in `markers`, such as `jsonrpc`, whose values are not checked. The function
    takes frames and returns one `(id, result)` for each frame. It returns None if any frame is
    something else, and always if msgspec is not installed. The caller then decodes each frame by
    itself.
    """
    if decode_fast is _decode_slowly:  # msgspec is not installed
        return lambda frames: None
    fields: list[Any] = [("id", Annotated[int, msgspec.Meta(ge=0)]), "result", *markers]
    reply_type = msgspec.defstruct("PlainReply", fields, forbid_unknown_fields=True, gc=False)
    decode_lines = msgspec.json.Decoder(reply_type).decode_lines
    get_pair = attrgetter("id", "result")

    def decode_replies(frames: list[Any]) -> list[tuple[int, Any]] | None:
        try:
            lines = b"\n".join(frames)  # raises TypeError if an item is not a frame
            # `decode_lines` does not check that each line is one value. So three things are
            # checked: No frame contains a newline. Between two frames there is `}`, newline, `{`,
            # which valid JSON cannot contain, so no value continues in the next frame. There are as
            # many values as frames. Instead of `{`, six bytes are searched for: a longer text is
            # found faster.
            gaps = len(frames) - 1
            if lines[:1] != b"{" or lines[-1:] != b"}" or lines.count(b"\n") != gaps:
                return None
            if lines.count(b"}\n" + lines[:6]) != gaps:
                return None
            replies = decode_lines(lines)
        except (TypeError, *DECODE_ERRORS):  # decoding frame by frame gives the reason
            return None
        return list(map(get_pair, replies)) if len(replies) == len(frames) else None

    return decode_replies


def encode(value: Any) -> bytes:
    """Return compact JSON in UTF-8. Fields keep their order; NaN and infinity become null.

    Raises UsageError.
    """
    try:
        return encode_fast(value)
    except UnicodeEncodeError:  # a lone surrogate, which can only be written as an escape
        return _encode_with_escapes(value)
    except ENCODE_ERRORS as error:
        raise _not_encodable_error(error) from None


def canonical(value: Any) -> str:
    """Return compact JSON with sorted fields, so that equal values give equal texts."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except ENCODE_ERRORS as error:
        raise _not_encodable_error(error) from None


def display_text(value: Any) -> str:
    """Return a decoded value as text for a person. Never raises."""
    try:
        return encode(value).decode("utf-8", "replace")
    except UsageError:  # the value could be decoded, but is nested too deeply to be encoded
        return "(a value nested too deeply to be shown)"


def _encode_with_escapes(value: Any) -> bytes:
    try:
        return _dump(value, ascii_only=True).encode()
    except ENCODE_ERRORS as error:
        raise _not_encodable_error(error) from None


def _not_encodable_error(error: Exception) -> UsageError:
    return UsageError(
        "X1302",
        f"this value cannot be written as JSON: {error}",
        help="use dicts with string keys, lists, strings, numbers, booleans and None",
    )


def escape_terminal_controls(text: bytes) -> bytes:
    """Return JSON text of the same value that is safe to print: characters that control a terminal
    or change the direction of text, and that JSON allows in strings, are escaped."""
    return _TERMINAL_CONTROLS.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), text)


def leading_id(head: bytes) -> int | None:
    """Return the id of a reply of which only the beginning is known, because the rest is missing or
    too long. Return None if the beginning has no id that is a number. A request whose `method` does
    not come before or right after the id looks like a reply."""
    match = _LEADING_ID.match(head)
    return int(match[1]) if match else None


def may_be_reply(head: bytes) -> bool:
    """Return whether a text that begins with these bytes may be a reply. It is not one if it is not
    an object or a list, or has a field `method`, as requests and notifications have."""
    return _NOT_A_REPLY.match(head) is None
