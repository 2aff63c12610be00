"""Rates from two samples of a host: calls a second, and the share of a processor. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Rates"]


class Rates:
    """Adds `rate` and `cpu_percent` to rows, by comparing them with the previous sample."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, int, float]] = {}

    def add(self, rows: Sequence[Mapping[str, Any]], now: float) -> list[dict[str, Any]]:
        """Return the rows with their rates since the previous sample; None if there was none."""
        samples = {
            row["id"]: (now, row["calls"], float(row.get("cpu_seconds") or 0.0)) for row in rows
        }
        rated = [row | self._rates(row["id"], *samples[row["id"]]) for row in map(dict, rows)]
        self._before = samples
        return rated

    def _rates(self, id: str, now: float, calls: int, cpu: float) -> dict[str, Any]:
        if id not in self._before:
            return {"rate": None, "cpu_percent": None}
        then, calls_then, cpu_then = self._before[id]
        seconds = max(now - then, 0.001)
        return {
            "rate": max(0, calls - calls_then) / seconds,
            # The processor time of a process that has ended is missing in the sum.
            "cpu_percent": max(0.0, cpu - cpu_then) / seconds * 100,
        }
