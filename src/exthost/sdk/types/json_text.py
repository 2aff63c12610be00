"""JSON text of messages and results.

Values that JSON does not have are written as their types' schemas say: a dataclass or a pydantic
model as an object, an enum by its value, a set as a list, bytes in base64, dates in ISO 8601.
Numbers that are not finite are refused, since no JSON parser has to accept them.
"""

import base64
import dataclasses
import datetime
import enum
import json
import os
import types
from collections.abc import Mapping, Set
from typing import Any


def encodable(value: Any) -> Any:
    """Return a value that JSON has, for one that it does not have. Raises TypeError."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set | types.GeneratorType):
        return list(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if type(value).__module__ == "uuid":
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


_separators = (",", ":")
encode_text = json.JSONEncoder(
    separators=_separators, ensure_ascii=False, allow_nan=False, default=encodable
).encode
_encode_ascii = json.JSONEncoder(separators=_separators, allow_nan=False, default=encodable).encode


def encode(value: Any) -> bytes:
    """Return a value as JSON. Raises TypeError or ValueError."""
    try:
        return encode_text(value).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can carry
        return _encode_ascii(value).encode()


_decoder: Any = json.JSONDecoder()
_scan, _decode_any = _decoder.scan_once, _decoder.decode


def decode(data: bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError or RecursionError."""
    text = data.decode()
    try:
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except StopIteration:
        pass
    return _decode_any(text)  # with white space about it, or not JSON
