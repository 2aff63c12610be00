"""The first difference between a recorded and an actual message, and its description."""

from typing import Any

import pytest

from exthost.authoring.replay.comparison import (
    _MAX_CHARACTERS,
    Difference,
    MessageComparer,
    ValueDifference,
    describe,
    match_key,
)
from exthost.authoring.replay.generated_ids import GeneratedIds
from exthost.session.trace.record import Kind, TraceRecord
from exthost.session.trace.secrets import HIDDEN

UUIDS = [f"{number}1234567-89ab-cdef-0123-456789abcdef" for number in range(3)]


def make_record(kind: Kind, method: str = "", data: Any = None, id: Any = None) -> TraceRecord:
    return TraceRecord(0.0, "a", kind, method=method, data=data, id=id)


@pytest.mark.parametrize(
    ("recorded", "actual", "difference"),
    [
        (1, 1, None),
        (1, 2, ValueDifference("", 1, 2)),
        (1, True, ValueDifference("", 1, True)),
        ("a", "a", None),
        ("a", "b", ValueDifference("", "a", "b")),
        ("a", 1, ValueDifference("", "a", 1)),
        ([1], (1,), None),
        ([1, 2], [1, 3], ValueDifference("[1]", 2, 3)),
        ([1, 2], [1], ValueDifference("[1]", 2, None, "actual")),
        ([1], [1, 2], ValueDifference("[1]", None, 2, "recorded")),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ValueDifference("a.b", 1, 2)),
        ({"a": 1}, {}, ValueDifference("a", 1, None, "actual")),
        ({}, {"a": 1}, ValueDifference("a", None, 1, "recorded")),
        ({"a": 1}, [1], ValueDifference("", {"a": 1}, [1])),
        ({"ignored": 1}, {"ignored": 2}, None),
        ({"ignored": 1}, {}, None),
        ({"requestId": 1}, {"requestId": 2}, None),
        ({"requestId": 1}, {}, ValueDifference("requestId", 1, None, "actual")),
        ({"plugin_id": "own"}, {"plugin_id": "new"}, None),
        ({"plugin_id": "x"}, {"plugin_id": "y"}, ValueDifference("plugin_id", "x", "y")),
        ({"plugin_id": "own"}, {"plugin_id": 1}, ValueDifference("plugin_id", "own", 1)),
        ({"plugin_root": "/a"}, {"plugin_root": "/b"}, None),
        ({"plugin_root": 1}, {"plugin_root": "/b"}, ValueDifference("plugin_root", 1, "/b")),
        ({"name": "own"}, {"name": "new"}, ValueDifference("name", "own", "new")),
        (f"a {HIDDEN} b", "a secret\n b", None),
        (f"a {HIDDEN} b", "a secret c", ValueDifference("", f"a {HIDDEN} b", "a secret c")),
        (UUIDS[0], UUIDS[1], None),
        (UUIDS[2], UUIDS[0], ValueDifference("", UUIDS[2], UUIDS[0])),
        (UUIDS[0], "text", ValueDifference("", UUIDS[0], "text")),
    ],
)
def test_the_first_difference_of_two_values_is_found(
    recorded: Any, actual: Any, difference: ValueDifference | None
) -> None:
    ids = GeneratedIds()
    ids.remember(UUIDS[2], UUIDS[1])
    comparer = MessageComparer(ids, ["ignored"], own_id="own")
    assert comparer.compare_values(recorded, actual) == difference


def test_ids_of_the_extension_differ_only_between_hosts() -> None:
    comparer = MessageComparer(GeneratedIds())
    assert comparer.compare_values({"plugin_id": "a"}, {"plugin_id": "b"}) is not None


@pytest.mark.parametrize(
    ("recorded", "actual", "is_different"),
    [
        (make_record("request", "a", 1), make_record("request", "a", 1), False),
        (make_record("request", "a"), make_record("request", "b"), True),
        (make_record("notification", "a"), make_record("notification", "b"), True),
        (make_record("reply", "a", 1), make_record("reply", "b", 1), False),
        (make_record("reply", "a"), make_record("failure", "a"), True),
        (make_record("reply", "a", 1), make_record("reply", "a", 2), True),
        (make_record("failure", "a", 1), make_record("failure", "a", 2), False),
    ],
)
def test_messages_are_compared_by_kind_method_and_data(
    recorded: TraceRecord, actual: TraceRecord, is_different: bool
) -> None:
    comparer = MessageComparer(GeneratedIds(), ["error"])
    assert (comparer.compare(1, recorded, actual) is not None) == is_different


def test_replies_are_matched_by_id_and_other_messages_by_method() -> None:
    assert match_key(make_record("reply", "a", id=1)) == match_key(make_record("failure", id=1))
    assert match_key(make_record("request", "a", id=1)) == ("request", "a")


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (make_record("reply", "a", 1), "a reply to a: 1"),
        (make_record("reply", "", 1), "a reply to a request: 1"),
        (make_record("failure", "a", 1), "an error reply to a: 1"),
        (make_record("request", "a", 1), "the request a: 1"),
        (make_record("exited", "", 1), "the exited: 1"),
    ],
)
def test_a_message_is_described_in_words(record: TraceRecord, text: str) -> None:
    assert describe(record) == text
    assert describe(record, with_data=False) == text.removesuffix(": 1")


@pytest.mark.parametrize(
    ("length", "is_cut"), [(_MAX_CHARACTERS, False), (_MAX_CHARACTERS + 1, True)]
)
def test_a_long_value_is_truncated_in_a_description(length: int, is_cut: bool) -> None:
    text = describe(make_record("request", "a", "x" * (length - 2)))  # and two quotes
    assert ("characters)" in text) == is_cut


@pytest.mark.parametrize(
    ("difference", "lines"),
    [
        (
            Difference(2, "the request a", "the request b"),
            ["message 2 of the recording", "recorded: the request a", "now:      the request b"],
        ),
        (Difference(0, "", "x"), ["after the recording", "recorded: nothing", "now:      x"]),
        (
            Difference(1, "a reply", "", ValueDifference("a", 1, None, "actual")),
            [
                "message 1 of the recording, a reply",
                "at        a",
                "recorded: 1",
                "now:      (absent)",
            ],
        ),
        (
            Difference(1, "a reply", "", ValueDifference("", None, 2, "recorded")),
            ["a reply", "at        the whole of it", "recorded: (absent)", "now:      2"],
        ),
    ],
)
def test_a_difference_is_shown_in_lines(difference: Difference, lines: list[str]) -> None:
    shown = difference.lines()
    assert len(shown) == len(lines)
    assert all(part in line for part, line in zip(lines, shown, strict=True))
    assert ("place" in difference.as_dict()) == (difference.place is not None)
