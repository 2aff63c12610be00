"""How the SDK makes a JSON schema from a handler's annotations, and arguments from JSON values.

The host checks the arguments of a call by the schema, and the SDK converts them to the annotated
types, so both must accept the same values. Hypothesis generates types and values for this. The
second part is about functions: their signature, docstring, defaults and command lines.
"""

import dataclasses
import datetime
import enum
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypedDict

import jsonschema_rs
import pytest
from exthost_sdk.types.conversion import Mismatch, build_converter
from exthost_sdk.types.docstring import read_docstring
from exthost_sdk.types.function import Execution, Function
from exthost_sdk.types.json_text import decode, encode, encode_text
from exthost_sdk.types.schema import build_schema
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from exthost.sdk import Context, InvalidArguments, Param, UnsupportedType
from tests.authoring.sdk import typed_dicts


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Leaf:
    """A leaf."""

    name: str
    weight: float = 1.0


@dataclasses.dataclass
class Tree:
    leaves: list[Leaf]
    left: Optional["Tree"] = None


class Options(TypedDict):
    depth: int
    colour: NotRequired[Colour]


class Pair(NamedTuple):
    first: int
    second: str


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)
    friends: list["Person"] = []


BASE_TYPES: list[Any] = [
    str,
    int,
    float,
    bool,
    None,
    Any,
    Colour,
    Level,
    Leaf,
    Tree,
    Options,
    Pair,
    Literal["a", 1, True, None],
    Annotated[int, Param(minimum=0, maximum=10)],
    Annotated[str, Param(min_length=1, max_length=3)],
    Annotated[list[int], Param(min_length=1)],
]

types = st.recursive(
    st.sampled_from(BASE_TYPES),
    # Each line builds a type from one or two others.
    lambda inner: st.one_of(
        inner.map(lambda inner_type: list[inner_type]),  # type: ignore[valid-type]
        inner.map(lambda inner_type: dict[str, inner_type]),  # type: ignore[valid-type]
        inner.map(lambda inner_type: tuple[inner_type, ...]),  # type: ignore[valid-type]
        st.tuples(inner, inner).map(lambda inner_types: tuple.__class_getitem__(inner_types)),
        st.tuples(inner, inner).map(
            lambda inner_types: (
                inner_types[0] | inner_types[1] if _can_be_united(inner_types) else inner_types[0]
            )
        ),
        inner.map(lambda inner_type: Optional[inner_type]),  # noqa: UP045
    ),
    max_leaves=5,
)


