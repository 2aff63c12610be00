"""Checking the arguments of a call against the input schema of a tool.

A `Checker` is made from a JSON Schema and lists the problems of arguments. Schemas are written by
extensions, so some tests use invalid and hostile schemas: if a schema cannot be used, the checker
has a warning and checks nothing, because the extension checks its arguments itself.
"""

import datetime
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exthost.model import schema as schema_module
from exthost.model.schema import MAX_PROBLEMS, Checker, _compiled, is_widely_readable
from exthost.model.schema_survey import Survey

CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
    },
    "required": ["city"],
    "additionalProperties": False,
}


class ConnectionCounter:
    """A listening socket that counts the connections to it."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]

    @property
    def connections(self) -> int:
        """The connections since the last call, which waited to be accepted until now."""
        self.socket.setblocking(False)
        count = 0
        while True:
            try:
                self.socket.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1


@pytest.fixture
def counter() -> Any:
    connection_counter = ConnectionCounter()
    yield connection_counter
    connection_counter.socket.close()


def new_checker(schema: Any) -> Checker:
    checker = Checker.of(schema)
    assert checker is not None
    return checker


@pytest.mark.parametrize("schema", [None, {}, True])
def test_without_a_schema_no_checker_exists(schema: Any) -> None:
    assert Checker.of(schema) is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"city": "Lima", "days": 3, "tags": ["a"]}, []),
        ({}, ['arguments: "city" is a required property']),
        ({"city": 5}, ['arguments.city: the value is not of type "string"']),
        ({"city": "x", "tags": ["a", "c"]}, ['arguments.tags[1]: the value is not one of "a"']),
        ({"city": "x", "days": 0}, ["arguments.days: the value is less than the minimum of 1"]),
        ({"city": "x", "town": 1}, ["arguments: Additional properties are not allowed ('town'"]),
        ([], ['arguments: the value is not of type "object"']),
        (None, ['arguments: the value is not of type "object"']),
    ],
)
def test_each_problem_names_the_place_of_the_value(arguments: Any, expected: list[str]) -> None:
    problems = new_checker(CITY).problems(arguments)
    for problem, beginning in zip(problems, expected, strict=True):
        assert problem.startswith(beginning)


@pytest.mark.parametrize(
    ("branches", "value", "sentence"),
    [
        ([{"type": "integer"}, {"type": "null"}], "ten", "the value is not an integer or null"),
        (
            [{"type": ["number", "string"]}, {"type": "array"}],
            True,
            "the value is not a number, a string or an array",
        ),
        (
            [{"type": "integer", "minimum": 3}, {"type": "null"}],
            1,
            "arguments.a: the value is less than the minimum of 3",
        ),
        ([{"minimum": 3}, {"multipleOf": 2}], 1, "'anyOf'"),
    ],
)
def test_with_several_alternatives_the_problem_of_the_nearest_is_reported(
    branches: list[Any], value: Any, sentence: str
) -> None:
    checker = Checker.of({"properties": {"a": {"anyOf": branches}}})
    assert checker is not None
    [problem] = checker.problems({"a": value})
    assert sentence in problem


def test_a_value_that_fits_too_many_alternatives_is_reported_as_such() -> None:
    branches = [{"minimum": 1}, {"maximum": 9}, {"type": "integer", "maximum": 2}]
    checker = Checker.of({"properties": {"a": {"oneOf": branches}}})
    assert checker is not None
    [problem] = checker.problems({"a": 5})
    assert "more than one" in problem


def test_only_the_first_few_problems_are_reported() -> None:
    schema = {"additionalProperties": {"type": "string"}}
    report = new_checker(schema).problems({f"key{n}": n for n in range(100)})
    assert len(report) == MAX_PROBLEMS


def test_a_problem_repeats_neither_the_value_nor_a_long_enum() -> None:
    schema = {"properties": {"token": {"maxLength": 3}, "kind": {"enum": ["x" * 5000]}}}
    report = new_checker(schema).problems({"token": "hunter2", "kind": "hunter2"})
    assert len(report) == 2
    assert "hunter2" not in " ".join(report)
    assert max(map(len, report)) < 400


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"type": "object", "properties": []},
        {"properties": {"a": {"pattern": "(a"}}},
        {"$ref": "#/nowhere"},
        {"$schema": 7, "type": 7},
        {"properties": {"a": object()}},
        {1: 2},
        [],
        "{}",
        5,
        False,
    ],
)
def test_an_invalid_schema_gives_a_warning_and_checks_nothing(schema: Any) -> None:
    checker = new_checker(schema)
    assert "arguments are not checked" in checker.warning
    assert checker.problems({"a": 1}) == []


@pytest.mark.parametrize(
    ("draft", "is_known"),
    [
        ("http://json-schema.org/draft-04/schema#", True),
        ("http://json-schema.org/draft-07/schema", True),
        ("https://json-schema.org/draft/2020-12/schema", True),
        ("http://json-schema.org/schema#", False),
        ("http://json-schema.org/draft-03/schema#", False),
        ("https://example.com/own", False),
        ("", False),
        (7, False),
    ],
)
def test_an_unknown_draft_is_read_as_the_newest_with_a_warning(draft: Any, is_known: bool) -> None:
    checker = new_checker({"$schema": draft, "type": "object"})
    assert checker.problems(1) == ['arguments: the value is not of type "object"']
    assert (checker.warning == "") is is_known


def test_an_old_draft_is_checked_by_the_rules_of_that_draft() -> None:
    draft = "http://json-schema.org/draft-04/schema#"
    checker = new_checker({"$schema": draft, "minimum": 1, "exclusiveMinimum": True})
    assert checker.warning == ""
    assert len(checker.problems(1)) == 1


@pytest.mark.parametrize("place", ["$ref", "$schema"])
def test_nothing_is_fetched_over_the_network(place: str, counter: ConnectionCounter) -> None:
    checker = new_checker({place: f"http://127.0.0.1:{counter.port}/schema.json", "type": "object"})
    assert checker.warning
    checker.problems({})
    assert counter.connections == 0


def test_compiling_a_schema_fetches_nothing(counter: ConnectionCounter) -> None:
    # Checker.of refuses such references before the schema is compiled, so this test compiles it.
    with pytest.raises(ValueError, match="outside itself"):
        _compiled({"$ref": f"http://127.0.0.1:{counter.port}/schema.json"})
    assert counter.connections == 0


def test_nothing_is_fetched_from_files(tmp_path: Any) -> None:
    (tmp_path / "strict.json").write_text('{"type": "string"}')
    for reference in (f"file://{tmp_path}/strict.json", f"{tmp_path}/strict.json", "strict.json"):
        checker = new_checker({"properties": {"a": {"$ref": reference}}})
        assert "not a path within it" in checker.warning
        assert checker.problems({"a": 1}) == []


@pytest.mark.parametrize(
    "inner",
    [
        {"$id": "http://x/y", "$ref": "#/a"},
        {"allOf": [{"$id": "http://x/y"}]},
        {"$dynamicRef": "#x"},
        {"$recursiveRef": "#"},
        {"$ref": "#anchor"},
    ],
)
def test_a_schema_with_unsupported_references_is_not_used(inner: Any) -> None:
    assert "arguments are not checked" in new_checker({"properties": {"p": inner}}).warning


def test_properties_can_be_named_like_keywords() -> None:
    names = ["$id", "$ref", "$dynamicRef", "id", "allOf", "properties"]
    checker = new_checker({"properties": {name: {"type": "string"} for name in names}})
    assert checker.warning == ""
    assert len(checker.problems(dict.fromkeys(names[:3], 1))) == 3


def test_a_schema_that_refers_to_itself_is_checked() -> None:
    tree = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            }
        },
    }
    checker = new_checker(tree)
    wrong: Any = {"children": [{"children": [5]}]}
    assert checker.warning == ""
    assert checker.problems(wrong) == [
        'arguments.children[0].children[0]: the value is not of type "object"'
    ]


@pytest.mark.parametrize("arguments", [{"a": "\ud800"}, {"a": object()}, object()])
def test_arguments_that_are_not_json_are_not_checked(arguments: Any) -> None:
    assert new_checker({"properties": {"a": {"type": "integer"}}}).problems(arguments) == []


@dataclass
class Point:
    x: Any


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (b"x", ['arguments: the value is not of type "object"']),
        ({1, 2}, ['arguments: the value is not of type "object"']),
        (datetime.date(2026, 1, 1), ['arguments: the value is not of type "object"']),
        ({"x": b"x"}, ['arguments.x: the value is not of type "integer"']),
        (Point("a"), ['arguments.x: the value is not of type "integer"']),
        (Point(1), []),
        ({1: 2}, []),
    ],
    ids=repr,
)
def test_values_of_other_types_are_checked_as_they_would_be_sent(
    arguments: Any, expected: list[str]
) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert new_checker(schema).problems(arguments) == expected


def test_a_pattern_with_too_much_backtracking_reports_nothing() -> None:
    checker = new_checker({"properties": {"a": {"pattern": "^(a|a)*(?!b)$"}}})
    assert checker.problems({"a": "a" * 40 + "!"}) == []


def forking_schema(keyword: str, length: int) -> Any:
    """Return definitions of which each refers to the next twice: 2^length branches."""
    definitions: dict[str, Any] = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(length)
    }
    definitions[f"d{length}"] = {"type": "string"}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def chain_schema(length: int) -> Any:
    """Return definitions of which each refers to the next, and which all allow no other keys."""
    definitions: dict[str, Any] = {
        f"d{n}": {"unevaluatedProperties": False, "allOf": [{"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(length)
    }
    definitions[f"d{length}"] = {"properties": {"a": {"type": "string"}}}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def nested_arguments(depth: int) -> Any:
    """Return objects within objects, of this depth."""
    value: Any = {"a": "x"}
    for _ in range(depth):
        value = {"a": value}
    return value


# The first two refer to themselves; in TANGLE, each definition refers to all definitions.
LOOP = {"type": "object", "anyOf": [{"properties": {"a": {"$ref": "#"}}}]}
FORKED_LOOP = {"type": "object", "anyOf": [{"properties": {"a": {"$ref": "#"}}}] * 2}
TANGLE = {
    "$ref": "#/$defs/d0",
    "$defs": {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{m}"} for m in range(12)]} for n in range(12)
    },
}


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (forking_schema("anyOf", 24), {}),
        (forking_schema("allOf", 24), {}),
        (chain_schema(5000), {"a": "x", "b": 1}),
        (LOOP, nested_arguments(100_000)),
        (FORKED_LOOP, nested_arguments(60)),
        (TANGLE, {}),
        ({"x": [[] for _ in range(100_000)]}, {}),
    ],
    ids=["forking", "forking-all", "chain", "deep", "forked-loop", "tangle", "huge"],
)
def test_a_hostile_schema_neither_blocks_nor_kills_the_host(schema: Any, arguments: Any) -> None:
    # In a thread with a small stack, because the blocking API may be called from one. If the
    # protection fails, the whole test run crashes or hangs.
    reports: list[list[str]] = []
    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(
            target=lambda: reports.append(new_checker(schema).problems(arguments)), daemon=True
        )
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join(10)
    assert reports == [[]]


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (forking_schema("anyOf", 6), {}),
        (chain_schema(10), {"b": 1}),
        (LOOP, nested_arguments(20)),
        (FORKED_LOOP, nested_arguments(5)),
    ],
    ids=["forking", "chain", "deep", "forked-loop"],
)
def test_reasonable_schemas_of_the_same_shapes_are_checked(schema: Any, arguments: Any) -> None:
    checker = new_checker(schema)
    assert checker.warning == ""
    assert checker.problems(arguments) != []


def test_arguments_that_contain_themselves_are_not_checked() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop["b"] = loop
    assert new_checker(LOOP).problems(loop) == []


def test_jsonschema_is_not_imported_before_there_is_a_schema() -> None:
    program = (
        "import sys\n"
        "from exthost.model.schema import Checker\n"
        "Checker.of({})\n"
        "assert 'jsonschema_rs' not in sys.modules\n"
        "Checker.of({'type': 'object'})\n"
        "assert 'jsonschema_rs' in sys.modules\n"
    )
    result = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
    assert result.returncode == 0


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
keywords = st.sampled_from(
    [
        *("type", "properties", "required", "items", "$ref", "$defs", "anyOf", "not", "enum"),
        *("pattern", "minimum", "$id", "$schema"),
    ]
)
schemas = st.dictionaries(
    keywords,
    st.one_of(
        json_values,
        st.sampled_from(["#", "#/$defs/a", "#/properties", "object", "string"]),
        st.dictionaries(keywords, json_values, max_size=3),
    ),
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(schemas, json_values)
def test_neither_schemas_nor_arguments_raise_an_exception(schema: Any, arguments: Any) -> None:
    checker = Checker.of(schema)
    if checker is None:
        assert schema == {}
        return
    report = checker.problems(arguments)
    assert len(report) <= MAX_PROBLEMS
    assert all(problem.startswith("arguments") for problem in report)


def checker_of_x(**keywords: Any) -> Checker:
    """Return a checker of objects whose property x has these keywords."""
    return new_checker({"type": "object", "properties": {"x": keywords}})


def test_a_regular_expression_that_is_large_when_compiled_is_not_used() -> None:
    # Matching this expression with a text of 120 kB took eight minutes.
    checker = checker_of_x(pattern=r"(.{1,300}){1,30}\x00")
    assert "not checked" in checker.warning and checker.problems({"x": "a"}) == []


def test_a_text_too_long_for_the_regular_expressions_is_not_checked() -> None:
    """The time of a match depends on the length of the text and on the number of expressions."""
    checker = checker_of_x(pattern="^b", maxLength=5)
    assert checker.warning == "" and checker.passes is None
    assert len(checker.problems({"x": "a" * 1000})) == 2
    assert checker.problems({"x": "a" * 100_000}) == []
    assert checker.problems({"x": [""] * 100_000}) == []
    assert checker.problems({"x": "b", "a" * 100_000: 1}) == []
    many = checker_of_x(allOf=[{"pattern": f"^b{n}"} for n in range(50)])
    assert many.problems({"x": "a"}) and many.problems({"x": "a" * 1000}) == []


def test_too_many_expressions_or_the_format_regex_are_not_used() -> None:
    many = {f"^{n}": {"type": "string"} for n in range(101)}
    assert "more than 100 regular" in checker_of_x(patternProperties=many).warning
    assert "format regex" in checker_of_x(format="regex").warning


def test_usual_regular_expressions_are_checked() -> None:
    for pattern, text in (
        (r"^(?!\.)(?!.*\.\.)[\w.+-]*@([A-Za-z0-9][A-Za-z0-9-]*\.)+[A-Za-z]{2,}$", "ab@example.org"),
        (r"^[a-zA-Z0-9]{1,64}@[a-z.]{1,253}$", "ab@example.org"),
        (r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$", "2026-01-01T00:00:00Z"),
    ):
        checker = checker_of_x(pattern=pattern)
        assert checker.warning == "" and checker.problems({"x": text}) == []
        assert checker.problems({"x": "no.."})


def test_an_exception_of_a_signal_handler_is_not_a_fault_of_the_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If it were, every later call of the tool would have unchecked arguments."""

    class TimeIsUp(Exception):
        pass

    def raise_time_is_up(schema: Any) -> Any:
        raise TimeIsUp

    schema = {"type": "object", "required": ["n"]}
    with monkeypatch.context() as patched:
        patched.setattr(schema_module, "_compiled", raise_time_is_up)
        with pytest.raises(TimeIsUp):
            Checker.of(schema)
    checker = Checker.of(schema)
    assert checker is not None and checker.problems({}) != []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "required": "a"},
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {"$ref": "https://example.org/schema.json"},
    ],
)
def test_a_schema_that_other_programs_cannot_compile_is_recognised(schema: Any) -> None:
    assert not is_widely_readable(schema)


