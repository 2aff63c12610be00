"""Computes rates from two samples of a host, for `exthost top` and the live table of `exthost run`:
calls per second, and processor use. Does no I/O.
"""

from collections.abc import Mapping, Sequence
from typing import Any


class Rates:
    """Adds `rate` (calls per second) and `cpu_percent` (100 is one processor) to rows, by comparing
    them with the previous sample."""

    def __init__(self) -> None:
        # By extension: the time, the number of calls, and the seconds of processor time.
        self._previous_samples: dict[str, tuple[float, int, float]] = {}

    def add(self, rows: Sequence[Mapping[str, Any]], now: float) -> list[dict[str, Any]]:
        """Return the rows with their rates since the previous sample. `now` is a monotonic time in
        seconds. The rates are None for an extension that was not in the previous sample."""
        samples = {
            row["id"]: (now, row["calls"], float(row.get("cpu_seconds") or 0.0)) for row in rows
        }
        rows_with_rates = [
            row | self._compute_rates(row["id"], *samples[row["id"]]) for row in map(dict, rows)
        ]
        self._previous_samples = samples
        return rows_with_rates

    def _compute_rates(self, id: str, now: float, calls: int, cpu_seconds: float) -> dict[str, Any]:
        """Return the rates of an extension since its previous sample."""
        if id not in self._previous_samples:
            return {"rate": None, "cpu_percent": None}
        previous_time, previous_calls, previous_cpu = self._previous_samples[id]
        seconds = max(now - previous_time, 0.001)  # never 0, by which the rates are divided
        return {
            "rate": max(0, calls - previous_calls) / seconds,
            # The sum can decrease, because it no longer has the time of a process that has ended.
            "cpu_percent": max(0.0, cpu_seconds - previous_cpu) / seconds * 100,
        }
