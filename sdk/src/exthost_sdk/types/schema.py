"""Builds the JSON schema of a Python type.

The schema of an object does not allow additional properties, because a misspelt name would
otherwise be ignored. A type that contains itself becomes a `$ref` into `$defs`. Every other type is
written where it is used, because not every program that reads schemas supports `$ref`.
"""

import collections.abc
import dataclasses
import datetime
import enum
import inspect
import os
import types
import typing
from collections.abc import Mapping
from typing import Any

from exthost_sdk.errors import UnsupportedType
from exthost_sdk.types.constraints import read_metadata
from exthost_sdk.types.json_text import enum_form

Schema = dict[str, Any]

_SCALARS: Mapping[Any, Schema] = {
    Any: {},
    object: {},
    inspect.Parameter.empty: {},
    None: {"type": "null"},
    type(None): {"type": "null"},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array", "uniqueItems": True},
    frozenset: {"type": "array", "uniqueItems": True},
    dict: {"type": "object"},
}

ARRAYS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
SETS = (set, frozenset, collections.abc.Set)
OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def build_schema(annotation: Any) -> Schema:
    """Return the JSON schema of the values of a type, as they are written. Raises
    UnsupportedType."""
    builder = SchemaBuilder(written=True)
    return builder.complete(builder.build(annotation))


class SchemaBuilder:
    """Builds several schemas that share one `$defs`.

    `written`: the schemas describe values that are written as JSON (results), and not values that
    are read (arguments). Only written values have the fields of dataclasses that are never passed,
    `field(init=False)`.
    """

    def __init__(self, *, written: bool = False) -> None:
        self._written = written
        self.definitions: dict[str, Schema] = {}
        self._open: dict[Any, str] = {}  # classes that are being built, with their names in $defs
        self._recursive: set[Any] = set()

    def complete(self, schema: Schema) -> Schema:
        """Return the schema with the definitions that it refers to."""
        return {**schema, "$defs": self.definitions} if self.definitions else schema

    def build(self, annotation: Any) -> Schema:
        """Return the schema of a type, without `$defs`."""
        annotation = resolve(annotation)
        if isinstance(annotation, collections.abc.Hashable) and annotation in _SCALARS:
            return dict(_SCALARS[annotation])
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            return read_metadata(annotation.__metadata__).apply(self.build(arguments[0]))
        if origin is typing.Literal:
            return _enumeration(arguments)
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.build(argument) for argument in arguments]}
        if origin in ARRAYS:
            return {"type": "array", "items": self.build(arguments[0])}
        if origin in SETS:
            return {"type": "array", "items": self.build(arguments[0]), "uniqueItems": True}
        if origin is tuple:
            return self._tuple(arguments)
        if origin in OBJECTS:
            return self._mapping(annotation, arguments)
        if isinstance(annotation, type):
            return self._class(annotation)
        raise UnsupportedType(f"{annotation!r} has no JSON schema")

    def _tuple(self, arguments: tuple[Any, ...]) -> Schema:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self.build(arguments[0])}
        items = [self.build(argument) for argument in arguments]
        size = {"minItems": len(items), "maxItems": len(items)}
        return {"type": "array", **({"prefixItems": items} if items else {}), **size}

    def _mapping(self, annotation: Any, arguments: tuple[Any, ...]) -> Schema:
        """Return the schema of a mapping. JSON allows only text as keys."""
        names = self.build(arguments[0])
        schema: Schema = {"type": "object"}
        if any(type(value) is not str for value in names.get("enum", ())):
            raise UnsupportedType(f"{annotation!r} has no JSON schema: its keys must be text")
        if "enum" in names:
            schema["propertyNames"] = names
        elif names and names.get("type") != "string":
            raise UnsupportedType(f"{annotation!r} has no JSON schema: its keys must be text")
        values = self.build(arguments[1])
        return {**schema, "additionalProperties": values} if values else schema

    def _class(self, cls: Any) -> Schema:
        if issubclass(cls, enum.Flag):
            raise UnsupportedType(
                f"{cls.__qualname__} has no JSON schema: the values of a Flag combine; "
                "use a list of the members of an Enum, or int"
            )
        if issubclass(cls, enum.Enum):
            return _enumeration(tuple(enum_values(cls)))
        if is_pydantic_model(cls):
            return self._pydantic(cls)
        if issubclass(cls, os.PathLike):
            return {"type": "string"}
        if is_uuid(cls):
            return {"type": "string", "format": "uuid"}
        if is_named_tuple(cls):
            return self._tuple(tuple(type_hints(cls)[name] for name in cls._fields))
        if dataclasses.is_dataclass(cls) or is_typed_dict(cls):
            return self._object(cls)
        raise UnsupportedType(
            f"{cls.__qualname__} has no JSON schema: use a dataclass, a TypedDict or an Enum"
        )

    def _object(self, cls: Any) -> Schema:
        """Return the schema of a dataclass or a TypedDict; a reference if the class contains
        itself."""
        if cls in self._open:
            self._recursive.add(cls)
            return {"$ref": f"#/$defs/{self._open[cls]}"}
        name = cls.__name__
        while name in self.definitions or name in self._open.values():
            name += "_"
        self._open[cls] = name
        try:
            schema = self._members(cls)
        finally:
            del self._open[cls]
        if cls not in self._recursive:
            return schema
        self.definitions[name] = schema
        return {"$ref": f"#/$defs/{name}"}

    def _members(self, cls: Any) -> Schema:
        properties = {}
        for name, (annotation, default) in get_members(cls, written=self._written).items():
            properties[name] = with_default(self.build(annotation), default)
        schema: Schema = {"type": "object", "properties": properties}
        if required := required_members(cls, written=self._written):
            schema["required"] = required
        schema["additionalProperties"] = False
        text = inspect.cleandoc(cls.__doc__ or "")
        # Python gives a dataclass without a docstring its signature as one.
        if text and not text.startswith(f"{cls.__name__}(") and text != dict.__doc__:
            schema["description"] = text
        return schema

    def _pydantic(self, cls: Any) -> Schema:
        prefix = cls.__name__
        schema = dict(cls.model_json_schema(ref_template=f"#/$defs/{prefix}.{{model}}"))
        for name, definition in schema.pop("$defs", {}).items():
            self.definitions[f"{prefix}.{name}"] = definition
        return schema


