"""Encodes messages and results as JSON text, and decodes JSON text.

Python values without a JSON equivalent are written in the form that the schema of their type
describes: a dataclass or a pydantic model as an object, an enum by its value or its name, a set as
a list, bytes in base64, dates in ISO 8601. Infinity and NaN raise ValueError, since they are not
valid JSON.
"""

import base64
import dataclasses
import datetime
import enum
import json
import os
import types
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping, Set
from functools import cache
from math import isfinite
from typing import Any

from exthost_sdk.content import Content


def to_encodable(value: Any) -> Any:
    """Return a value with a JSON equivalent for one without. Raises TypeError if there is none."""
    if isinstance(value, Content):
        return value.as_text()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return enum_form(value)
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
    if isinstance(value, Coroutine | AsyncGenerator):
        raise TypeError(
            "a handler that returns an awaitable must be declared with `async def`; "
            f"this one returned {type(value).__name__}"
        )
    hint = ": return a list" if isinstance(value, Iterator) else ""
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON{hint}")


def enum_form(member: enum.Enum) -> Any:
    """Return the JSON form of a member of an enum: its value if those of all members are scalars,
    otherwise its name."""
    # The encoder writes a member that is a text or a number by itself, whatever its value.
    if isinstance(member, str):
        return str.__str__(member)
    if isinstance(member, int):
        return int.__int__(member)
    if isinstance(member, float):
        return float.__float__(member)
    return member.value if _has_scalar_values(type(member)) else member.name


@cache
def _has_scalar_values(cls: type[enum.Enum]) -> bool:
    return all(
        type(member.value) in (str, int, bool)
        or (type(member.value) is float and isfinite(member.value))
        for member in cls
    )


_separators = (",", ":")
_encode_plain = json.JSONEncoder(
    separators=_separators, ensure_ascii=False, allow_nan=False, default=to_encodable
).encode


def encode_text(value: Any) -> str:
    """Return a value as JSON text. Raises TypeError or ValueError."""
    try:
        return _encode_plain(value)
    except TypeError as error:  # perhaps the key of an object is an enum, a date or the like
        try:
            return _encode_plain(_with_plain_keys(value))
        except TypeError:
            raise error from None


def _with_plain_keys(value: Any) -> Any:
    """Return a value whose objects have keys that JSON allows. Raises TypeError if a value or a
    key has no JSON equivalent."""
    if isinstance(value, dict):
        return {_make_plain(key): _with_plain_keys(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_plain_keys(item) for item in value]
    if isinstance(value, types.GeneratorType):  # its items are gone
        raise TypeError("a generator can be read once")
    plain = _make_plain(value)
    return plain if plain is value else _with_plain_keys(plain)


def _make_plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else to_encodable(value)


def encode(value: Any) -> bytes:
    """Return a value as JSON. Raises TypeError or ValueError."""
    # UTF-8 cannot have a lone surrogate, which is written as \uXXXX.
    return encode_text(value).encode(errors="backslashreplace")


def to_text(value: Any) -> str:
    """Return the text of a result: what JSON writes as a text, such as an enum, a date or bytes,
    without its quotes, and any other value as JSON."""
    if type(value) is str:
        return value
    json_value = encode_text(value)
    return str(json.loads(json_value)) if json_value.startswith('"') else json_value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decoder: Any = json.JSONDecoder(parse_constant=_refuse_constant)
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
