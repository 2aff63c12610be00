"""What changed since an earlier run: `python -m bench --compare FILE`. Pure.

Two values of a row differ only if the quartiles of the two runs do not overlap. Values of different
machines are not comparable; ratios are, more or less.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from bench.row import Direction, Outcome
from bench.table import number

# A row of the --json output of an earlier run, by its key.
Run = Mapping[str, Mapping[str, Any]]


def read_document(text: str) -> dict[str, Any]:
    """Return the --json output of a run. Raises ValueError for other text."""
    try:
        document: dict[str, Any] = json.loads(text)
        for row in document["rows"]:
            row["key"], row["value"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not the --json output of a run: {error}") from None
    return document


def read_run(text: str) -> Run:
    """Return the rows of a run that were measured. Raises ValueError for other text."""
    rows = read_document(text)["rows"]
    return {row["key"]: row for row in rows if row["value"] is not None}


def lines(earlier: Run, outcomes: Iterable[Outcome]) -> list[str]:
    """Return a line for each row that both runs measured: before, now, and which is better."""
    compared = [
        f"{outcome.row.key:38}{_describe(earlier[outcome.row.key], outcome)}"
        for outcome in outcomes
        if outcome.reading is not None and outcome.row.key in earlier
    ]
    return ["compared with the earlier run:", *(compared or ["no row is in both runs"])]


def _describe(before: Mapping[str, Any], outcome: Outcome) -> str:
    assert outcome.reading is not None
    value, reading, unit = before["value"], outcome.reading, outcome.row.unit
    text = f"{number(value, unit):>12} -> {number(reading.value, unit):>12}"
    before_low, before_high = _interval(value, *before.get("quartiles", (None, None)))
    low, high = _interval(reading.value, reading.low, reading.high)
    if low <= before_high and before_low <= high:
        return f"{text}  the same, within the quartiles"
    is_better = (reading.value < value) == (outcome.row.direction is Direction.AT_MOST)
    change = reading.value / value if value else math.inf
    return f"{text}  {'better' if is_better else 'WORSE'} ({change:.2f} of what it was)"


def _interval(value: float, low: float | None, high: float | None) -> tuple[float, float]:
    return (value if low is None else low, value if high is None else high)
