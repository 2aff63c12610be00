"""Rows of PERFORMANCE.md whose measurement is still to be written: in the table, so that nobody
takes their absence for a pass. Replace `later(...)` in `bench/rows.py` by a function."""

from collections.abc import Callable

from bench.row import NotBuiltYet, Reading, Setting


def later(needs: str) -> Callable[[Setting], Reading]:
    """A measurement that only says what it waits for."""

    def measure(setting: Setting) -> Reading:
        raise NotBuiltYet(needs)

    return measure
