"""Each difference of an extension from its record in `exthost.lock` is described in one line.

`exthost approve` shows these lines to the user. The path of a change is its place in the record:
("tools", "get", "schema") is the schema of the tool `get`.
"""

from typing import Literal

import pytest

from exthost.model.change_text import describe_change
from exthost.model.lock_record import LockChange, Severity


@pytest.mark.parametrize(
    ("path", "kind", "before", "after", "text"),
    [
        (("permissions",), "new", "", "network", "new permission network"),
        (("permissions",), "gone", "network", "", "removed permission network"),
        (("variables",), "new", "", "TOKEN", "new variable TOKEN"),
        (("variables",), "gone", "TOKEN", "", "removed variable TOKEN"),
        (("limits",), "new", "", "cpu 9 s", "new limit cpu 9 s"),
        (("limits",), "gone", "cpu 9 s", "", "removed limit cpu 9 s"),
        (("hooks",), "new", "", "on_call", "new hook on_call"),
        (("hooks",), "gone", "on_call", "", "removed hook on_call"),
        (("capabilities",), "new", "", "tools", "new capability tools"),
        (("capabilities",), "gone", "tools", "", "removed capability tools"),
        (("tools", "get"), "new", "", "Gets.", "new tool get: Gets."),
        (("tools", "get"), "gone", "Gets.", "", "removed tool get: Gets."),
        (("tools", "get", "schema"), "changed", "a", "b", "tool get: schema changed"),
    ],
)
def test_a_change_is_described_in_one_line(
    path: tuple[str, ...],
    kind: Literal["new", "gone", "changed"],
    before: str,
    after: str,
    text: str,
) -> None:
    change = LockChange(Severity.PROGRAM, path, kind, before, after)
    assert describe_change(change) == text


@pytest.mark.parametrize(
    ("path", "head"),
    [
        (("tools", "get", "description"), "tool get: description: "),
        (("tools", "get", "annotations"), "tool get: annotations: "),
        (("instructions",), "instructions: "),
    ],
)
def test_a_changed_text_is_described_by_its_words(path: tuple[str, ...], head: str) -> None:
    change = LockChange(Severity.DESCRIPTION, path, "changed", "Gets a file.", "Gets any file.")
    line = describe_change(change)
    assert line.startswith(head) and "any" in line and "\n" not in line


def test_any_other_change_is_described_by_its_values() -> None:
    change = LockChange(Severity.PROGRAM, ("program",), "changed", "sha256:a", "sha256:b")
    assert describe_change(change) == str(change)
