"""The error about the problems of a config file: its message, its line and its list of others.

All mistakes of a file are collected as `Problems`, and raised together as one `ConfigError`.
"""

import pytest

from exthost.errors import ConfigError
from exthost.model.documents.problems import _MAX_LISTED, DocumentProblem, Problems

TEXT = "a = 1\nb = 2\nc = 3\n"


def make_error(*keys: str, origin: str = "exthost.toml") -> ConfigError:
    """Return the error about a problem at each of these keys of TEXT."""
    items = [DocumentProblem("X0001", f"{key} is wrong", (key,), "", "") for key in keys]
    with pytest.raises(ConfigError) as caught:
        Problems(origin, TEXT, items).raise_first()
    return caught.value


def test_no_problem_raises_no_error() -> None:
    Problems("exthost.toml", TEXT).raise_first()


def test_a_single_problem_is_the_message() -> None:
    error = make_error("b")
    assert error.message == "exthost.toml:2: b: b is wrong"
    assert error.evidence.line == 2 and error.evidence.details == ()


def test_the_first_problem_in_the_file_is_the_message_and_the_others_are_details() -> None:
    error = make_error("c", "a")
    assert error.message == "exthost.toml:1: a: a is wrong (and 1 more)"
    assert error.evidence.details == ("exthost.toml:3: c: c is wrong [X0001]",)


def test_a_text_without_a_file_has_no_line_in_the_message() -> None:
    assert make_error("b", origin="").message == "b: b is wrong"


@pytest.mark.parametrize(
    ("others", "last_detail"), [(_MAX_LISTED, "[X0001]"), (_MAX_LISTED + 1, "1 more")]
)
def test_a_limited_number_of_problems_is_listed(others: int, last_detail: str) -> None:
    error = make_error(*["a"] * (1 + others))
    assert error.evidence.details[-1].endswith(last_detail)