def _can_be_united(inner_types: tuple[Any, Any]) -> bool:
    try:
        inner_types[0] | inner_types[1]
    except TypeError:
        return False
    return True


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 20)
    | st.floats(-5, 5, allow_nan=False)
    | st.sampled_from(["", "a", "red", "blue", "name", "long text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "weight", "leaves", "left", "depth", "colour", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@settings(max_examples=200)
@given(types, json_values)
def test_a_handler_accepts_the_values_that_its_schema_accepts(annotation: Any, value: Any) -> None:
    is_valid = jsonschema_rs.is_valid(build_schema(annotation), value)
    try:
        build_converter(annotation)(value, "value")
        is_accepted = True
    except Mismatch:
        is_accepted = False
    assert is_accepted == is_valid, (annotation, build_schema(annotation), value)


@given(types, st.data())
def test_a_converted_value_is_encoded_so_that_it_fits_the_schema(
    annotation: Any, data: Any
) -> None:
    value = data.draw(json_values)
    try:
        converted = build_converter(annotation)(value, "value")
    except Mismatch:
        return
    encoded = decode(encode(converted))
    assert jsonschema_rs.is_valid(build_schema(annotation), encoded), (annotation, value, encoded)


@given(json_values)
def test_json_is_read_as_the_standard_library_reads_it(value: Any) -> None:
    for text in (json.dumps(value), f" {json.dumps(value)} \r", json.dumps(value, indent=2)):
        assert decode(text.encode()) == json.loads(text)
    assert json.loads(encode(value)) == value


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_encoded_also_with_lone_surrogates(text: str) -> None:
    assert json.loads(encode({"text": text})) == {"text": text}


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode(float("nan"))


# An annotation, a JSON value, and the argument that the handler gets.
EXAMPLES: list[tuple[Any, Any, Any]] = [
    (Leaf, {"name": "a"}, Leaf("a")),
    (Tree, {"leaves": [], "left": {"leaves": [{"name": "b"}]}}, Tree([], Tree([Leaf("b")]))),
    (Options, {"depth": 2.0, "colour": "red"}, {"depth": 2, "colour": Colour.RED}),
    (Pair, [1, "x"], Pair(1, "x")),
    (set[int], [1, 2], {1, 2}),
    (frozenset[str], ["a"], frozenset({"a"})),
    (tuple[int, str], [1, "a"], (1, "a")),
    (dict[Colour, int], {"red": 1}, {Colour.RED: 1}),
    (float, 3, 3.0),
    (bytes, "aGk=", b"hi"),
    (datetime.date, "2026-07-28", datetime.date(2026, 7, 28)),
    (
        datetime.datetime,
        "2026-07-28T10:00:00+00:00",
        datetime.datetime(2026, 7, 28, 10, tzinfo=datetime.UTC),
    ),
    (
        uuid.UUID,
        "12345678123456781234567812345678",
        uuid.UUID(int=0x12345678123456781234567812345678),
    ),
    (Path, "/a/b", Path("/a/b")),
    (Person, {"name": "a", "age": 3}, Person(name="a", age=3)),
    (list[Person], [{"name": "a", "age": 3}], [Person(name="a", age=3)]),
]


@pytest.mark.parametrize(("annotation", "value", "expected"), EXAMPLES)
def test_values_get_the_type_of_their_annotation(
    annotation: Any, value: Any, expected: Any
) -> None:
    assert jsonschema_rs.is_valid(build_schema(annotation), value)
    converted = build_converter(annotation)(value, "")
    assert converted == expected and type(converted) is type(expected)


INVALID_VALUES: list[tuple[Any, Any, str]] = [
    (int, "x", "v: expected a whole number, got 'x'"),
    (bool, 1, "v: expected true or false, got 1"),
    (list[int], [1, "x"], "v[1]: expected a whole number, got 'x'"),
    (Leaf, {"nam": "x"}, "v.nam: is not known; did you mean name?"),
    (Leaf, {}, "v.name: is missing"),
    (Colour, "green", "v: expected one of 'red', 'blue', got 'green'"),
    (int | None, "x", "v: expected a whole number, got 'x' or expected null, got 'x'"),
    (Annotated[int, Param(minimum=1)], 0, "v: must be at least 1, got 0"),
    (Annotated[str, Param(pattern="^a")], "b", "v: must match the pattern ^a, got 'b'"),
    (set[int], [1, 1], "v: an item is given twice"),
    (Person, {"name": "a", "age": -1}, "v.age: Input should be greater than or equal to 0"),
    (datetime.date, "soon", "v: expected a date (YYYY-MM-DD), got 'soon'"),
]


@pytest.mark.parametrize(("annotation", "value", "message"), INVALID_VALUES)
def test_an_error_names_its_position_and_the_expected_value(
    annotation: Any, value: Any, message: str
) -> None:
    with pytest.raises(Mismatch) as caught:
        build_converter(annotation)(value, "v")
    assert str(caught.value) == message


def test_a_type_that_contains_itself_is_a_definition() -> None:
    schema = build_schema(Tree)
    assert schema["$ref"] == "#/$defs/Tree"
    assert schema["$defs"]["Tree"]["properties"]["leaves"]["items"]["description"] == "A leaf."


@pytest.mark.parametrize(
    ("cls", "required"),
    [
        (typed_dicts.Search, {"text"}),
        (typed_dicts.Partial, {"id"}),
        (typed_dicts.Both, {"text", "id"}),
        (typed_dicts.PartOfBoth, {"text", "id", "key"}),
        (typed_dicts.Foreign, {"name"}),
    ],
)
def test_required_members_of_a_typed_dict_with_postponed_annotations(
    cls: Any, required: set[str]
) -> None:
    assert set(build_schema(cls)["required"]) == required
    values = {"text": "a", "id": "b", "key": 1, "name": "c"}
    required_values = {name: value for name, value in values.items() if name in required}
    assert build_converter(cls)(required_values, "") == required_values
    for name in required:
        with pytest.raises(Mismatch, match=f"{name}: is missing"):
            build_converter(cls)(
                {key: required_values[key] for key in required_values if key != name}, ""
            )


def test_a_typed_dict_has_the_same_schema_as_argument_and_result() -> None:
    function = Function(typed_dicts.search, Context)
    argument = function.input_schema["properties"]["query"]
    assert set(argument["required"]) == {"text", "id", "key"}
    assert function.output_schema == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "limit": {"type": "integer"},
            "page": {"type": "integer", "description": "from 1 on"},
            "order": {"type": "string", "description": "a column"},
        },
        "required": ["text"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("annotation", [complex, dict[int, str], Callable[[], int], list[complex]])
def test_a_type_without_a_json_form_is_refused(annotation: Any) -> None:
    with pytest.raises(UnsupportedType):
        build_schema(annotation)


# -- functions ---------------------------------------------------------------------------------


def test_a_function_is_described_by_its_signature_and_its_docstring() -> None:
    def find(
        text: str,
        limit: Annotated[int, "at most so many"] = 10,
        colour: Colour = Colour.RED,
        *,
        ctx: Context,
    ) -> list[str]:
        """Find a text.

        Everywhere.

        Args:
            text: what to find,
                over two lines
            limit: overruled by the annotation

        Returns:
            What was found.
        """
        return []

    function = Function(find, Context)
    assert function.description == "Find a text.\n\nEverywhere."
    assert function.execution is Execution.THREAD and function.context_name == "ctx"
    assert function.input_schema == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "what to find, over two lines"},
            "limit": {"type": "integer", "description": "at most so many", "default": 10},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        },
        "required": ["text"],
        "additionalProperties": False,
    }
    assert function.output_schema == {"type": "array", "items": {"type": "string"}}


