"""Formats the table of `exthost top` and `exthost run` as lines that fit a terminal. Does no I/O.

Failed extensions come first. No line is wider than the terminal. The last column, the last error,
is cut at the right margin; `top` shows the whole error of the selected extension below the table.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

from exthost.errors import escape_controls
from exthost.faces.cli.status import format_duration
from exthost.faces.cli.text_width import pad, text_width, truncate

# The title of a column, its width, and whether it is a number.
COLUMNS = (
    ("STATE", 9, False),
    ("CALLS/S", 7, True),
    ("P50", 6, True),  # the median duration of calls
    ("P99", 6, True),
    ("ERR", 4, True),  # failed calls
    ("FLY", 3, True),  # calls in flight, or waiting for a process
    ("RST", 3, True),  # restarts
    ("BRK", 4, False),  # the state of the circuit breaker
    ("CPU%", 4, True),
    ("MEM", 5, True),
)
# The columns that are left out if the terminal is narrower than this.
_NARROW_WIDTH = 80
_WIDE_COLUMNS = frozenset({"P50", "P99", "BRK"})

# Further columns, if the terminal is wide enough.
_PROCESS_COLUMNS = (("PID", 7, True), ("UP", 6, True))
_PROCESS_COLUMNS_WIDTH = 100

# A further column, if the config has a lock.
_LOCK_COLUMN = ("LOCK", 11, False)

# A further column, if an extension has processes on other nodes.
_NODE_COLUMN = ("NODE", 12, False)
HEADER = ("ID", *(title for title, _, _ in COLUMNS), "LAST ERROR")

_MIN_ID_WIDTH, _MAX_ID_WIDTH = 8, 32
_MIN_ERROR_WIDTH = 10

# The order of the rows by state: those that an operator must see first. Other states come last.
_STATE_ORDER = {"failed": 0, "refused": 1, "open": 2, "backoff": 3, "starting": 4, "draining": 5}


class ArrangedTable(NamedTuple):
    """A table that fits a terminal. `lines` are its lines, `selected` is the index of the selected
    line, and `rows` are the rows that are visible."""

    lines: list[str]
    selected: int
    rows: tuple[Mapping[str, Any], ...]


def _by_number(key: str) -> Callable[[Mapping[str, Any]], Any]:
    """Return a sort key that puts the row with the largest value of this field first."""
    return lambda row: -(row.get(key) or 0)


# The orders of rows, by name: a function that returns the sort key of a row. Numbers are sorted
# from the largest.
ORDERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "state": lambda row: _STATE_ORDER.get(row["state"], 9),
    "id": lambda row: row["id"].lower(),
    "calls/s": _by_number("rate"),
    "P99": _by_number("p99_ms"),
    "errors": _by_number("failed"),
    "CPU": _by_number("cpu_percent"),
    "memory": _by_number("memory_bytes"),
    "uptime": _by_number("uptime"),
}
DEFAULT_ORDER = "state"


def order_rows(
    rows: Sequence[Mapping[str, Any]], pattern: str = "", order: str = DEFAULT_ORDER
) -> list[Mapping[str, Any]]:
    """Return the rows whose id, state or dialect contains the pattern, in this order: by default
    failed extensions first."""
    needle = pattern.lower()
    matching_rows = [
        row
        for row in rows
        if not needle or any(needle in str(row[key]).lower() for key in ("id", "state", "dialect"))
    ]
    return sorted(matching_rows, key=ORDERS[order])


def arrange(
    rows: Sequence[Mapping[str, Any]], width: int, height: int, selected: int = 0
) -> ArrangedTable:
    """Return a table that fits the width and height: the header, and a range of rows that includes
    the selected row. If rows are left out, the last line says how many."""
    header, *body = table_lines(rows, width)
    row_count = max(1, height - 1)  # the header takes one line
    if len(body) <= row_count:
        return ArrangedTable([header, *body], selected + 1, tuple(rows))
    row_count = max(1, row_count - 1)  # the line about hidden rows takes another one
    # The selected row is in the middle, except near the beginning and the end of the table.
    first_row = max(0, min(selected - row_count // 2, len(body) - row_count))
    count_below = len(body) - first_row - row_count
    hidden_rows_line = truncate(f"… {first_row} above, {count_below} below", width)
    lines = [header, *body[first_row : first_row + row_count], hidden_rows_line]
    return ArrangedTable(
        lines, selected - first_row + 1, tuple(rows[first_row : first_row + row_count])
    )


def table_lines(rows: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """Return the header and one line for each row."""
    has_lock = any(row.get("lock") for row in rows)
    has_nodes = any(row.get("nodes") for row in rows)
    has_process = width >= _PROCESS_COLUMNS_WIDTH
    is_shown = [width >= _NARROW_WIDTH or title not in _WIDE_COLUMNS for title, _, _ in COLUMNS]
    columns = (
        *compress(COLUMNS, is_shown),
        *(_PROCESS_COLUMNS if has_process else ()),
        *((_NODE_COLUMN,) if has_nodes else ()),
        *((_LOCK_COLUMN,) if has_lock else ()),
    )
    fixed_width = sum(column_width + 1 for _, column_width, _ in columns)
    longest_id = max((text_width(str(row["id"])) for row in rows), default=_MIN_ID_WIDTH)
    id_width = max(
        _MIN_ID_WIDTH, min(longest_id, _MAX_ID_WIDTH, width - fixed_width - _MIN_ERROR_WIDTH - 1)
    )
    header = (HEADER[0], *(title for title, _, _ in columns), HEADER[-1])
    lines = [_format_line(header, columns, id_width, width)]
    for row in rows:
        id, *middle, error = row_cells(row)
        process = _process_cells(row) if has_process else ()
        nodes = (_format_nodes(row),) if has_nodes else ()
        lock = (str(row.get("lock") or "-"),) if has_lock else ()
        all_cells = (id, *compress(middle, is_shown), *process, *nodes, *lock, error)
        lines.append(_format_line(all_cells, columns, id_width, width))
    return lines


def _format_line(
    cells: Sequence[str], columns: Sequence[tuple[str, int, bool]], id_width: int, width: int
) -> str:
    id, *middle, error = cells
    texts = [pad(truncate(id, id_width), id_width)]
    for text, (_, column_width, is_number) in zip(middle, columns, strict=True):
        cell = truncate(text, column_width)
        texts.append(cell.rjust(column_width) if is_number else pad(cell, column_width))
    return truncate(" ".join([*texts, error]).rstrip(), width)


def row_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of one extension's row."""
    error = row.get("last_error")
    breaker = str(row.get("breaker") or "")
    return (
        escape_controls(str(row["id"])),
        str(row["state"]),
        _format_rate(row.get("rate")),
        _format_milliseconds(row.get("p50_ms")),
        _format_milliseconds(row.get("p99_ms")),
        _format_count(row.get("failed"), 4),
        _format_count(row["in_flight"] + row["waiting"], 3),
        _format_count(row["restarts"], 3),
        {"open": "open", "half-open": "half"}.get(breaker, "-"),
        _format_count(None if row.get("cpu_percent") is None else round(row["cpu_percent"]), 4),
        _format_bytes(row.get("memory_bytes")),
        escape_controls(" ".join(error["message"].split())) if error else "-",
    )


