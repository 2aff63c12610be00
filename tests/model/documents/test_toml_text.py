"""TOML with very long keys, which take long to parse, is refused.

A manifest, which a stranger may have written, could occupy the host with a key such as a.a.a.a… .
"""

import time

import pytest

from exthost.model.documents.toml_text import MAX_KEY_PARTS, parse_toml


@pytest.mark.parametrize("line", ["{} = 1", "[{}]", "a = {{ {} = 1 }}", '"quoted . x".{} = 1'])
def test_a_key_with_too_many_parts_is_refused_at_once(line: str) -> None:
    started_at = time.monotonic()
    with pytest.raises(ValueError, match="parts"):
        parse_toml("first = 1\n" + line.format(".".join("a" * 32_000)))
    assert time.monotonic() - started_at < 5  # in seconds; `tomllib` would take minutes


def test_dots_in_text_and_comments_are_not_keys() -> None:
    dots = "." * (2 * MAX_KEY_PARTS)
    assert parse_toml(f'a = "{dots}" # {dots}\nb.c.d = 1') == {"a": dots, "b": {"c": {"d": 1}}}


def test_dots_of_many_numbers_in_a_line_are_not_a_key() -> None:
    numbers = [0.5] * (2 * MAX_KEY_PARTS)
    assert parse_toml(f"a = {numbers}") == {"a": numbers}
