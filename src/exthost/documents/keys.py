"""The keys of a config as data: how a value is read, and what a person is told about it.

A `Key` is a reader, so a table of keys is read by `readers.table` like any other. It also holds the
type, the default, an example and one sentence. `exthost validate` reads configs through these
tables, and `config.json_schema` and the reference page are made from them, so a key that is read is
documented.

A JSON Schema cannot say everything that a reader checks: `"on_demand"` for `"on-demand"`, digests
or duplicate names. What a schema rejects, the reader rejects too, with that one exception.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from exthost.documents import readers
from exthost.documents.problems import Place
from exthost.documents.readers import Reader
from exthost.empty_mapping import EMPTY_MAPPING

Schema: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type of value: its reader, its name in words and its JSON Schema.

    `keys` are those of a table. `layout` says whether there is one such table, a list of them or
    a table of them by name.
    """

    read: Reader
    description: str
    schema: Schema = field(default_factory=lambda: EMPTY_MAPPING)
    keys: Mapping[str, "Key"] = field(default_factory=lambda: EMPTY_MAPPING)
    layout: Literal["table", "list", "names"] = "table"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a config. Call it to read a value.

    `about` is one sentence. `default` and `example` are TOML, except that a default may be words
    in parentheses; "" means that the dialect decides.
    """

    type: ValueType
    about: str
    example: str = ""
    default: str = ""
    required: bool = False

    def __call__(self, value: Any, place: Place) -> Any:
        return self.type.read(value, place)


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
_WORD: Schema = {"type": "string"}

TEXT = ValueType(readers.read_text, "text", _NOT_BLANK)
ANY_TEXT = ValueType(readers.read_any_text, "text, may be empty", _WORD)
FLAG = ValueType(readers.read_flag, "true or false", {"type": "boolean"})
DURATION = ValueType(readers.read_duration, "duration", _DURATION)
POSITIVE_DURATION = ValueType(readers.read_positive_duration, "duration above 0", _DURATION)
SIZE = ValueType(readers.read_size, "size", _SIZE)
TEXT_LIST = ValueType(
    readers.read_text_list, "list of text", {"type": "array", "items": _NOT_BLANK}
)
ANY_TEXT_LIST = ValueType(
    readers.read_any_text_list, "list of text", {"type": "array", "items": _WORD}
)
JSON = ValueType(readers.read_json_value, "any value")
JSON_TABLE = ValueType(readers.read_json_table, "table of any values", {"type": "object"})
TEXT_TABLE = ValueType(
    readers.read_variables, "table of text", {"type": "object", "additionalProperties": _WORD}
)
VARIABLES = ValueType(
    readers.read_variables_or_references,
    'table of text or { from = "NAME" }',
    {
        "type": "object",
        "additionalProperties": {
            "anyOf": [
                _WORD,
                {
                    "type": "object",
                    "properties": {"from": _NOT_BLANK},
                    "required": ["from"],
                    "additionalProperties": False,
                },
            ]
        },
    },
)


def integer_at_least(least: int) -> ValueType:
    """Return the type of a whole number that is at least `least`."""
    words = f"whole number, at least {least}"
    return ValueType(readers.integer_reader(least), words, {"type": "integer", "minimum": least})


def one_of(*known: str) -> ValueType:
    """Return the type of a value that is one of these words."""
    words = ", ".join(f'"{word}"' for word in known)
    return ValueType(readers.choice_reader(*known), words, {"enum": list(known)})


def table_type(keys: Mapping[str, Key], read: Reader | None = None) -> ValueType:
    """Return the type of a table with these keys. `read` makes its value, by default a dict."""

    def read_table(value: Any, place: Place) -> dict[str, Any]:
        return readers.read_table(value, place, keys)

    return ValueType(read or read_table, "table", keys=keys)


def make_section(
    about: str, keys: Mapping[str, Key], layout: Literal["table", "list", "names"] = "table"
) -> Key:
    """Return a section of a config: one table, a list of tables, or tables by name."""
    words = {"table": "table", "list": "list of tables", "names": "tables by name"}[layout]
    return Key(ValueType(_read_elsewhere, words, keys=keys, layout=layout), about)


def _read_elsewhere(value: Any, place: Place) -> Any:
    raise AssertionError("the reader of a section also needs the origin and the folder of the file")


def table_schema(keys: Mapping[str, Key], more: Schema = EMPTY_MAPPING) -> dict[str, Any]:
    """Return the JSON Schema of a table with these keys, and with `more` in it."""
    required = [name for name, key in keys.items() if key.required]
    return {
        "type": "object",
        "properties": {name: key_schema(key) for name, key in keys.items()},
        **({"required": required} if required else {}),
        "additionalProperties": False,
        **more,
    }


def key_schema(key: Key) -> dict[str, Any]:
    """Return the JSON Schema of a key's value, with its sentence as the description."""
    return {"description": key.about, **_type_schema(key.type)}


def _type_schema(type_: ValueType) -> Schema:
    if not type_.keys or "anyOf" in type_.schema:
        return type_.schema
    table = table_schema(type_.keys, type_.schema)
    if type_.layout == "list":
        return {"type": "array", "items": table}
    if type_.layout == "names":
        return {"type": "object", "additionalProperties": table}
    return table