def test_all_errors_of_the_arguments_are_reported_together() -> None:
    def add(a: int, b: int, **more: int) -> int:
        return a + b

    function = Function(add, Context)
    assert function.call({"a": 1, "b": 2, "c": 3}) == 3
    with pytest.raises(InvalidArguments) as caught:
        function.call({"a": "x", "c": "y"})
    assert caught.value.problems == [
        "a: expected a whole number, got 'x'",
        "c: expected a whole number, got 'y'",
        "b: is missing",
    ]
    with pytest.raises(InvalidArguments, match="expected an object"):
        function.call([1, 2])


def test_missing_arguments_have_the_defaults_of_the_function() -> None:
    def greet(name: str, times: int = 2) -> str:
        return f"{name} " * times

    function = Function(greet, Context)
    assert function.call({"name": "a"}) == "a a "
    assert function.call({"name": "a", "times": 1}) == "a "
    assert function.call({"name": "a", "times": 1.0}) == "a "


@given(st.integers(), st.text(), st.booleans(), st.lists(st.integers(), max_size=3))
def test_named_words_of_a_command_become_arguments(
    number: int, text: str, flag: bool, items: list[int]
) -> None:
    def take(number: int, text: str, flag: bool, items: list[int]) -> None: ...

    function = Function(take, Context)
    expected = {"number": number, "text": text, "flag": flag, "items": items}
    words = [
        f"{name}={value if name == 'text' else json.dumps(value)}"
        for name, value in expected.items()
    ]
    assert function.bind_command_line(words) == expected


def test_positional_words_of_a_command_become_arguments() -> None:
    def take(number: int, text: str, more: str = "") -> None: ...

    function = Function(take, Context)
    assert function.bind_command_line(["5", "7"]) == {"number": 5, "text": "7"}
    assert function.bind_command_line(["5", "a=b"]) == {"number": 5, "text": "a=b"}
    with pytest.raises(InvalidArguments, match="a whole number"):
        function.bind_command_line(["x", "7"])
    with pytest.raises(InvalidArguments, match="too many"):
        function.bind_command_line(["1", "2", "3", "4"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Do.\n\nArgs:\n    a (int): one\n    b: two\n", {"a": "one", "b": "two"}),
        ("Do.\n\n:param a: one\n:param int b: two\n:returns: x\n", {"a": "one", "b": "two"}),
        ("Do.\n\nParameters\n----------\na : int\n    one\nb\n    two\n", {"a": "one", "b": "two"}),
        ("Do.", {}),
        (None, {}),
    ],
)
def test_three_styles_of_docstrings_are_read(text: str | None, expected: dict[str, str]) -> None:
    docstring = read_docstring(text)
    assert docstring.parameters == expected
    assert docstring.description == ("Do." if text else "")


class Shape(enum.Enum):
    """An enum with a value that is not a scalar."""

    LINE = (1, 2)
    POINT = "p"


def test_members_of_an_enum_with_a_tuple_value_are_passed_by_name() -> None:
    def draw(shape: Shape = Shape.POINT, kind: Literal[Shape.LINE] | None = None) -> list[Any]:
        return [shape, kind]

    function = Function(draw, Context)
    shape, kind = function.input_schema["properties"].values()
    assert shape == {"type": "string", "enum": ["LINE", "POINT"], "default": "POINT"}
    assert kind["anyOf"][0] == {"type": "string", "enum": ["LINE"]}
    assert function.call({"shape": "LINE", "kind": "LINE"}) == [Shape.LINE, Shape.LINE]
    with pytest.raises(InvalidArguments):
        function.call({"shape": "p"})


@dataclasses.dataclass
class Order:
    price: int
    total: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.total = 2 * self.price


def test_a_field_without_init_is_only_in_the_schema_of_results() -> None:
    def double(order: Order) -> Order:
        return order

    function = Function(double, Context)
    assert list(function.input_schema["properties"]["order"]["properties"]) == ["price"]
    assert function.output_schema is not None
    assert function.output_schema["required"] == ["price", "total"]
    with pytest.raises(InvalidArguments):
        function.call({"order": {"price": 1, "total": 2}})


def test_the_items_of_a_generator_are_written_once_or_not_at_all() -> None:
    """A generator can be read once. The second value is written in a second attempt, because JSON
    has no such keys."""
    assert encode([(number for number in (1, 2)), "\ud800"]) == rb'[[1,2],"\ud800"]'
    assert encode({Shape.LINE: "\ud800"}) == rb'{"LINE":"\ud800"}'
    with pytest.raises(TypeError, match="keys must be"):
        encode_text([(number for number in (1, 2)), {Shape.LINE: 1}])
