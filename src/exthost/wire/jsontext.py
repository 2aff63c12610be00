"""Decodes JSON text to values, and encodes values to JSON text.

This is the only module that imports msgspec. It uses the standard library's json in two cases: for
text that msgspec rejects although other programs write it (Node escapes lone surrogates), and for
everything if msgspec is not installed, so that extension authors can share this code without a
dependency.

Whatever the bytes are (not UTF-8, NaN, a hundred thousand brackets), this module raises only
`NotJson` and `UsageError`.

Messages are decoded into plain dicts, not into a typed envelope. The presence of a member is then
simply `in`, and a reply of a hundred bytes takes 0.61 µs instead of 0.76 µs.
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

# `"id": 7` after members that are strings, numbers or literals; an id inside a nested value is not
# the message's own. There must be no `method` before it or right after it: a message with a method
# is not a reply.
_LEADING_ID = re.compile(
    rb'\s*\{(?:\s*"(?!method")[^"\\]*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[-+.\w]+)\s*,)*?'
    rb'\s*"id"\s*:\s*(\d{1,20})\s*(?:\}|,(?!\s*"method"))'
)


class NotJson(ValueError):
    """The bytes are not valid JSON. The text gives the reason."""


def _reject_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise NotJson(f"{digits[:40]} is out of range")
    return number


def _decode_slowly(text: Bytes) -> Any:
    # Decoded first: given bytes, json would also accept UTF-16 and half a surrogate pair.
    return json.loads(str(text, "utf-8"), parse_constant=_reject_constant, parse_float=_finite)


def _encode_slowly(value: Any) -> bytes:
    return _dump(value, ascii_only=False).encode()


def _dump(value: Any, *, ascii_only: bool) -> str:
    dump = partial(json.dumps, separators=(",", ":"), allow_nan=False, ensure_ascii=ascii_only)
    try:
        return dump(value)
    except ValueError:  # NaN or infinity; for any other cause the second try fails in the same way
        return dump(_without_nan(value))


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(member) for member in value]
    return value


# A codec may try these first on its hot path. If they raise, `decode` and `encode` give the reason.
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
    """Return the value of this JSON text. Of two members with one name, the last counts.

    Raises NotJson.
    """
    try:
        return decode_fast(text)
    except RecursionError:
        raise NotJson("nested too deeply") from None
    except ValueError as error:  # every other error of msgspec or json is a ValueError
        if b"\\u" not in bytes(text):
            raise NotJson(f"not JSON: {error}") from None
    try:
        return _decode_slowly(text)
    except RecursionError:
        raise NotJson("nested too deeply") from None
    except ValueError as error:
        raise NotJson(f"not JSON: {error}") from None


def reply_decoder(*markers: str) -> Callable[[list[Any]], list[tuple[int, Any]] | None]:
    """Return a function that decodes many plain replies together, in half the time.

    A plain reply is an object with exactly these members: `id` (a number), `result` and the
    markers. The function takes frames and returns one `(id, result)` for each frame. It returns
    None if any frame is something else, and always if msgspec is not installed.
    """
    if decode_fast is _decode_slowly:
        return lambda frames: None
    members: list[Any] = [("id", Annotated[int, msgspec.Meta(ge=0)]), "result", *markers]
    kind = msgspec.defstruct("PlainReply", members, forbid_unknown_fields=True, gc=False)
    decode_lines = msgspec.json.Decoder(kind).decode_lines
    pair = attrgetter("id", "result")

    def decode_replies(frames: list[Any]) -> list[tuple[int, Any]] | None:
        try:
            lines = b"\n".join(frames)  # raises if an item is not a frame
            # A value could continue on the next line, and a line could hold two values. But inside
            # a value no newline is between `}` and `{`. So if every newline is there, each frame
            # holds at least one value; if there are as many values as frames, each holds one. The
            # search includes the beginning of the first frame: a longer text is found faster.
            gaps = len(frames) - 1
            if lines[:1] != b"{" or lines[-1:] != b"}" or lines.count(b"\n") != gaps:
                return None
            if lines.count(b"}\n" + lines[:6]) != gaps:
                return None
            replies = decode_lines(lines)
        except Exception:  # the caller decodes frame by frame and gets the reason there
            return None
        return list(map(pair, replies)) if len(replies) == len(frames) else None

    return decode_replies


def encode(value: Any) -> bytes:
    """Return compact JSON in UTF-8. Members keep their order; NaN and infinity become null.

    Raises UsageError.
    """
    try:
        return encode_fast(value)
    except UnicodeEncodeError:  # a lone surrogate: only an escape can carry it
        return _encode_with_escapes(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as refused:
        raise _unwritable(refused) from None


def canonical(value: Any) -> str:
    """Return compact JSON with sorted members, so that equal values give equal texts."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError, OverflowError) as refused:
        raise _unwritable(refused) from None


def display_text(value: Any) -> str:
    """Return a decoded value as text for a person. Never raises."""
    try:
        return encode(value).decode("utf-8", "replace")
    except UsageError:  # nested too deeply to encode, but not to decode
        return "(a value nested too deeply to be shown)"


def _encode_with_escapes(value: Any) -> bytes:
    try:
        return _dump(value, ascii_only=True).encode()
    except (TypeError, ValueError, RecursionError, OverflowError) as refused:
        raise _unwritable(refused) from None


def _unwritable(refused: Exception) -> UsageError:
    return UsageError(
        "X1302",
        f"this value cannot be written as JSON: {refused}",
        help="use dicts with string keys, lists, strings, numbers, booleans and None",
    )


def leading_id(head: bytes) -> int | None:
    """Return the number under `id` of an object of which only the beginning is known, or None."""
    match = _LEADING_ID.match(head)
    return int(match[1]) if match else None
