"""Comparing the messages of a recorded session with those of a replay (`exthost replay`).

A replay sends the recorded messages of the host to a program, and compares its answers with the
recorded ones. The comparer finds the first difference, but some values may differ: ids that are
generated anew, folders of the machine, hidden secrets, and fields that the user names.
"""

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

# Ids that a program has generated: two in the recording, and one in the replay. In these tests it
# is known already that the new id stands for KNOWN_OLD_ID.
OLD_ID, NEW_ID, KNOWN_OLD_ID = (
    f"{number}1234567-89ab-cdef-0123-456789abcdef" for number in range(3)
)

# The id of the extension in the recording, and the name of a field that is not compared.
OWN_ID = "own"
IGNORED_FIELD = "ignored"


def make_record(kind: Kind, method: str = "", data: Any = None, id: Any = None) -> TraceRecord:
    return TraceRecord(0.0, "a", kind, method=method, data=data, id=id)


def make_comparer() -> MessageComparer:
    ids = GeneratedIds()
    ids.remember(KNOWN_OLD_ID, NEW_ID)
    return MessageComparer(ids, [IGNORED_FIELD], own_id=OWN_ID)


# Each row is: a recorded value, an actual value, and the first difference between them, or None. A
# ValueDifference has the place, both values, and which of them is missing ("actual", "recorded").
SIMPLE_VALUES = [
    (1, 1, None),
    (1, 2, ValueDifference("", 1, 2)),
    (1, True, ValueDifference("", 1, True)),
    ("a", "a", None),
    ("a", "b", ValueDifference("", "a", "b")),
    ("a", 1, ValueDifference("", "a", 1)),
]
LISTS_AND_OBJECTS = [
    ([1], (1,), None),
    ([1, 2], [1, 3], ValueDifference("[1]", 2, 3)),
    ([1, 2], [1], ValueDifference("[1]", 2, None, "actual")),
    ([1], [1, 2], ValueDifference("[1]", None, 2, "recorded")),
    ({"a": {"b": 1}}, {"a": {"b": 2}}, ValueDifference("a.b", 1, 2)),
    ({"a": 1}, {}, ValueDifference("a", 1, None, "actual")),
    ({}, {"a": 1}, ValueDifference("a", None, 1, "recorded")),
    ({"a": 1}, [1], ValueDifference("", {"a": 1}, [1])),
]
# Some fields differ in each run, such as ids of requests, or on each host, such as folders.
FIELDS_THAT_MAY_DIFFER = [
    ({IGNORED_FIELD: 1}, {IGNORED_FIELD: 2}, None),
    ({IGNORED_FIELD: 1}, {}, None),
    ({"requestId": 1}, {"requestId": 2}, None),
    ({"requestId": 1}, {}, ValueDifference("requestId", 1, None, "actual")),
    ({"plugin_id": OWN_ID}, {"plugin_id": "new"}, None),
    ({"plugin_id": "x"}, {"plugin_id": "y"}, ValueDifference("plugin_id", "x", "y")),
    ({"plugin_id": OWN_ID}, {"plugin_id": 1}, ValueDifference("plugin_id", OWN_ID, 1)),
    ({"plugin_root": "/a"}, {"plugin_root": "/b"}, None),
    ({"plugin_root": 1}, {"plugin_root": "/b"}, ValueDifference("plugin_root", 1, "/b")),
    ({"name": OWN_ID}, {"name": "new"}, ValueDifference("name", OWN_ID, "new")),
]
HIDDEN_SECRETS = [
    (f"a {HIDDEN} b", "a secret\n b", None),
    (f"a {HIDDEN} b", "a secret c", ValueDifference("", f"a {HIDDEN} b", "a secret c")),
]
# A generated id corresponds to one id of the recording, always the same.
GENERATED_IDS = [
    (OLD_ID, NEW_ID, None),
    (KNOWN_OLD_ID, OLD_ID, ValueDifference("", KNOWN_OLD_ID, OLD_ID)),
    (OLD_ID, "text", ValueDifference("", OLD_ID, "text")),
]


@pytest.mark.parametrize(
    ("recorded", "actual", "difference"),
    [
        *SIMPLE_VALUES,
        *LISTS_AND_OBJECTS,
        *FIELDS_THAT_MAY_DIFFER,
        *HIDDEN_SECRETS,
        *GENERATED_IDS,
    ],
)
def test_the_first_difference_of_two_values_is_found(
    recorded: Any, actual: Any, difference: ValueDifference | None
) -> None:
    assert make_comparer().compare_values(recorded, actual) == difference


def test_the_id_of_the_extension_is_compared_if_the_recorded_id_is_not_known() -> None:
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
        (make_record("notification", "a", 1), "the notification a: 1"),
        (make_record("noise", "", 1), "a record of the kind noise: 1"),
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


def test_a_text_with_many_hidden_secrets_is_compared_in_linear_time() -> None:
    comparer = make_comparer()
    recorded = f"a{HIDDEN}" * 200 + "b"
    assert comparer.compare_values(recorded, "a" * 10_000) is not None
    assert comparer.compare_values(recorded, "a" * 10_000 + "b") is None
    assert comparer.compare_values(f"x{HIDDEN}x", "x") is not None
    assert comparer.compare_values(f"{HIDDEN}ab{HIDDEN}b", "1ab2b") is None
    assert comparer.compare_values(f"{HIDDEN}ab{HIDDEN}b", "1ab") is not None


def test_values_that_are_nested_too_deeply_are_a_difference_and_no_traceback() -> None:
    deep: Any = OLD_ID
    for _ in range(900):
        deep = [deep]
    record = make_record("notification", "n", deep)
    difference = make_comparer().compare(1, record, record)
    assert difference is not None and "nested too deeply" in difference.actual
    ids = GeneratedIds()
    ids.remember(OLD_ID, NEW_ID)
    ids.remember(deep, deep)
    assert ids.replace_in(deep) is deep and ids.replace_in([OLD_ID]) == [NEW_ID]