def resolve(annotation: Any) -> Any:
    """Return the type that an alias, a NewType, a type variable or a qualifier of a TypedDict's
    member stands for."""
    while True:
        if isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        elif isinstance(annotation, typing.TypeVar):
            annotation = annotation.__bound__ or Any
        elif _qualifier(annotation):
            annotation = typing.get_args(annotation)[0]
        else:
            return annotation


def _qualifier(annotation: Any) -> str:
    """Return "Required", "NotRequired" or "ReadOnly" if the annotation begins with it, else "".

    Compared by name, since Python 3.11 has no ReadOnly and typing_extensions has its own."""
    name = getattr(typing.get_origin(annotation), "_name", "")
    return name if name in ("Required", "NotRequired", "ReadOnly") else ""


def type_hints(owner: Any) -> dict[str, Any]:
    """Return the annotations of a class or a function, with `Annotated` left in place."""
    try:
        return typing.get_type_hints(owner, include_extras=True)
    except NameError as error:
        raise UnsupportedType(
            f"an annotation of {owner.__qualname__} cannot be resolved: {error}; "
            "define the type at the top of a module"
        ) from None


_MISSING = inspect.Parameter.empty


def get_members(cls: Any, *, written: bool = False) -> dict[str, tuple[Any, Any]]:
    """Return the type and the default of each member of a dataclass or a TypedDict. A member
    without a default, or with a default factory, has `Parameter.empty`. With `written`, fields of a
    dataclass with `init=False` are included: they are in its JSON. Raises UnsupportedType."""
    hints = type_hints(cls)
    if is_typed_dict(cls):
        return {name: (hint, _MISSING) for name, hint in hints.items()}
    _check_init_variables(cls, hints)
    return {
        field.name: (
            hints[field.name],
            _MISSING if field.default is dataclasses.MISSING else field.default,
        )
        for field in dataclasses.fields(cls)
        if field.init or written
    }


