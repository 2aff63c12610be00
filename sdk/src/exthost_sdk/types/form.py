"""The form of a question to a person, made from a type: its schema, and the check of the answer.

A handler asks with `ctx.elicit("Really delete it?", bool)`. The client shows a form with the fields
of the schema, which for `bool` is an object with one field `value`:

    {"type": "object", "properties": {"value": {"type": "boolean"}}, "required": ["value"]}
"""

from collections.abc import Mapping
from typing import Any

from exthost_sdk.errors import UnsupportedType

# The name of the only field of a form that was made from a type such as `bool` or `int`.
_VALUE = "value"

# What a client can show, as MCP lists it: fields of these types and formats, and lists of choices.
_TYPES = ("string", "integer", "number", "boolean")
_FORMATS = ("date", "date-time", "email", "uri")


class Form:
    """A form. `schema` is that of an object, as clients require it."""

    def __init__(self, form: Any) -> None:
        """`form` is a type or a JSON Schema, which is sent as it is. Raises UnsupportedType for a
        type with a field that clients cannot show."""
        # Lazily imported: few handlers ask a person.
        from exthost_sdk.types import conversion, schema

        self._mismatch = conversion.Mismatch
        is_schema = isinstance(form, Mapping)
        fields: Any = dict(form) if is_schema else schema.build_schema(form)
        self._convert = conversion.keep if is_schema else conversion.build_converter(form)
        self._is_wrapped = fields.get("type") != "object"
        if self._is_wrapped:
            fields = {"type": "object", "properties": {_VALUE: fields}, "required": [_VALUE]}
        if not is_schema:
            fields["properties"] = _simplify(fields.get("properties", {}))
        self.schema: Mapping[str, Any] = fields

    def read(self, content: Any) -> Any:
        """Return the answer as a value of the type. Raises ValueError if it does not fit."""
        if self._is_wrapped:
            if not isinstance(content, dict) or _VALUE not in content:
                raise ValueError(f"{_VALUE} is missing")
            content = content[_VALUE]
        try:
            return self._convert(content, "")
        except self._mismatch as mismatch:
            raise ValueError(str(mismatch)) from None


def _simplify(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form as clients can show them. An optional field has no type null."""
    if not properties:
        raise UnsupportedType("the form has no fields: use a dataclass, a TypedDict or a value")
    simple_fields = {}
    for name, schema in properties.items():
        field = dict(schema)
        types = [kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}]
        if len(types) == 1:
            del field["anyOf"]
            field = types[0] | field
        if "default" in field and field["default"] is None:
            del field["default"]
        is_choice = field.get("type") == "array" and "enum" in field["items"]
        if field.get("type") not in _TYPES and not is_choice:
            raise UnsupportedType(
                f"the field {name} of the form cannot be shown: use text, a number, a bool, "
                "a date, a Literal or an Enum, or a list of these two"
            )
        if field.get("format") not in _FORMATS:
            field.pop("format", None)
        simple_fields[name] = field
    return simple_fields
