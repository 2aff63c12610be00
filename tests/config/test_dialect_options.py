"""The options and limits of a dialect in a config.

A dialect is the protocol of an extension. It declares its options, such as `log_level` of mcp, and
may have a largest message. While defaults for several extensions are read, the dialect is unknown:
it is "" then.
"""

from typing import Any

import pytest

from exthost.config.options import check_limits, check_options
from exthost.dialects.find import find_dialect
from exthost.dialects.options import FLAG, TEXT
from exthost.model.documents.problems import Place, Problems
from exthost.model.spec import Limits

# The size of the largest message of cigen; the other dialects have none.
CIGEN_BYTES = find_dialect("cigen").traits.largest_message or 0


def problem_paths(options: Any, dialect: str) -> list[tuple[str | int, ...]]:
    """Return the path of each option that is reported as a problem."""
    problems = Problems()
    check_options(options, Place(problems), dialect)
    return [problem.path for problem in problems.items]


@pytest.mark.parametrize(
    ("dialect", "options", "wrong_key"),
    [
        ("mcp", None, ""),
        ("mcp", {"host_version": "1"}, ""),
        ("mcp", {"host_version": 1}, "host_version"),
        ("mcp", {"log_level": "debug"}, ""),
        ("mcp", {"plan": {}}, "plan"),
        ("morphir", {"unknown": 1}, "unknown"),
        # A dialect that is not installed declares no options.
        ("missing", {"unknown": 1}, ""),
        # Without a dialect, the options of all dialects are known, and no other is reported.
        ("", {"unknown": 1}, ""),
        ("", {"log_level": "debug"}, ""),
        ("", {"host_version": 1}, "host_version"),
    ],
)
def test_a_wrong_option_is_a_problem(dialect: str, options: Any, wrong_key: str) -> None:
    assert problem_paths(options, dialect) == ([(wrong_key,)] if wrong_key else [])


def test_a_value_that_fits_one_of_two_dialects_is_accepted_where_the_dialect_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declared = {"mcp": [("level", TEXT)], "nexo": [("level", FLAG)]}
    monkeypatch.setattr(
        "exthost.config.options._declared_options", lambda dialect: declared.get(dialect, [])
    )
    for value in ("debug", True):
        assert problem_paths({"level": value}, "") == []
    problems = Problems()
    check_options({"level": 1}, Place(problems))
    [problem] = problems.items
    assert "must be text or true or false" in problem.text


@pytest.mark.parametrize(
    ("dialect", "max_message", "is_problem"),
    [
        ("cigen", CIGEN_BYTES, False),
        ("cigen", CIGEN_BYTES + 1, True),
        ("cigen", None, False),
        ("mcp", CIGEN_BYTES + 1, False),
        ("missing", CIGEN_BYTES + 1, False),
        ("", CIGEN_BYTES + 1, False),
    ],
)
def test_messages_cannot_be_larger_than_the_dialect_allows(
    dialect: str, max_message: int | None, is_problem: bool
) -> None:
    problems = Problems()
    check_limits(Limits(max_message=max_message), Place(problems), dialect)
    assert bool(problems.items) == is_problem
