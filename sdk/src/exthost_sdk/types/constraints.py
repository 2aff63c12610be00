"""Reads the description and the bounds of a value from the metadata of `Annotated`.

`Annotated[int, "how many"]` gives a value a description, `Annotated[int, Param("how many",
minimum=1)]` also a lower bound. Metadata of other libraries is recognised by its attributes:
`annotated_types.Ge` has `ge`, pydantic's `Field(…)` has `description` and `metadata`. Any other
metadata is ignored.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from exthost_sdk.errors import UnsupportedType


@dataclass(frozen=True, slots=True)
class Param:
    """The description and the bounds of a parameter or a field. None means no bound."""

    description: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: float | None = None
    exclusive_maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None

    def __bool__(self) -> bool:
        return self != _EMPTY

    def merge(self, other: "Param") -> "Param":
        """Return a Param with the attributes of both. Where both have one, that of `other` is
        used."""
        merged = {
            field.name: getattr(other, field.name)
            if getattr(other, field.name) != getattr(_EMPTY, field.name)
            else getattr(self, field.name)
            for field in fields(Param)
        }
        return Param(**merged)

    def apply(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the schema with this description and these bounds."""
        size_keys = {
            "array": ("minItems", "maxItems"),
            "object": ("minProperties", "maxProperties"),
        }
        json_type = schema.get("type")
        min_key, max_key = size_keys.get(
            json_type if isinstance(json_type, str) else "", ("minLength", "maxLength")
        )
        additions: dict[str, Any] = {
            "minimum": self.minimum,
            "maximum": self.maximum,
            "exclusiveMinimum": self.exclusive_minimum,
            "exclusiveMaximum": self.exclusive_maximum,
            min_key: self.min_length,
            max_key: self.max_length,
            "pattern": self.pattern,
            "description": self.description or None,
        }
        return {**schema, **{key: value for key, value in additions.items() if value is not None}}

    def problem(self, value: Any) -> str:
        """Return why a JSON value is out of bounds; "" if it is not."""
        if type(value) in (int, float):
            return self._number_problem(value)
        if isinstance(value, str) and not re.search(self.pattern or "", value):
            return f"must match the pattern {self.pattern}"
        if isinstance(value, str | list | dict):
            return self._size_problem(len(value))
        return ""

    def _number_problem(self, value: float) -> str:
        if self.minimum is not None and not value >= self.minimum:
            return f"must be at least {self.minimum}"
        if self.maximum is not None and not value <= self.maximum:
            return f"must be at most {self.maximum}"
        if self.exclusive_minimum is not None and not value > self.exclusive_minimum:
            return f"must be more than {self.exclusive_minimum}"
        if self.exclusive_maximum is not None and not value < self.exclusive_maximum:
            return f"must be less than {self.exclusive_maximum}"
        return ""

    def _size_problem(self, size: int) -> str:
        if self.min_length is not None and size < self.min_length:
            return f"must have a length of at least {self.min_length}"
        if self.max_length is not None and size > self.max_length:
            return f"must have a length of at most {self.max_length}"
        return ""


_EMPTY = Param()

# Attributes of the metadata of other libraries, and the attributes of Param that they become.
_FOREIGN = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusive_minimum",
    "lt": "exclusive_maximum",
    "min_length": "min_length",
    "max_length": "max_length",
    "pattern": "pattern",
    "description": "description",
}


def read_metadata(metadata: Iterable[Any]) -> Param:
    """Return the description and the bounds in the metadata of an `Annotated`. Raises
    UnsupportedType if the pattern is not a regular expression."""
    merged = _EMPTY
    for item in metadata:
        if isinstance(item, str):
            merged = merged.merge(Param(item))
        elif isinstance(item, Param):
            merged = merged.merge(item)
        else:
            merged = merged.merge(_read_foreign(item))
    try:
        re.compile(merged.pattern or "")
    except re.error as error:
        raise UnsupportedType(
            f"the pattern {merged.pattern!r} is not a regular expression: {error}"
        ) from None
    return merged


def _read_foreign(item: Any) -> Param:
    attributes: dict[str, Any] = {}
    for attribute, name in _FOREIGN.items():
        value = getattr(item, attribute, None)
        if isinstance(value, str if name in ("description", "pattern") else int | float):
            attributes[name] = value
    nested = getattr(item, "metadata", None)
    merged = Param(**attributes)
    return merged.merge(read_metadata(nested)) if isinstance(nested, list | tuple) else merged
