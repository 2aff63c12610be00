"""Encodes messages and results as JSON text, and decodes JSON text.

Python values without a JSON equivalent are written in the form that the schema of their type
describes: a dataclass or a pydantic model as an object, an enum by its value, a set as a list,
bytes in base64, dates in ISO 8601. Infinity and NaN raise ValueError, since they are not valid
JSON.
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


def to_encodable(value: Any) -> Any:
    """Return a value with a JSON equivalent for one without. Raises TypeError if there is none."""
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
    separators=_separators, ensure_ascii=False, allow_nan=False, default=to_encodable
).encode
_encode_ascii = json.JSONEncoder(
    separators=_separators, allow_nan=False, default=to_encodable
).encode


def encode(value: Any) -> bytes:
    """Return a value as JSON. Raises TypeError or ValueError."""
    try:
        return encode_text(value).encode()
    except UnicodeEncodeError:  # a lone surrogate, which can only be written as \uXXXX
        return _encode_ascii(value).encode()


def to_text(value: Any) -> str:
    """Return the text of a result: what JSON writes as a text, such as an enum, a date or bytes,
    without its quotes, and any other value as JSON."""
    if type(value) is str:
        return value
    json_value = encode_text(value)
    return str(json.loads(json_value)) if json_value.startswith('"') else json_value


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
    return _decode_any(text)  # white space surrounds the value, or the text is not JSON