def _check_init_variables(cls: Any, hints: Mapping[str, Any]) -> None:
    """Raise UnsupportedType if a dataclass has an InitVar that must be given: it is not a field, so
    that an object which is written and read again would lack it."""
    declared = cls.__dataclass_fields__
    for name, hint in hints.items():
        if not isinstance(hint, dataclasses.InitVar) or name not in declared:
            continue
        if declared[name].default is dataclasses.MISSING:
            raise UnsupportedType(
                f"{cls.__qualname__} has no JSON schema: its InitVar {name} has no default; "
                "make it a field, or give it a default"
            )


def required_members(cls: Any, *, written: bool = False) -> list[str]:
    """Return the members that must be given, in the order of their declaration. `written`: also
    those that are always written."""
    if is_typed_dict(cls):
        return [
            name
            for name, (annotation, _) in get_members(cls).items()
            if _is_marked_required(annotation, default=name in cls.__required_keys__)
        ]
    missing = dataclasses.MISSING

    def is_required(field: "dataclasses.Field[Any]") -> bool:
        if not field.init:  # never passed, and always written
            return written
        return field.default is missing and field.default_factory is missing

    return [field.name for field in dataclasses.fields(cls) if is_required(field)]


def _is_marked_required(annotation: Any, *, default: bool) -> bool:
    """Return whether the annotation of a TypedDict's member contains Required; the default if it
    contains neither that nor NotRequired.

    `__required_keys__` alone is not enough: under `from __future__ import annotations` Python
    computes it from the totality of the class, and does not look at the markers."""
    while True:
        qualifier = _qualifier(annotation)
        if qualifier in ("Required", "NotRequired"):
            return qualifier == "Required"
        if not qualifier and typing.get_origin(annotation) is not typing.Annotated:
            return default
        annotation = typing.get_args(annotation)[0]


def with_default(schema: Schema, default: Any) -> Schema:
    """Return the schema with this default, if it can be written as JSON; otherwise unchanged."""
    if isinstance(default, enum.Enum):
        default = enum_form(default)
    if default is _MISSING or not isinstance(default, str | int | float | bool | None):
        return schema
    if isinstance(default, float) and not abs(default) < float("inf"):
        return schema
    return {**schema, "default": default}


def enum_values(cls: type[enum.Enum]) -> dict[Any, enum.Enum]:
    """Return the members of an enum by their JSON form."""
    return {enum_form(member): member for member in cls}


def is_pydantic_model(cls: type) -> bool:
    """Return whether this is a pydantic model. pydantic itself is not imported for that."""
    return callable(getattr(cls, "model_validate", None)) and hasattr(cls, "model_json_schema")


def is_typed_dict(cls: type) -> bool:
    """Return whether this is a TypedDict of `typing` or of typing_extensions, which has a class of
    its own."""
    return issubclass(cls, dict) and hasattr(cls, "__required_keys__")


def is_uuid(cls: type) -> bool:
    """Return whether this is uuid.UUID, without importing uuid, which most extensions do not
    need."""
    return (cls.__module__, cls.__name__) == ("uuid", "UUID")


def is_named_tuple(cls: Any) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make")


def _enumeration(values: tuple[Any, ...]) -> Schema:
    plain = [enum_form(value) if isinstance(value, enum.Enum) else value for value in values]
    value_types = {type(value) for value in plain}
    schema: Schema = {"enum": plain}
    if len(value_types) == 1 and (value_type := value_types.pop()) in _SCALARS:
        schema = {**_SCALARS[value_type], **schema}
    return schema
