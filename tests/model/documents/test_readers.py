"""Each reader of config values: the values that it accepts, and its problems with others.

A reader is a function that checks one value of a config and returns it in its final form:

    read_duration("5s", place) == 5.0

It does not raise an exception. It adds what is wrong to the `Problems` of its place, so that all
mistakes of a config are reported together.
"""

import math
from typing import Any

import pytest

from exthost.model.documents import readers
from exthost.model.documents.problems import Place, Problems
from exthost.model.documents.readers import HostEnvRef, Reader, SecretSource

HALF_PAIR = "\ud800"  # not a character: UTF-8 cannot express it
COUNT = readers.integer_reader(2)
MODE = readers.choice_reader("on-demand", "always")


@pytest.mark.parametrize(
    ("reader", "value", "expected"),
    [
        (readers.read_text, "a", "a"),
        (readers.read_any_text, " ", " "),
        (readers.read_flag, False, False),
        (COUNT, 2, 2),
        (COUNT, readers._MAX_COUNT, readers._MAX_COUNT),
        (readers.read_duration, 0, 0),
        (readers.read_positive_duration, 1, 1),
        (readers.read_size, 1, 1),
        (MODE, "on_demand", "on-demand"),
        (readers.read_text_list, ("a", "b"), ("a", "b")),
        (readers.read_any_text_list, ["", "b"], ("", "b")),
        (readers.read_variables, {"A": ""}, {"A": ""}),
        (readers.read_variables_or_references, {"A": {"from": "B"}}, {"A": HostEnvRef("B")}),
        (
            readers.read_variables_or_references,
            {"A": {"command": ["pass", "x"]}},
            {"A": SecretSource.make("command", ("pass", "x"))},
        ),
        (
            readers.read_variables_or_references,
            {"A": {"keyring": "service/user"}},
            {"A": SecretSource.make("keyring", "service/user")},
        ),
        (
            readers.read_json_value,
            {"a": [1, 1.5, None, True, "x"]},
            {"a": [1, 1.5, None, True, "x"]},
        ),
        (readers.read_json_table, {"a": 1}, {"a": 1}),
    ],
)
def test_a_valid_value_is_read(reader: Reader, value: Any, expected: Any) -> None:
    problems = Problems()
    assert reader(value, Place(problems)) == expected
    assert problems.items == []


@pytest.mark.parametrize(
    ("reader", "value", "text"),
    [
        (readers.read_text, 1, "must be text, not"),
        (readers.read_text, " ", "must not be blank"),
        (readers.read_text, "a\0", "must not contain a NUL character"),
        (readers.read_text, HALF_PAIR, "half of a surrogate pair"),
        (readers.read_any_text, 1, "must be text, not"),
        (readers.read_any_text, "\0", "must not contain a NUL character"),
        (readers.read_flag, 1, "must be true or false"),
        (COUNT, True, "must be a whole number"),
        (COUNT, 2.0, "must be a whole number"),
        (COUNT, 1, "must be between 2 and"),
        (COUNT, readers._MAX_COUNT + 1, "must be between 2 and"),
        (readers.read_duration, "x", "x"),
        (readers.read_positive_duration, 0, "must be longer than 0"),
        (readers.read_size, 0, "must be more than 0"),
        (readers.read_size, "x", "x"),
        (MODE, 1, 'must be one of "on-demand", "always", not'),
        (MODE, "alway", 'did you mean "always"?'),
        (readers.read_text_list, "a", "must be a list of text"),
        (readers.read_text_list, [""], "must not be blank"),
        (readers.read_variables, [], "must be a table of text"),
        (readers.read_variables, {"A=": "x"}, "must be text without = in it"),
        (readers.read_variables, {"": "x"}, "must be text without = in it"),
        (readers.read_variables, {"A\0": "x"}, "must be text without = in it"),
        (readers.read_variables, {1: "x"}, "must be text without = in it"),
        (readers.read_variables, {"A": 1}, "must be text, not"),
        (readers.read_variables, {"A": "\0"}, "must not contain a NUL character"),
        (readers.read_variables, {HALF_PAIR: "x"}, "half of a surrogate pair"),
        (readers.read_variables_or_references, [], "must be a table of text"),
        (readers.read_variables_or_references, {"A": {}}, "must be text, or one of"),
        (
            readers.read_variables_or_references,
            {"A": {"from": "B", "file": "C"}},
            "must be text, or one of",
        ),
        (readers.read_variables_or_references, {"A": {"form": "B"}}, "must be text, or one of"),
        (readers.read_variables_or_references, {"A": {"from": ""}}, "must not be blank"),
        (readers.read_variables_or_references, {"=": {"from": "B"}}, "must be text without ="),
        (readers.read_variables_or_references, {"A": {"command": []}}, "must name a program"),
        (readers.read_variables_or_references, {"A": {"command": [""]}}, "must name a program"),
        (readers.read_variables_or_references, {"A": {"keyring": "x"}}, 'must be "SERVICE/USER"'),
        (readers.read_variables_or_references, {"A": {"keyring": "/x"}}, 'must be "SERVICE/USER"'),
        (readers.read_variables_or_references, {"A": {"keyring": "x/"}}, 'must be "SERVICE/USER"'),
        (readers.read_json_value, math.nan, "a number that JSON cannot express"),
        (readers.read_json_value, {1, 2}, "which JSON does not have"),
        (readers.read_json_table, [], "must be a table"),
    ],
)
def test_an_invalid_value_is_a_problem(reader: Reader, value: Any, text: str) -> None:
    problems = Problems()
    read = reader(value, Place(problems))
    assert not read  # None, or a table or a list without the item
    assert text in "; ".join(problem.text for problem in problems.items)


@pytest.mark.parametrize(
    ("value", "help"), [("a", "put it in [ ]"), (1, "")], ids=["a text", "a number"]
)
def test_a_text_in_place_of_a_list_gets_a_hint(value: Any, help: str) -> None:
    problems = Problems()
    readers.read_text_list(value, Place(problems))
    assert problems.items[0].help == help


@pytest.mark.parametrize(("value", "help"), [(1, "put the value in quotes"), ([], "")])
def test_a_number_as_the_value_of_a_variable_gets_a_hint(value: Any, help: str) -> None:
    problems = Problems()
    readers.read_variables({"A": value}, Place(problems))
    assert problems.items[0].help == help


def test_keys_of_other_programs_are_dropped_and_misspelt_keys_are_kept() -> None:
    """A key that is similar to a known one is kept, so that it is reported as a mistake later."""
    problems = Problems()
    value = {"timeout": 1, "time_out": 2, "colour": 3, 4: 5}
    remaining = readers.drop_foreign_keys(value, Place(problems), ["timeout"])
    assert remaining == {"timeout": 1, "time_out": 2, 4: 5}
    assert len(problems.notes) == 1 and "colour" in problems.notes[0]
    assert readers.drop_foreign_keys("text", Place(problems), ["timeout"]) == "text"


def test_an_unknown_key_of_a_table_is_a_problem() -> None:
    problems = Problems()
    read = readers.read_table({"a": "x", "bb": 1, 3: 4}, Place(problems), {"a": readers.read_text})
    assert read == {"a": "x"}
    unknown_key, wrong_key = problems.items
    assert unknown_key.text.startswith("unknown key") and "a key must be text" in wrong_key.text
    assert readers.read_table("text", Place(problems), {}) == {}