def test_a_large_or_deep_schema_is_readable_for_other_programs() -> None:
    deep_schema: Any = {"type": "string"}
    for _ in range(50):
        deep_schema = {"type": "object", "properties": {"a": deep_schema}}
    wide_schema = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string"} for n in range(2500)},
    }
    schema_with_anchor = {"$ref": "#here", "$defs": {"A": {"$anchor": "here", "type": "object"}}}
    assert all(map(is_widely_readable, (deep_schema, wide_schema, schema_with_anchor)))


def test_a_chain_of_references_is_followed_once() -> None:
    class CountingDict(dict[str, Any]):
        lookups = 0

        def get(self, *arguments: Any) -> Any:
            CountingDict.lookups += 1
            return super().get(*arguments)

    links = {f"l{n}": CountingDict({"$ref": f"#/$defs/l{n + 1}"}) for n in range(1000)}
    Survey({"$ref": "#/$defs/l0", "$defs": links | {"l1000": {"type": "string"}}})
    # A few lookups for each link. Following the chain again from each link needs 1000 times more.
    assert CountingDict.lookups < 10 * len(links)


@pytest.mark.parametrize(("index", "visits"), [(0, 3), (1, 2), (2, 2)])
def test_a_reference_to_an_item_that_a_list_does_not_have_leads_to_nothing(
    index: int, visits: int
) -> None:
    survey = Survey({"$ref": f"#/anyOf/{index}", "anyOf": [{}]})
    assert (survey.visits, survey.refusal) == (visits, "")


def test_a_reference_may_have_escaped_characters() -> None:
    definitions = {"a b/c~d": {"type": "string"}}
    checker = new_checker(
        {"$defs": definitions, "properties": {"x": {"$ref": "#/$defs/a%20b~1c~0d"}}}
    )
    survey = Survey({"$defs": definitions})
    assert survey._resolve_reference("#/$defs/a%20b~1c~0d") == {"type": "string"}
    assert checker.warning == "" and len(checker.problems({"x": 1})) == 1
