"""Converts JSON values to values of Python types, with an error message for each mismatch.

A handler declares the types of its arguments; the host sends JSON. A converter is a function that
takes a JSON value and its path (such as `items[2].name`). It returns the converted value, or raises
`Mismatch` with the path and what was expected:

    >>> convert = build_converter(list[datetime.date])
    >>> convert(["2026-01-31"], "days")
    [datetime.date(2026, 1, 31)]
    >>> convert(["soon"], "days")
    Mismatch: days[0]: expected a date (YYYY-MM-DD), got 'soon'

It accepts exactly the values that the JSON schema of the same type accepts, so that an extension
behaves alike with hosts that check arguments against the schema and hosts that do not. Formats of
text (dates, UUIDs, base64) are checked here as well, although hosts may ignore `format` in a
schema.
"""

import base64
import collections.abc
import dataclasses
import datetime
import enum
import inspect
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from exthost_sdk.errors import UnsupportedType
from exthost_sdk.types import schema as schemas
from exthost_sdk.types.constraints import Param, read_metadata
from exthost_sdk.types.json_text import enum_form

Converter = Callable[[Any, str], Any]

# How much of a value an error message quotes.
_SHOWN_CHARACTERS = 60


class Mismatch(Exception):
    """A value does not have the type that is expected at its path."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}" if path else text)


def build_converter(annotation: Any) -> Converter:
    """Return the converter for a type. Raises UnsupportedType."""
    return _Builder().build(annotation)


def show(value: Any) -> str:
    """Return the repr of a value for an error message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def keep(value: Any, path: str) -> Any:
    """Return the value unchanged: the converter for types that accept anything."""
    return value


def _exact_converter(python_type: type, expected: str) -> Converter:
    """Return a converter that accepts values of exactly this type. `expected` describes them in an
    error message."""

    def convert(value: Any, path: str) -> Any:
        if type(value) is python_type:
            return value
        raise Mismatch(path, f"expected {expected}, got {show(value)}")

    return convert


def _integer(value: Any, path: str) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JSON does not distinguish 1.0 from 1
        return int(value)
    raise Mismatch(path, f"expected a whole number, got {show(value)}")


def _number(value: Any, path: str) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            pass
    raise Mismatch(path, f"expected a number, got {show(value)}")


def _text_converter(parse: Callable[[str], Any], expected: str) -> Converter:
    """Return a converter for text that `parse` accepts."""

    def convert(value: Any, path: str) -> Any:
        if type(value) is str:
            try:
                return parse(value)
            except ValueError:
                pass
        raise Mismatch(path, f"expected {expected}, got {show(value)}")

    return convert


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_LIST = _exact_converter(list, "a list")
_OBJECT = _exact_converter(dict, "an object")

_SCALARS: Mapping[Any, Converter] = {
    Any: keep,
    object: keep,
    inspect.Parameter.empty: keep,
    None: _exact_converter(type(None), "null"),
    type(None): _exact_converter(type(None), "null"),
    str: _exact_converter(str, "text"),
    int: _integer,
    float: _number,
    bool: _exact_converter(bool, "true or false"),
    bytes: _text_converter(_decode_base64, "text in base64"),
    datetime.datetime: _text_converter(
        datetime.datetime.fromisoformat, "a date and time (ISO 8601)"
    ),
    datetime.date: _text_converter(datetime.date.fromisoformat, "a date (YYYY-MM-DD)"),
    datetime.time: _text_converter(datetime.time.fromisoformat, "a time (HH:MM:SS)"),
    list: _LIST,
    dict: _OBJECT,
}


class _Builder:
    """Builds converters. Those of classes are cached, because a class may contain itself."""

    def __init__(self) -> None:
        self._classes: dict[Any, Converter] = {}

    def build(self, annotation: Any) -> Converter:
        annotation = schemas.resolve(annotation)
        if isinstance(annotation, collections.abc.Hashable) and annotation in _SCALARS:
            return _SCALARS[annotation]
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            return _bounded_converter(
                self.build(arguments[0]), read_metadata(annotation.__metadata__)
            )
        if origin is typing.Literal:
            return _choice_converter((_unwrap_enum(value), value) for value in arguments)
        if origin in (typing.Union, types.UnionType):
            return _union_converter([self.build(argument) for argument in arguments])
        if origin in schemas.ARRAYS:
            return _array_converter(self.build(arguments[0]), list)
        if annotation in (set, frozenset) or origin in schemas.SETS:
            return _set_converter(
                self.build(arguments[0] if arguments else Any), origin or annotation
            )
        if annotation is tuple or origin is tuple:
            return self._tuple(arguments or (Any, ...), tuple)
        if origin in schemas.OBJECTS:
            return _mapping_converter(self.build(arguments[0]), self.build(arguments[1]))
        if isinstance(annotation, type):
            return self._class(annotation)
        raise UnsupportedType(f"{annotation!r} has no JSON schema")

    def _tuple(self, arguments: tuple[Any, ...], make: Callable[[Any], Any]) -> Converter:
        """Return the converter for a tuple with items of these types. `make` makes it of a list."""
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return _array_converter(self.build(arguments[0]), make)
        converters = [self.build(argument) for argument in arguments]

        def convert(value: Any, path: str) -> Any:
            items = _LIST(value, path)
            if len(items) != len(converters):
                raise Mismatch(path, f"expected {len(converters)} items, got {len(items)}")
            pairs = enumerate(zip(converters, items, strict=True))
            return make([converter(item, f"{path}[{index}]") for index, (converter, item) in pairs])

        return convert

    def _class(self, cls: Any) -> Converter:
        """Return the converter for a class."""
        if issubclass(cls, enum.Enum):
            return _choice_converter(schemas.enum_values(cls).items())
        if schemas.is_pydantic_model(cls):
            return _pydantic_converter(cls)
        if issubclass(cls, os.PathLike):
            return _text_converter(cls, "a path")
        if schemas.is_uuid(cls):
            return _text_converter(cls, "a UUID")
        if schemas.is_named_tuple(cls):
            hints = schemas.type_hints(cls)
            return self._tuple(tuple(hints[name] for name in cls._fields), cls._make)
        if not dataclasses.is_dataclass(cls) and not schemas.is_typed_dict(cls):
            raise UnsupportedType(f"{cls.__qualname__} has no JSON schema")
        if cls not in self._classes:
            # The converter is stored before its members are built, because a member may be of the
            # same class.
            members: dict[str, Converter] = {}
            self._classes[cls] = _object_converter(
                cls, members, frozenset(schemas.required_members(cls))
            )
            for name, (annotation, _) in schemas.get_members(cls).items():
                members[name] = self.build(annotation)
        return self._classes[cls]


