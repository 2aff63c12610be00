"""Arguments against input schemas: what is found, what is let through, what must not happen."""

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


class Ear:
    """A listening socket that counts who comes."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]

    @property
    def heard(self) -> int:
        """Connections that wait to be accepted; none are ever accepted before."""
        self.socket.setblocking(False)
        count = 0
        while True:
            try:
                self.socket.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1


@pytest.fixture
def http_ear() -> Any:
    ear = Ear()
    yield ear
    ear.socket.close()


def checker(schema: Any) -> Checker:
    made = Checker.of(schema)
    assert made is not None
    return made


@pytest.mark.parametrize("schema", [None, {}, True])
def test_without_a_schema_no_checker_exists(schema: Any) -> None:
    assert Checker.of(schema) is None


@pytest.mark.parametrize(
    ("arguments", "said"),
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
def test_each_problem_names_its_place(arguments: Any, said: list[str]) -> None:
    report = checker(CITY).problems(arguments)
    assert len(report) == len(said)
    assert all(one.startswith(start) for one, start in zip(report, said, strict=True))


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
def test_of_several_alternatives_the_problem_of_the_nearest_is_named(
    branches: list[Any], value: Any, sentence: str
) -> None:
    checker = Checker.of({"properties": {"a": {"anyOf": branches}}})
    assert checker is not None
    [problem] = checker.problems({"a": value})
    assert sentence in problem


def test_only_the_first_few_problems_are_reported() -> None:
    schema = {"additionalProperties": {"type": "string"}}
    report = checker(schema).problems({f"key{n}": n for n in range(100)})
    assert len(report) == MAX_PROBLEMS


def test_a_problem_repeats_neither_a_secret_nor_a_page() -> None:
    schema = {"properties": {"token": {"maxLength": 3}, "kind": {"enum": ["x" * 5000]}}}
    report = checker(schema).problems({"token": "hunter2", "kind": "hunter2"})
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
def test_an_invalid_schema_is_a_warning_and_no_check(schema: Any) -> None:
    made = checker(schema)
    assert "arguments are not checked" in made.warning
    assert made.problems({"a": 1}) == []


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
    made = checker({"$schema": draft, "type": "object"})
    assert made.problems(1) == ['arguments: the value is not of type "object"']
    assert (made.warning == "") is is_known


def test_an_old_draft_keeps_its_own_rules() -> None:
    draft = "http://json-schema.org/draft-04/schema#"
    made = checker({"$schema": draft, "minimum": 1, "exclusiveMinimum": True})
    assert made.warning == ""
    assert len(made.problems(1)) == 1


@pytest.mark.parametrize("place", ["$ref", "$schema"])
def test_nothing_is_fetched_over_the_network(place: str, http_ear: Ear) -> None:
    made = checker({place: f"http://127.0.0.1:{http_ear.port}/schema.json", "type": "object"})
    assert made.warning
    made.problems({})
    assert http_ear.heard == 0


def test_the_checker_itself_fetches_nothing_either(http_ear: Ear) -> None:
    # Past the survey, which refuses such references before the checker sees them.
    with pytest.raises(ValueError, match="outside itself"):
        _compiled({"$ref": f"http://127.0.0.1:{http_ear.port}/schema.json"})
    assert http_ear.heard == 0


def test_nothing_is_fetched_from_files(tmp_path: Any) -> None:
    (tmp_path / "strict.json").write_text('{"type": "string"}')
    for reference in (f"file://{tmp_path}/strict.json", f"{tmp_path}/strict.json", "strict.json"):
        made = checker({"properties": {"a": {"$ref": reference}}})
        assert "not a path within it" in made.warning
        assert made.problems({"a": 1}) == []


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
def test_references_that_are_not_followed_are_not_checked(inner: Any) -> None:
    assert "arguments are not checked" in checker({"properties": {"p": inner}}).warning


def test_properties_that_are_called_like_keywords_are_only_properties() -> None:
    names = ["$id", "$ref", "$dynamicRef", "id", "allOf", "properties"]
    made = checker({"properties": {name: {"type": "string"} for name in names}})
    assert made.warning == ""
    assert len(made.problems(dict.fromkeys(names[:3], 1))) == 3


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
    made = checker(tree)
    wrong: Any = {"children": [{"children": [5]}]}
    assert made.warning == ""
    assert made.problems(wrong) == [
        'arguments.children[0].children[0]: the value is not of type "object"'
    ]


@pytest.mark.parametrize("arguments", [{"a": "\ud800"}, {"a": object()}, object()])
def test_arguments_the_checker_cannot_read_are_let_through(arguments: Any) -> None:
    assert checker({"properties": {"a": {"type": "integer"}}}).problems(arguments) == []


@dataclass
class Point:
    x: Any


@pytest.mark.parametrize(
    ("arguments", "said"),
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
    arguments: Any, said: list[str]
) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert checker(schema).problems(arguments) == said


def test_an_abandoned_pattern_reports_nothing() -> None:
    made = checker({"properties": {"a": {"pattern": "^(a|a)*(?!b)$"}}})
    assert made.problems({"a": "a" * 40 + "!"}) == []


def forking(keyword: str, length: int) -> Any:
    """Each definition refers to the next one twice: 2^length branches."""
    definitions: dict[str, Any] = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(length)
    }
    definitions[f"d{length}"] = {"type": "string"}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def chain(length: int) -> Any:
    definitions: dict[str, Any] = {
        f"d{n}": {"unevaluatedProperties": False, "allOf": [{"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(length)
    }
    definitions[f"d{length}"] = {"properties": {"a": {"type": "string"}}}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def nested(depth: int) -> Any:
    value: Any = {"a": "x"}
    for _ in range(depth):
        value = {"a": value}
    return value


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
        (forking("anyOf", 24), {}),
        (forking("allOf", 24), {}),
        (chain(5000), {"a": "x", "b": 1}),
        (LOOP, nested(100_000)),
        (FORKED_LOOP, nested(60)),
        (TANGLE, {}),
        ({"x": [[] for _ in range(100_000)]}, {}),
    ],
    ids=["forking", "forking-all", "chain", "deep", "forked-loop", "tangle", "huge"],
)
def test_a_hostile_schema_neither_blocks_nor_kills_the_host(schema: Any, arguments: Any) -> None:
    # In a thread with little stack, as the blocking API may be called from. If a guard fails,
    # this crashes or hangs the whole test run: the claim cannot be shown more plainly.
    answer: list[list[str]] = []
    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(
            target=lambda: answer.append(checker(schema).problems(arguments)), daemon=True
        )
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join(10)
    assert answer == [[]]


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (forking("anyOf", 6), {}),
        (chain(10), {"b": 1}),
        (LOOP, nested(20)),
        (FORKED_LOOP, nested(5)),
    ],
    ids=["forking", "chain", "deep", "forked-loop"],
)
def test_the_guard_leaves_reasonable_schemas_alone(schema: Any, arguments: Any) -> None:
    made = checker(schema)
    assert made.warning == ""
    assert made.problems(arguments) != []


def test_arguments_that_contain_themselves_are_let_through() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop["b"] = loop
    assert checker(LOOP).problems(loop) == []


def test_jsonschema_is_not_imported_before_there_is_a_schema() -> None:
    code = (
        "import sys, exthost.model.schema as s; s.Checker.of({}); assert 'jsonschema_rs' not in"
        " sys.modules; s.Checker.of({'type': 'object'}); assert 'jsonschema_rs' in sys.modules"
    )
    ended = subprocess.run([sys.executable, "-c", code], timeout=30, check=False)
    assert ended.returncode == 0


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
def test_no_schema_and_no_arguments_raise(schema: Any, arguments: Any) -> None:
    made = Checker.of(schema)
    if made is None:
        assert schema == {}
        return
    reported = made.problems(arguments)
    assert len(reported) <= MAX_PROBLEMS
    assert all(report.startswith("arguments") for report in reported)


def of_text(**keywords: Any) -> Checker:
    checker = Checker.of({"type": "object", "properties": {"x": keywords}})
    assert checker is not None
    return checker


def test_a_regular_expression_that_is_large_when_compiled_is_not_used() -> None:
    # It took eight minutes for a text of 120 kB.
    checker = of_text(pattern=r"(.{1,300}){1,30}\x00")
    assert "not checked" in checker.warning and checker.problems({"x": "a"}) == []


def test_a_text_too_long_for_the_regular_expressions_is_not_checked() -> None:
    checker = of_text(pattern="^b", maxLength=5)
    assert checker.warning == "" and checker.passes is None
    assert len(checker.problems({"x": "a" * 1000})) == 2
    assert checker.problems({"x": "a" * 100_000}) == []
    assert checker.problems({"x": [""] * 100_000}) == []
    assert checker.problems({"x": "b", "a" * 100_000: 1}) == []
    many = of_text(allOf=[{"pattern": f"^b{n}"} for n in range(50)])
    assert many.problems({"x": "a"}) and many.problems({"x": "a" * 1000}) == []


def test_many_regular_expressions_and_those_in_arguments_are_not_used() -> None:
    many = {f"^{n}": {"type": "string"} for n in range(101)}
    assert "more than 100 regular" in of_text(patternProperties=many).warning
    assert "format regex" in of_text(format="regex").warning


def test_usual_regular_expressions_are_checked() -> None:
    for pattern, text in (
        (r"^(?!\.)(?!.*\.\.)[\w.+-]*@([A-Za-z0-9][A-Za-z0-9-]*\.)+[A-Za-z]{2,}$", "ab@example.org"),
        (r"^[a-zA-Z0-9]{1,64}@[a-z.]{1,253}$", "ab@example.org"),
        (r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$", "2026-01-01T00:00:00Z"),
    ):
        checker = of_text(pattern=pattern)
        assert checker.warning == "" and checker.problems({"x": text}) == []
        assert checker.problems({"x": "no.."})


def test_an_exception_of_a_signal_handler_is_not_a_fault_of_the_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the tool would be called with unchecked arguments from then on."""

    class TimeIsUp(Exception):
        pass

    def interrupted(schema: Any) -> Any:
        raise TimeIsUp

    schema = {"type": "object", "required": ["n"]}
    with monkeypatch.context() as patched:
        patched.setattr(schema_module, "_compiled", interrupted)
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
def test_a_schema_that_others_cannot_compile_is_recognised(schema: Any) -> None:
    assert not is_widely_readable(schema)


def test_a_schema_that_is_large_or_deep_is_readable_for_others() -> None:
    deep: Any = {"type": "string"}
    for _ in range(50):
        deep = {"type": "object", "properties": {"a": deep}}
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(2500)}}
    named = {"$ref": "#here", "$defs": {"A": {"$anchor": "here", "type": "object"}}}
    assert all(map(is_widely_readable, (deep, wide, named)))


def test_a_chain_of_references_is_followed_once() -> None:
    class Counted(dict[str, Any]):
        looks = 0

        def get(self, *arguments: Any) -> Any:
            Counted.looks += 1
            return super().get(*arguments)

    links = {f"l{n}": Counted({"$ref": f"#/$defs/l{n + 1}"}) for n in range(1000)}
    Survey({"$ref": "#/$defs/l0", "$defs": links | {"l1000": {"type": "string"}}})
    assert Counted.looks < 10 * len(links)
