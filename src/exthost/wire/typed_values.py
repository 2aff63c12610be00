"""Converts decoded JSON values to dataclasses and other types, and checks them on the way.

Dialects use it for the messages of extensions. With a dataclass `Tool` whose field `name` is a str,
`convert({"name": "get"}, Tool)` returns `Tool(name="get")`, and `convert({"name": 7}, Tool)` raises
WrongValue("name is not text"). The types of fields are checked strictly: neither true nor "1" is a
number. Unknown fields are ignored. `convert` needs msgspec; this module can be imported without it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

__all__ = ["NonemptyText", "WrongValue", "convert", "convert_with_extra"]

T = TypeVar("T")

if TYPE_CHECKING:
    import msgspec

    NonemptyText: TypeAlias = str
else:
    try:
        import msgspec
        from msgspec import Meta
    except ImportError:  # pragma: no cover - the SDK's own tests run without it
        # Annotations can then still be written; `convert`, which would read them, cannot be called.
        Meta = lambda **_: None  # noqa: E731
    from typing import Annotated

    NonemptyText = Annotated[str, Meta(min_length=1)]

# The messages of msgspec: a missing field, a wrong type or value, and the place, such as
# `$.tools[0].name`.
_MESSAGE = re.compile(
    r"(?:Object missing required field `(?P<missing>[^`]*)`"
    r"|Expected `(?P<expected>[^`]*)`(?P<empty> of length >= 1)?.*?"
    r"|.*?)(?: - at `\$\.?(?P<place>.*)`)?",
    re.DOTALL,  # a message may quote a text of several lines
)
_NOUNS = {
    "object": "an object", "array": "a list", "str": "text", "int": "a whole number",
    "float": "a number", "bool": "true or false",
}  # fmt: skip


class WrongValue(ValueError):
    """A value does not have its declared type. The text names the place and the mistake, such as
    "tools[0].name is missing"."""


def convert(value: Any, type_: type[T], name: str = "it") -> T:
    """Return the value as this type. Raises WrongValue, whose text calls the value `name`."""
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise WrongValue(_describe(str(error), name)) from None
    except UnicodeEncodeError:  # msgspec cannot compare such a key, or such a text with a literal
        reason = "contains half of a surrogate pair, which is not a character"
        raise WrongValue(f"{name} {reason}") from None


def convert_with_extra(value: Any, type_: Callable[..., T], name: str = "it") -> T:
    """Return the value as a dataclass that keeps the unknown fields in the mapping `extra`."""
    if type(value) is not dict:
        raise WrongValue(f"{name} is not an object")
    names: Mapping[str, None] = _declared_names(type_)
    declared: dict[str, Any] = {key: value[key] for key in names if key in value}
    declared["extra"] = {key: item for key, item in value.items() if key not in names}
    return convert(declared, cast(type[T], type_), name)


@cache
def _declared_names(type_: Any) -> Mapping[str, None]:
    """Return the names of a dataclass's fields except `extra`, as the keys of a dictionary: these
    are in order and found fast."""
    return {field.name: None for field in fields(type_) if field.name != "extra"}


def _describe(message: str, name: str) -> str:
    """Return a message of msgspec, such as "Expected `str`, got `int` - at `$.id`", in the words of
    a WrongValue: "id is not text". `name` is what it calls the value as a whole."""
    match = _MESSAGE.fullmatch(message)
    assert match is not None  # its last alternative matches any message
    place = match["place"] or ""
    if match["missing"]:
        return f"{place}{'.' if place else ''}{match['missing']} is missing"
    if match["empty"]:
        return f"{place or name} is empty"
    expected = (match["expected"] or "").removesuffix(" | null").replace("int | float", "float")
    noun = _NOUNS.get(expected)
    return f"{place or name} is not {noun}" if noun else f"{place or name}: {message}"
