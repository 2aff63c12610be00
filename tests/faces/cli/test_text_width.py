"""Tests of `text_width`: tables are aligned even with characters that are not one column wide.

A terminal shows 天 in two columns, and a combining accent in none.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.faces.cli.common import show_table
from exthost.faces.cli.text_width import pad, text_width, truncate
from exthost.faces.cli.top_layout import table_lines


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("abc", 3),
        ("天気", 4),
        ("é", 1),
        ("e\u0301", 1),
        ("날씨", 4),
        ("\u1112\u1161\u11ab", 2),
        ("🐧", 2),
        ("ｱ", 1),
        ("a\u200d", 1),
    ],
)
def test_text_width_is_the_number_of_terminal_columns(text: str, columns: int) -> None:
    assert text_width(text) == columns
    assert text_width(pad(text, 6)) == 6
    assert pad(text, columns) == text


@given(st.text(st.characters(categories=("L", "M", "N", "S"))), st.integers(1, 40))
def test_truncated_text_fits_and_is_a_prefix_with_an_ellipsis(text: str, width: int) -> None:
    truncated = truncate(text, width)
    assert text_width(truncated) <= width
    if text_width(text) <= width:
        assert truncated == text
    else:
        assert truncated.endswith("…") and text.startswith(truncated[:-1])
        # One column is left if the next character needs two.
        assert text_width(truncated) >= width - 1


def test_columns_with_wide_characters_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    show_table([("天気", "weather"), ("text", "more")], ("NAME", "WHAT"))
    lines = capsys.readouterr().out.splitlines()
    starts = [
        text_width(line[: line.index(word)])
        for line, word in zip(lines, ("WHAT", "weather", "more"), strict=True)
    ]
    assert len(set(starts)) == 1


def test_columns_of_the_live_table_with_wide_characters_are_aligned() -> None:
    row = {"state": "ready", "in_flight": 0, "waiting": 0, "restarts": 0}
    header, *lines = table_lines([row | {"id": "天気予報"}, row | {"id": "weather"}], 100)
    starts = {text_width(line[: line.index("ready")]) for line in lines}
    assert len(starts) == 1
    assert text_width(header[: header.index("STATE")]) in starts
