"""The form of a question to a person, made from a type: its schema, and the check of the answer."""

from collections.abc import Mapping
from typing import Any

# The only field of a form whose type is not an object.
_VALUE = "value"


class Form:
    """A form. `schema` is that of an object, as clients require it."""

    def __init__(self, form: Any) -> None:
        """`form` is a type or a JSON Schema. Raises UnsupportedType."""
        # Lazily imported: few handlers ask a person.
        from exthost_sdk.types import conversion, schema

        self._mismatch = conversion.Mismatch
        is_schema = isinstance(form, Mapping)
        fields: Any = dict(form) if is_schema else schema.build_schema(form)
        self._convert = conversion.keep if is_schema else conversion.build_converter(form)
        self._is_wrapped = fields.get("type") != "object"
        if self._is_wrapped:
            fields = {"type": "object", "properties": {_VALUE: fields}, "required": [_VALUE]}
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
