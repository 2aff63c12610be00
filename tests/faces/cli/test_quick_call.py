"""Tests of `quick_call`, which makes a plain `exthost call NAME key=value` without slow imports.

It reads and writes JSON without the module `json`, and raises `_NotPlain` for what it cannot
handle; the ordinary path then makes the call. For all else, the JSON must be the same as that of
`json`.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exthost.faces.cli import quick_call
from exthost.faces.cli.dialect_options import parse_value

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda values: (
        st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=4), values, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(JSON_VALUES, st.sampled_from([None, 2]))
def test_a_plain_result_is_printed_as_json_dumps_writes_it(value: Any, indent: int | None) -> None:
    try:
        text = quick_call._format(value, "\n" if indent else "")
    except quick_call._NotPlain:  # text that could control a terminal, or an infinite number
        return
    assert text == json.dumps(value, ensure_ascii=False, indent=indent)
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "value", [{}, [], {"a": {}}, {"text": "hi é 漢"}, [1, -2.5, True, None], {"a": [{"b": ["c"]}]}]
)
def test_these_results_are_plain(value: Any) -> None:
    assert quick_call._format(value, "\n") == json.dumps(value, ensure_ascii=False, indent=2)


TEXTS = ["", "text", "true", "null", "nullx", "0", "-7", "123", "text with spaces", "é", "a=b"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_plain_argument_is_sent_as_the_value_that_a_parser_reads(text: str) -> None:
    assert json.loads(quick_call._json_text(text)) == parse_value(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=6) | JSON_VALUES.map(json.dumps))
def test_any_argument_is_sent_as_the_value_that_a_parser_reads(text: str) -> None:
    try:
        sent = quick_call._json_text(text)
    except quick_call._NotPlain:
        return
    assert json.loads(sent) == parse_value(text)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--json"],
        ["a", "b", "c"],
        ["a", "--text"],
        ["a", "{}"],
        ["a", "--", "cat"],
        ["a", "--config"],
    ],
    ids=" ".join,
)
def test_arguments_that_only_the_parser_reads_are_left_to_it(arguments: list[str]) -> None:
    assert quick_call.start_call(arguments) is None
