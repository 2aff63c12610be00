"""The table of `exthost top` and of `exthost run` as lines that fit a terminal. Pure.

Those in trouble come first. Every line is at most as wide as the terminal; the last error gets what
is left, and the whole of it is below the table for the extension that is selected.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from exthost.errors import escape_controls

__all__ = ["HEADER", "Arranged", "arrange", "table_lines", "order_rows"]

# The title of a column, its width, and whether it is a number.
COLUMNS = (
    ("STATE", 9, False),
    ("CALLS/S", 7, True),
    ("P50", 6, True),
    ("P99", 6, True),
    ("ERR", 4, True),
    ("FLY", 3, True),
    ("RST", 3, True),
    ("BRK", 4, False),
    ("CPU%", 4, True),
    ("MEM", 5, True),
)
HEADER = ("ID", *(title for title, _, _ in COLUMNS), "LAST ERROR")

_NARROWEST_ID, _WIDEST_ID = 8, 32
_ERROR_CELLS = 10

# By what an operator must see first.
_ORDER = {"failed": 0, "refused": 1, "open": 2, "backoff": 3, "starting": 4, "draining": 5}


class Arranged(NamedTuple):
    """The lines of a table, which of them is the selected one, and the rows that they show."""

    lines: list[str]
    selected: int
    rows: tuple[Mapping[str, Any], ...]


def order_rows(rows: Sequence[Mapping[str, Any]], pattern: str = "") -> list[Mapping[str, Any]]:
    """Return the rows whose id, state or dialect contains the pattern, those in trouble first."""
    wanted = pattern.lower()
    matching = [
        row
        for row in rows
        if not wanted or any(wanted in str(row[key]).lower() for key in ("id", "state", "dialect"))
    ]
    return sorted(matching, key=lambda row: _ORDER.get(row["state"], 9))


def arrange(
    rows: Sequence[Mapping[str, Any]], width: int, height: int, selected: int = 0
) -> Arranged:
    """Return the header and as many rows as fit, the selected one among them; the last line says
    how many there are besides."""
    header, *body = table_lines(rows, width)
    room = max(1, height - 1)
    if len(body) <= room:
        return Arranged([header, *body], selected + 1, tuple(rows))
    room = max(1, room - 1)
    first = max(0, min(selected - room // 2, len(body) - room))
    below = len(body) - first - room
    more = _cut(f"… {first} above, {below} below", width)
    shown = [header, *body[first : first + room], more]
    return Arranged(shown, selected - first + 1, tuple(rows[first : first + room]))


def table_lines(rows: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """Return the header and one line for each row."""
    fixed = sum(cells + 1 for _, cells, _ in COLUMNS)
    longest = max((len(str(row["id"])) for row in rows), default=_NARROWEST_ID)
    id_cells = max(_NARROWEST_ID, min(longest, _WIDEST_ID, width - fixed - _ERROR_CELLS - 1))
    lines = [_line(HEADER, id_cells, width)]
    return lines + [_line(cells_of(row), id_cells, width) for row in rows]


def _line(cells: Sequence[str], id_cells: int, width: int) -> str:
    id, *middle, error = cells
    parts = [_cut(id, id_cells).ljust(id_cells)]
    for text, (_, room, is_number) in zip(middle, COLUMNS, strict=True):
        cut = _cut(text, room)
        parts.append(cut.rjust(room) if is_number else cut.ljust(room))
    return _cut(" ".join([*parts, error]).rstrip(), width)


def _cut(text: str, cells: int) -> str:
    return text if len(text) <= cells else f"{text[: max(0, cells - 1)]}…"


def cells_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one extension as the cells of a line."""
    error = row.get("last_error")
    breaker = str(row.get("breaker") or "")
    return (
        escape_controls(str(row["id"])),
        str(row["state"]),
        _number(row.get("rate"), 1),
        _milliseconds(row.get("p50_ms")),
        _milliseconds(row.get("p99_ms")),
        _count(row.get("failed")),
        str(row["in_flight"] + row["waiting"]),
        str(row["restarts"]),
        {"open": "open", "half-open": "half", "half_open": "half"}.get(breaker, "-"),
        _number(row.get("cpu_percent"), 0),
        _bytes(row.get("memory_bytes")),
        escape_controls(" ".join(error["message"].split())) if error else "-",
    )


def _count(number: int | None) -> str:
    if number is None:
        return "-"
    if number < 10_000:
        return str(number)
    return f"{number // 1000}k" if number < 1_000_000 else f"{number // 1_000_000}M"


def _number(value: float | None, digits: int) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.{digits}f}"


def _milliseconds(value: float | None) -> str:
    """Return a duration in at most six characters."""
    if value is None:
        return "-"
    if value >= 100_000:
        return f"{value / 1000:.0f}s"
    if value >= 1000:
        return f"{value / 1000:.1f}s"
    return f"{value:.0f}ms" if value >= 10 else f"{value:.1f}ms"


def _bytes(value: int | None) -> str:
    """Return a size in at most five characters."""
    if not value:
        return "-"
    for unit in ("K", "M", "G"):
        value_in_unit = value / {"K": 2**10, "M": 2**20, "G": 2**30}[unit]
        if value_in_unit < 1000:
            return f"{value_in_unit:.0f}{unit}"
    return f"{value / 2**40:.0f}T"
