"""Prints outcomes as an aligned plain table. Pure: returns text and knows no terminal."""

from collections.abc import Iterable, Sequence

from bench.row import NOISY_OTHER_WORK, Outcome, Reading, Row, disagreements, is_noisy

HEADINGS = ("measure", "value", "must", "stretch", "verdict", "quartiles", "absolute")
# Columns of numbers are aligned right.
RIGHT = frozenset(("value", "must", "stretch"))


def number(value: float, unit: str) -> str:
    """Return a number with three significant digits and its unit; thousands as 12.3k."""
    size = abs(value)
    # 10.0 and 2.20, not 10 and 2.2: a column of equal precision is easier to compare.
    if size >= 999_500:
        text = f"{value / 1e6:#.3g}".rstrip(".") + "M"
    elif size >= 9_999.5:
        text = f"{value / 1e3:#.3g}".rstrip(".") + "k"
    elif size >= 999.5:
        text = f"{value:.0f}"
    else:
        text = f"{value:#.3g}".rstrip(".")
    return text + unit if unit in ("", "x", "%") else f"{text} {unit}"


def target(row: Row, value: float | None) -> str:
    """Return a target as text: `<= 3x`."""
    return "" if value is None else f"{row.direction.value} {value:g}{'x' * (row.unit == 'x')}"


def _noise(reading: Reading) -> str:
    if not is_noisy(reading):
        return ""
    others = reading.other_work
    if others is None or others <= NOISY_OTHER_WORK:
        return "NOISY"
    return f"NOISY, other programs took {others:.0%} of the cores"


def cells(outcome: Outcome) -> tuple[str, ...]:
    """Return the columns of one row."""
    row, reading = outcome.row, outcome.reading
    value = spread = absolute = noise = ""
    if reading is not None:
        value = number(reading.value, row.unit)
        noise = _noise(reading)
        absolute = ", ".join(f"{label} {text}" for label, text in reading.absolute)
        if reading.low is not None and reading.high is not None:
            spread = f"{number(reading.low, '')} - {number(reading.high, '')}"
    # The last line of a traceback has the error.
    reason = outcome.reason.strip().splitlines()[-1:] or [""]
    note = reading.note if reading is not None else ""
    notes = "; ".join(part for part in (noise, absolute, note, reason[0]) if part)
    must, stretch = target(row, row.must), target(row, row.stretch)
    return (row.name, value, must, stretch, outcome.verdict.value, spread, notes)


class Layout:
    """The column widths, which are fixed before any value is known, so that each row can be printed
    when it is done."""

    def __init__(self, rows: Iterable[Row]) -> None:
        names = max([len(HEADINGS[0]), *(len(row.name) for row in rows)])
        self._widths = (names, 13, 7, 7, 13, 13, 0)

    def line(self, columns: Sequence[str]) -> str:
        """Return one line, without trailing blanks."""
        padded = (
            text.rjust(width) if heading in RIGHT else text.ljust(width)
            for heading, text, width in zip(HEADINGS, columns, self._widths, strict=True)
        )
        return "  ".join(padded).rstrip()

    def heading(self) -> str:
        """Return the first line and the rule below it."""
        top = self.line(HEADINGS)
        return f"{top}\n{'-' * len(top)}"


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return how many rows had each verdict."""
    counts: dict[str, int] = {}
    for outcome in outcomes:
        counts[outcome.verdict.value] = counts.get(outcome.verdict.value, 0) + 1
    report = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    for key, runs in disagreements(outcomes).items():
        values = ", ".join(
            f"{number(o.reading.value, o.row.unit)} {o.verdict.value}" if o.reading else "FAILED"
            for o in runs
        )
        report += f"\n{key} was not judged the same each time: {values}"
    noisy = sum(o.reading is not None and is_noisy(o.reading) for o in outcomes)
    if noisy:
        report += f"\n{noisy} rows are NOISY: no verdict on them until the machine is quiet"
    return report
