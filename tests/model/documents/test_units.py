"""Parsing durations and sizes of configuration files, such as "500ms" and "256MiB"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.model.documents.units import (
    MAX_BYTES,
    MAX_SECONDS,
    UnitError,
    format_number,
    parse_seconds,
    parse_size,
)

SECONDS_OF_UNIT = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
BYTES_OF_UNIT = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("500ms", 0.5),
        ("1s", 1.0),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("1.5s", 1.5),
        ("0.1s", 0.1),
        (" 1 s ", 1.0),
        ("0s", 0.0),
        (3, 3.0),
        (0.25, 0.25),
        (MAX_SECONDS, float(MAX_SECONDS)),
    ],
)
def test_a_duration_is_read_as_seconds(value: object, expected: float) -> None:
    assert parse_seconds(value) == expected
    assert isinstance(parse_seconds(value), float)


@pytest.mark.parametrize(
    "value",
    [
        *("", "s", "30", "1 day", "1S", "-1s", "+1s", "1_0s", "1s2", "1e3s", ".5s", "1.s", "٣s"),
        *("1" * 39 + "s", "9999999h", True, False, -1, -0.1, None, [], {}, b"1s"),
        *(float("nan"), float("inf"), float("-inf"), 10**400, MAX_SECONDS + 1),
    ],
)
def test_an_invalid_duration_is_refused_with_examples(value: object) -> None:
    with pytest.raises(UnitError, match=r'write "500ms", "1s", "2m" or "1h"'):
        parse_seconds(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("256MB", 256_000_000),
        ("256MiB", 268_435_456),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("0.5GiB", 2**29),
        ("12B", 12),
        ("64 MiB", 2**26),
        (0, 0),
        (4096, 4096),
        (MAX_BYTES, MAX_BYTES),
    ],
)
def test_a_size_is_read_as_bytes(value: object, expected: int) -> None:
    assert parse_size(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        *("", "256", "256M", "256mb", "-1MB", "1.5B", "0.3KiB", "MB", "٣MB", "99999999TB"),
        *(True, 1.0, -1, None, [], {}, float("nan"), MAX_BYTES + 1),
    ],
)
def test_an_invalid_size_is_refused_with_examples(value: object) -> None:
    with pytest.raises(UnitError, match=r'write "256MB" \(10\^6\), "256MiB" \(2\^20\)'):
        parse_size(value)


def test_a_number_too_long_to_print_is_refused() -> None:
    for parse in (parse_seconds, parse_size):
        with pytest.raises(UnitError, match="that number is more than"):
            parse(10**5000)


def test_the_error_repeats_a_short_text_but_not_a_long_one() -> None:
    with pytest.raises(UnitError, match="'5 parsecs' is not a duration"):
        parse_seconds("5 parsecs")
    with pytest.raises(UnitError) as caught:
        parse_size("x" * 100_000)
    assert len(str(caught.value)) < 200


@given(number=st.integers(0, 10_000), unit=st.sampled_from(sorted(SECONDS_OF_UNIT)))
def test_any_number_with_any_unit_of_time_is_parsed(number: int, unit: str) -> None:
    assert parse_seconds(f"{number}{unit}") == pytest.approx(
        number * SECONDS_OF_UNIT[unit], rel=1e-15
    )


@given(value=st.floats(0, MAX_SECONDS).map(lambda value: round(value, 3)))
def test_seconds_have_the_same_value_with_and_without_a_unit(value: float) -> None:
    assert parse_seconds(f"{value:.3f}s") == value == parse_seconds(value)


@given(number=st.integers(0, 1_000_000), unit=st.sampled_from(sorted(BYTES_OF_UNIT)))
def test_any_number_with_any_unit_of_size_is_parsed(number: int, unit: str) -> None:
    assert parse_size(f"{number}{unit}") == number * BYTES_OF_UNIT[unit]


@given(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=60),
        st.from_regex(r"[0-9.]{1,30} ?[A-Za-z]{1,3}", fullmatch=True),
        st.binary(),
        st.lists(st.integers()),
    )
)
def test_any_value_is_parsed_or_raises_unit_error(value: object) -> None:
    for parse in (parse_seconds, parse_size):
        try:
            amount = parse(value)
        except UnitError:
            continue
        assert amount >= 0


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (60, "60"),
        (60.0, "60"),
        (0.5, "0.5"),
        (1_800_000, "1800000"),
        (67108865, "67108865"),
        (1e22, "10000000000000000000000"),
        (float("inf"), "inf"),
    ],
)
def test_a_number_is_written_with_all_of_its_digits(number: float, text: str) -> None:
    assert format_number(number) == text
