"""`Key`: a key of a config as data, with its reader, type, default, example and description.

    keys = {"call": Key(DURATION, "How long a call may take.", '"10s"', "60")}
    read_table({"call": "10s"}, place, keys)      returns {"call": 10.0}

A `Key` can be called as a reader, so `readers.read_table` reads a table with a mapping of name →
`Key`. The JSON Schema (`config.json_schema`) and the reference page are generated from the same
mappings, so a key that can be read is also documented.

A schema cannot express all checks of a reader, such as unique names. In one case it is stricter
than the reader, which accepts `"on_demand"` for `"on-demand"`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from exthost.model.documents import readers
from exthost.model.documents.problems import Place
from exthost.model.documents.readers import Reader
from exthost.model.empty_mapping import EMPTY_MAPPING, empty_mapping

Schema: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type of value.

    read         the reader: checks and converts a value
    description  a text such as "whole number"
    schema       the JSON Schema. If `keys` is set and this has no "anyOf", it is only added to the
                 schema that is made from the keys
    keys         the keys of a table; empty if a value of this type is not a table
    layout       "table" if a value is one table with these keys, "list" if it is a list of such
                 tables, and "names" if it is a table whose values are such tables
    """

    read: Reader
    description: str
    schema: Schema = field(default_factory=lambda: EMPTY_MAPPING)
    keys: Mapping[str, "Key"] = field(default_factory=lambda: EMPTY_MAPPING)
    layout: Literal["table", "list", "names"] = "table"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a config. Call the object to read a value.

    type      the type of its value
    about     a description in one sentence
    example   a TOML value
    default   a TOML value, or a text in parentheses such as "(no limit)"; "" means that the default
              depends on the dialect
    required  whether the key must be set
    """

    type: ValueType
    about: str
    example: str = ""
    default: str = ""
    required: bool = False

    def __call__(self, value: Any, place: Place) -> Any:
        return self.type.read(value, place)


def setting(
    type: ValueType,
    about: str,
    example: str = "",
    default: str = "",
    *,
    unset: Any = None,
    repr: bool = True,
) -> Any:
    """Return a field of a dataclass that is also a key of a config. `unset` is the value of a
    setting that is not set; `repr` is as in `dataclasses.field`, the others are as in `Key`."""
    metadata = {"key": Key(type, about, example, default)}
    if unset is EMPTY_MAPPING:  # dataclasses refuse a mapping as a default
        return field(default_factory=empty_mapping, repr=repr, metadata=metadata)
    return field(default=unset, repr=repr, metadata=metadata)


def keys_of(settings: type[Any]) -> Mapping[str, Key]:
    """Return the keys of a config that the fields of this dataclass declare with `setting`."""
    return {item.name: item.metadata["key"] for item in fields(settings) if item.metadata}


# The JSON Schemas of common types. Those of durations and sizes follow the parsers in `units`.
_DURATION: Schema = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?(ms|s|m|h)$"},
    ]
}
_SIZE: Schema = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([KMGT]i?)?B$"},
    ]
}
_NOT_BLANK: Schema = {"type": "string", "pattern": r"\S"}
_ANY_TEXT: Schema = {"type": "string"}

TEXT = ValueType(readers.read_text, "text", _NOT_BLANK)
ANY_TEXT = ValueType(readers.read_any_text, "text, may be empty", _ANY_TEXT)
FLAG = ValueType(readers.read_flag, "true or false", {"type": "boolean"})
DURATION = ValueType(readers.read_duration, "duration", _DURATION)
POSITIVE_DURATION = ValueType(readers.read_positive_duration, "duration above 0", _DURATION)
SIZE = ValueType(readers.read_size, "size", _SIZE)
TEXT_LIST = ValueType(
    readers.read_text_list, "list of text", {"type": "array", "items": _NOT_BLANK}
)
ANY_TEXT_LIST = ValueType(
    readers.read_any_text_list, "list of text", {"type": "array", "items": _ANY_TEXT}
)
JSON = ValueType(readers.read_json_value, "any value")
JSON_TABLE = ValueType(readers.read_json_table, "table of any values", {"type": "object"})
TEXT_TABLE = ValueType(
    readers.read_variables, "table of text", {"type": "object", "additionalProperties": _ANY_TEXT}
)
VARIABLES = ValueType(
    readers.read_variables_or_references,
    "table of text or references",
    {
        "type": "object",
        "additionalProperties": {
            "anyOf": [
                _ANY_TEXT,
                {
                    "type": "object",
                    "properties": {
                        "from": _NOT_BLANK,
                        "file": _NOT_BLANK,
                        "command": {"type": "array", "items": _ANY_TEXT, "minItems": 1},
                        "keyring": _NOT_BLANK,
                    },
                    "minProperties": 1,
                    "maxProperties": 1,
                    "additionalProperties": False,
                },
            ]
        },
    },
)


def integer_at_least(minimum: int) -> ValueType:
    """Return the type of a whole number that is at least `minimum`."""
    description = f"whole number, at least {minimum}"
    return ValueType(
        readers.integer_reader(minimum), description, {"type": "integer", "minimum": minimum}
    )


def one_of(*choices: str) -> ValueType:
    """Return the type of a value that is one of these texts."""
    description = ", ".join(f'"{choice}"' for choice in choices)
    return ValueType(readers.choice_reader(*choices), description, {"enum": list(choices)})


def table_type(keys: Mapping[str, Key], read: Reader | None = None) -> ValueType:
    """Return the type of a table with these keys. `read` converts the table; by default the value
    is a dict."""

    def read_table(value: Any, place: Place) -> dict[str, Any]:
        return readers.read_table(value, place, keys)

    return ValueType(read or read_table, "table", keys=keys)


def make_section(
    about: str, keys: Mapping[str, Key], layout: Literal["table", "list", "names"] = "table"
) -> Key:
    """Return the `Key` of a section of a config. For `layout` see `ValueType`.

    The key only documents the section, and calling it raises AssertionError. `config.document` has
    the reader of the section, which needs the path and the folder of the file as well.
    """
    description = {"table": "table", "list": "list of tables", "names": "tables by name"}[layout]
    return Key(ValueType(_refuse_to_read, description, keys=keys, layout=layout), about)


def _refuse_to_read(value: Any, place: Place) -> Any:
    raise AssertionError("the reader of a section also needs the origin and the folder of the file")


def table_schema(keys: Mapping[str, Key], additions: Schema = EMPTY_MAPPING) -> dict[str, Any]:
    """Return the JSON Schema of a table with these keys, and with the keywords of `additions`."""
    required = [name for name, key in keys.items() if key.required]
    return {
        "type": "object",
        "properties": {name: key_schema(key) for name, key in keys.items()},
        **({"required": required} if required else {}),
        "additionalProperties": False,
        **additions,
    }


def key_schema(key: Key) -> dict[str, Any]:
    """Return the JSON Schema of a key's value, with `about` as the description."""
    return {"description": key.about, **_type_schema(key.type)}


def _type_schema(type_: ValueType) -> Schema:
    # A type with alternatives ("anyOf"), of which one is a table, has its complete schema already.
    if not type_.keys or "anyOf" in type_.schema:
        return type_.schema
    table = table_schema(type_.keys, type_.schema)
    if type_.layout == "list":
        return {"type": "array", "items": table}
    if type_.layout == "names":
        return {"type": "object", "additionalProperties": table}
    return table