def _unwrap_enum(value: Any) -> Any:
    return enum_form(value) if isinstance(value, enum.Enum) else value


def _bounded_converter(convert: Converter, bounds: Param) -> Converter:
    """Return a converter that also checks the bounds of a value, if there are any."""
    if not bounds:
        return convert

    def convert_bounded(value: Any, path: str) -> Any:
        converted = convert(value, path)
        problem = bounds.problem(value)
        if problem:
            raise Mismatch(path, f"{problem}, got {show(value)}")
        return converted

    return convert_bounded


def _choice_converter(pairs: Iterable[tuple[Any, Any]]) -> Converter:
    """Return a converter that accepts some values only. Each pair is a JSON value and the value
    that it becomes. JSON's true and 1 are different values, although they are equal in Python."""
    allowed = tuple(pairs)
    expected = ", ".join(show(value) for value, _ in allowed)

    def convert(value: Any, path: str) -> Any:
        for choice, converted in allowed:
            if value == choice and (type(value) is bool) == (type(choice) is bool):
                return converted
        raise Mismatch(path, f"expected one of {expected}, got {show(value)}")

    return convert


def _union_converter(converters: list[Converter]) -> Converter:
    """Return a converter that tries several, and returns the result of the first that accepts the
    value."""

    def convert(value: Any, path: str) -> Any:
        problems = []
        for converter in converters:
            try:
                return converter(value, path)
            except Mismatch as mismatch:
                problems.append(str(mismatch).removeprefix(f"{path}: "))
        raise Mismatch(path, " or ".join(dict.fromkeys(problems)))

    return convert


def _array_converter(convert_item: Converter, make: Callable[[Any], Any]) -> Converter:
    def convert(value: Any, path: str) -> Any:
        items = _LIST(value, path)
        return make([convert_item(item, f"{path}[{index}]") for index, item in enumerate(items)])

    return convert


def _set_converter(convert_item: Converter, set_type: Any) -> Converter:
    make = frozenset if set_type is frozenset else set

    def convert(value: Any, path: str) -> Any:
        items = [
            convert_item(item, f"{path}[{index}]") for index, item in enumerate(_LIST(value, path))
        ]
        try:
            unique = make(items)
        except TypeError:
            raise Mismatch(path, "its items must be text, numbers or the like") from None
        if len(unique) != len(items):
            raise Mismatch(path, "an item is given twice")
        return unique

    return convert


def _mapping_converter(convert_key: Converter, convert_value: Converter) -> Converter:
    def convert(value: Any, path: str) -> Any:
        return {
            convert_key(key, f"{path}.{key}"): convert_value(item, f"{path}.{key}")
            for key, item in _OBJECT(value, path).items()
        }

    return convert


def _object_converter(
    cls: Any, members: dict[str, Converter], required: frozenset[str]
) -> Converter:
    """Return a converter for a dataclass or a TypedDict. `members` may be filled later, after the
    converter of a class that contains itself has been built."""

    def convert(value: Any, path: str) -> Any:
        values = _OBJECT(value, path)
        prefix = f"{path}." if path else ""
        for name in values:
            if name not in members:
                raise Mismatch(f"{prefix}{name}", describe_unknown_name(name, members))
        for name in members:
            if name in required and name not in values:
                raise Mismatch(f"{prefix}{name}", "is missing")
        return cls(
            **{name: members[name](item, f"{prefix}{name}") for name, item in values.items()}
        )

    return convert


def describe_unknown_name(name: str, declared: Iterable[str]) -> str:
    """Return the error message for a member or an argument that is not declared."""
    import difflib  # imported lazily: it is rarely needed

    matches = difflib.get_close_matches(name, declared, 1)
    return f"is not known; did you mean {matches[0]}?" if matches else "is not known"


def _pydantic_converter(cls: Any) -> Converter:
    """Return a converter by which pydantic checks the value. Its first error is reported."""

    def convert(value: Any, path: str) -> Any:
        try:
            return cls.model_validate(value)
        except ValueError as error:  # pydantic's ValidationError is one
            # Any other ValueError has no `errors`; `list()` stands for no details.
            details: list[Any] = getattr(error, "errors", list)()
            if not details:
                raise Mismatch(path, str(error)) from None
            full_path = ".".join([path, *(str(part) for part in details[0]["loc"])])
            raise Mismatch(full_path.strip("."), str(details[0]["msg"])) from None

    return convert
