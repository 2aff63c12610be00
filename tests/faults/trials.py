"""Trials: many small hostile experiments in one test, each counted by family and dialect.

A trial is a coroutine that must end in bounded time without an error. The trials of one test run a
few at a time. A trial that fails does not stop the others, and the test reports all failures. The
counts are printed at the end of the test run (`conftest.py`).

A part of them is run, some of each dialect, chosen by a seed; `run(sample=...)` says how many. The
seed is that of the commit, so that each change gets another part and the same change the same; it
is printed with the counts. `EXTHOST_TEST_SAMPLE=SEED` runs the part of that seed,
`EXTHOST_TEST_SAMPLE=all` runs all, as `make soak` does.
"""

import asyncio
import datetime
import math
import os
import random
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest

# A trial that takes longer hangs: every limit inside is shorter.
TRIAL_SECONDS = 150.0

# The seed of the sample, or "all".
SAMPLE_VARIABLE = "EXTHOST_TEST_SAMPLE"

# The part of its trials that a test runs unless it says otherwise.
SAMPLE = 1 / 5

# Enough to keep two cores busy; more would make each trial slower.
AT_ONCE = 4


class Counted(NamedTuple):
    """One line of the count."""

    family: str
    dialect: str
    outcome: str  # passed, failed, skipped, unsampled


COUNTS: Counter[Counted] = Counter()
SLOWEST: list[tuple[float, str]] = []


class Trial(NamedTuple):
    """One trial; `times` is how many experiments it makes."""

    name: str
    dialect: str
    run: Callable[[], Coroutine[Any, Any, None]]
    times: int


class Trials:
    """The trials of one test, all of one family."""

    def __init__(self, family: str) -> None:
        self._family = family
        self._trials: list[Trial] = []
        self._failures: list[str] = []

    def add(
        self, name: str, dialect: str, run: Callable[[], Coroutine[Any, Any, None]], times: int = 1
    ) -> None:
        self._trials.append(Trial(name, dialect, run, times))

    def count(self, dialect: str, outcome: str = "passed", times: int = 1) -> None:
        """Count trials that were made outside of `run`."""
        COUNTS[Counted(self._family, dialect, outcome)] += times

    async def run(self, at_once: int = AT_ONCE, *, sample: float = SAMPLE) -> None:
        """Run all trials, or this share. Fail the test if a trial failed, or if there was none."""
        assert self._trials, "a test without trials shows nothing"
        chosen = sampled(self._trials, sample, os.environ.get(SAMPLE_VARIABLE, "all"))
        for trial in self._trials:
            if trial not in chosen:
                self.count(trial.dialect, "unsampled", trial.times)
        turns = asyncio.Semaphore(at_once)
        await asyncio.gather(*(self._try(turns, trial) for trial in chosen))
        if self._failures:
            pytest.fail("\n".join(self._failures), pytrace=False)

    async def _try(self, turns: asyncio.Semaphore, trial: Trial) -> None:
        name, dialect, run, times = trial
        async with turns:
            began = time.monotonic()
            try:
                async with asyncio.timeout(TRIAL_SECONDS):
                    await run()
            except Exception:
                report = traceback.format_exc(limit=-4)
                self._failures.append(f"-- {self._family}, {dialect}: {name}\n{report}")
                self.count(dialect, "failed", times)
            else:
                self.count(dialect, times=times)
            SLOWEST.append((time.monotonic() - began, f"{dialect}: {name}"))


def sampled(trials: list[Trial], share: float, seed: str) -> list[Trial]:
    """Return a share of the trials of each dialect, at least one; the same for the same seed."""
    if seed == "all" or share >= 1:
        return list(trials)
    chosen: list[Trial] = []
    for dialect in dict.fromkeys(trial.dialect for trial in trials):
        of_it = [trial for trial in trials if trial.dialect == dialect]
        names = " ".join(trial.name for trial in of_it)
        generator = random.Random(f"{seed} {dialect} {names}")
        chosen += generator.sample(of_it, math.ceil(len(of_it) * share))
    return chosen


def default_seed() -> str:
    """Return the commit as a seed; the date if there is none."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    return asked.stdout.strip()


def summary() -> list[str]:
    """Return the counts as text: a line for all, and one for each dialect."""
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
        outcomes = ("failed", "skipped", "unsampled")
        parts += [f"{bad} {sums(outcome=bad, **wanted)}" for bad in outcomes]
        return ", ".join(parts)

    dialects = sorted({one.dialect for one in COUNTS})
    whole = COUNTS.total()
    seed = os.environ.get(SAMPLE_VARIABLE, "all")
    tried = whole - sums(outcome="unsampled")
    return [
        f"fault trials: {line()}",
        f"fault trials: {tried} of {whole} trials, seed {seed} (again: {SAMPLE_VARIABLE}={seed})",
        *(f"    {dialect + ':':9} {line(dialect=dialect)}" for dialect in dialects),
    ]
