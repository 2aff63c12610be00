"""Converting a decoded value to a dataclass, with an error that names the place and the mistake.

The values are JSON from other programs, for example a reply in the handshake of an extension.
"""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from exthost.wire.typed_values import NonemptyText, WrongValue, convert, convert_with_extra


@dataclass(frozen=True)
class Part:
    name: NonemptyText
    size: int | float | None = None


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...] = ()
    is_open: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "the reply is not an object"),
        ({"parts": {}}, "parts is not a list"),
        ({"parts": [{"name": "a"}, {}]}, "parts[1].name is missing"),
        ({"parts": [{"name": 1}]}, "parts[0].name is not text"),
        ({"parts": [{"name": ""}]}, "parts[0].name is empty"),
        ({"parts": [{"name": "a", "size": "1"}]}, "parts[0].size is not a number"),
        ({"is_open": 1}, "is_open is not true or false"),
        ({"\ud800": 1}, "the reply contains half of a surrogate pair, which is not a character"),
    ],
)
def test_the_error_names_the_place_and_the_mistake(value: Any, message: str) -> None:
    with pytest.raises(WrongValue) as raised:
        convert(value, Whole, "the reply")
    assert str(raised.value) == message


def test_the_error_for_a_text_of_several_lines_names_the_place() -> None:
    mode: Any = Literal["a", "b"]
    with pytest.raises(WrongValue, match="the mode: Invalid enum value"):
        convert("a\nb", mode, "the mode")


def test_values_keep_their_types_and_unknown_fields_are_kept_as_extra() -> None:
    value = {"parts": [{"name": "a", "size": 3}], "other": [1], "extra": 2}
    whole = convert_with_extra(value, Whole)
    assert whole == Whole((Part("a", 3),), extra={"other": [1], "extra": 2})
    assert type(whole.parts[0].size) is int


def test_the_module_can_be_imported_without_msgspec() -> None:
    """msgspec is an optional dependency."""
    code = "import sys; sys.modules['msgspec'] = None; import exthost.wire.typed_values"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