def _process_cells(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the pid of the newest process, and the time since the extension was ready."""
    pids = row.get("pids") or ()
    uptime = row.get("uptime")
    return str(pids[-1]) if pids else "-", format_duration(uptime) if uptime else "-"


def _format_nodes(row: Mapping[str, Any]) -> str:
    """Return the node of the processes, or the number of nodes; "-" for this machine."""
    nodes = list(row.get("nodes") or ())
    if len(nodes) > 1:
        return f"{len(nodes)} nodes"
    return escape_controls(nodes[0]) if nodes else "-"


def _format_count(number: int | None, width: int) -> str:
    """Return a number below 10^8 in at most this many characters, which are at least 3."""
    if number is None:
        return "-"
    if number < 10**width:
        return str(number)
    if number < 10 ** (width + 2):  # 99k in 3 characters, 999k in 4
        return f"{number // 1000}k"
    return f"{number // 1_000_000}M" if number >= 1_000_000 else f".{number // 100_000}M"


def _format_rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _format_milliseconds(value: float | None) -> str:
    """Return a duration in at most six characters."""
    if value is None:
        return "-"
    if value >= 100_000:
        return f"{value / 1000:.0f}s"
    if value >= 1000:
        return f"{value / 1000:.1f}s"
    return f"{value:.0f}ms" if value >= 10 else f"{value:.1f}ms"


def _format_bytes(value: int | None) -> str:
    """Return a size in at most five characters. None and 0 mean that the size is unknown."""
    if not value:
        return "-"
    for unit in ("K", "M", "G"):
        value_in_unit = value / {"K": 2**10, "M": 2**20, "G": 2**30}[unit]
        if value_in_unit < 1000:
            return f"{value_in_unit:.0f}{unit}"
    return f"{value / 2**40:.0f}T"
