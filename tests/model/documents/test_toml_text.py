"""TOML of others is parsed in time, or refused."""

import time

import pytest

from exthost.model.documents.toml_text import MAX_KEY_PARTS, parse_toml


@pytest.mark.parametrize("line", ["{} = 1", "[{}]", "a = {{ {} = 1 }}", '"quoted . x".{} = 1'])
def test_a_key_of_absurd_length_is_refused_at_once(line: str) -> None:
    began = time.monotonic()
    with pytest.raises(ValueError, match="parts"):
        parse_toml("first = 1\n" + line.format(".".join("a" * 32_000)))
    assert time.monotonic() - began < 5


def test_dots_in_text_and_comments_are_not_keys() -> None:
    dots = "." * (2 * MAX_KEY_PARTS)
    assert parse_toml(f'a = "{dots}" # {dots}\nb.c.d = 1') == {"a": dots, "b": {"c": {"d": 1}}}
