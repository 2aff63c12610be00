"""Ids that a program generates, such as UUIDs, in a replay of a recorded session.

`exthost replay` sends the recorded messages of the host to a program and compares its answers. The
program generates new ids each time. `GeneratedIds` remembers which new id stands in the place of
which recorded one, and puts the new one into the messages that are sent later.
"""

import pytest

from exthost.authoring.replay.generated_ids import GeneratedIds, is_generated_id

RECORDED = "01234567-89ab-cdef-0123-456789abcdef"
ACTUAL = "11234567-89AB-cdef-0123-456789abcdef"
ANOTHER = "21234567-89ab-cdef-0123-456789abcdef"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (RECORDED, True),
        (ACTUAL, True),
        (RECORDED[:-1], False),
        (RECORDED[:-1] + "x", False),
        (1, False),
    ],
)
def test_only_uuids_are_generated_ids(value: object, expected: bool) -> None:
    assert is_generated_id(value) is expected


@pytest.mark.parametrize(
    ("recorded", "actual", "is_remembered"),
    [
        (RECORDED, ACTUAL, True),
        ({"a": [1, RECORDED]}, {"a": [1, ACTUAL, 2]}, True),
        ({"a": RECORDED}, {"b": ACTUAL}, False),
        ({"a": RECORDED}, [ACTUAL], False),
        ([RECORDED], {"a": ACTUAL}, False),
        (RECORDED, "text", False),
        ("text", ACTUAL, False),
    ],
)
def test_ids_at_the_same_path_correspond(
    recorded: object, actual: object, is_remembered: bool
) -> None:
    ids = GeneratedIds()
    ids.remember(recorded, actual)
    expected = ACTUAL if is_remembered else RECORDED
    assert ids.replace_in({"x": [RECORDED, 1]}) == {"x": [expected, 1]}
    assert ids.may_correspond(RECORDED, ACTUAL)
    # An id that is remembered cannot correspond to a second one.
    assert ids.may_correspond(RECORDED, ANOTHER) is not is_remembered


def test_a_recorded_id_keeps_its_first_actual_id() -> None:
    ids = GeneratedIds()
    ids.remember(RECORDED, ACTUAL)
    ids.remember(RECORDED, ANOTHER)
    assert ids.replace_in(RECORDED) == ACTUAL
