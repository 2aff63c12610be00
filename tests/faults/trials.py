"""Trials: many small hostile experiments in one test, each counted by family and dialect.

A trial is a coroutine that must end in bounded time without an error. Those of one test run a few
at a time; one that fails does not stop the others, and the test tells of all. What was counted is
printed when the test run ends (`conftest.py`).
"""

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import pytest

# A trial that takes longer hangs: every limit inside is far shorter.
TRIAL_SECONDS = 20.0

# As many as keep two cores busy; more would only make each slower.
AT_ONCE = 4


class Counted(NamedTuple):
    """One line of the count."""

    family: str
    dialect: str
    outcome: str  # passed, failed, skipped


COUNTS: Counter[Counted] = Counter()
SLOWEST: list[tuple[float, str]] = []


class Trials:
    """The trials of one test, all of one family."""

    def __init__(self, family: str) -> None:
        self._family = family
        self._trials: list[tuple[str, str, Callable[[], Coroutine[Any, Any, None]]]] = []
        self._failures: list[str] = []

    def add(self, name: str, dialect: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._trials.append((name, dialect, run))

    def count(self, dialect: str, outcome: str = "passed", times: int = 1) -> None:
        """Count what was tried outside of `run`."""
        COUNTS[Counted(self._family, dialect, outcome)] += times

    async def run(self, at_once: int = AT_ONCE) -> None:
        """All of them. Fails the test if one of them failed, or if there was none."""
        assert self._trials, "a test without trials shows nothing"
        turns = asyncio.Semaphore(at_once)
        await asyncio.gather(*(self._try(turns, *trial) for trial in self._trials))
        if self._failures:
            pytest.fail("\n".join(self._failures), pytrace=False)

    async def _try(
        self, turns: asyncio.Semaphore, name: str, dialect: str, run: Callable[[], Awaitable[None]]
    ) -> None:
        async with turns:
            began = time.monotonic()
            try:
                async with asyncio.timeout(TRIAL_SECONDS):
                    await run()
            except Exception:
                told = traceback.format_exc(limit=-4)
                self._failures.append(f"-- {self._family}, {dialect}: {name}\n{told}")
                self.count(dialect, "failed")
            else:
                self.count(dialect)
            SLOWEST.append((time.monotonic() - began, f"{dialect}: {name}"))


def summary() -> list[str]:
    """What was tried, in words: one line for all, one for each dialect."""
    if not COUNTS:
        return []
    families = sorted({one.family for one in COUNTS})

    def sums(**wanted: str) -> int:
        return sum(
            times
            for one, times in COUNTS.items()
            if all(getattr(one, name) == value for name, value in wanted.items())
        )

    def line(**wanted: str) -> str:
        parts = [
            f"{family} {sums(family=family, outcome='passed', **wanted)}" for family in families
        ]
        parts += [f"{bad} {sums(outcome=bad, **wanted)}" for bad in ("failed", "skipped")]
        return ", ".join(parts)

    dialects = sorted({one.dialect for one in COUNTS})
    return [
        f"fault trials: {line()}",
        *(f"    {dialect + ':':9} {line(dialect=dialect)}" for dialect in dialects),
    ]
