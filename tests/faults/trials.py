"""Trials: many small tests of hostile behaviour in one test, counted by family and dialect.

    trials = Trials("lifetime")
    for peer in all_peers():  # one for each dialect (protocol)
        trials.add("exit 3", peer.dialect, partial(crash, peer, 3))
    await trials.run()

A trial is a coroutine that must end in bounded time without an error. The trials of one test run a
few at a time. A trial that fails does not stop the others, and the test reports all failures. The
counts are printed at the end of the test run (`conftest.py`).

A test runs a sample of its trials, with some of each dialect; `run(sample=...)` sets its size. A
seed chooses the sample. The default seed is the commit, so each commit runs another sample. The
seed is printed with the counts. `EXTHOST_TEST_SAMPLE=SEED` runs the sample of this seed, and
`EXTHOST_TEST_SAMPLE=all` runs all trials, as `make soak` does.
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

# The time limit of a trial. All limits inside a trial are shorter.
TRIAL_SECONDS = 150.0

# The environment variable with the seed of the sample, or "all".
SAMPLE_VARIABLE = "EXTHOST_TEST_SAMPLE"

# The default share of its trials that a test runs.
SAMPLE = 1 / 5

# How many trials run at the same time: enough for two cores.
AT_ONCE = 4


class TrialKey(NamedTuple):
    """The key of a count in `COUNTS`."""

    family: str
    dialect: str
    outcome: str  # passed, failed, skipped, unsampled


# The counts of this process, and the seconds of each trial that has run, with its name.
COUNTS: Counter[TrialKey] = Counter()
SLOWEST: list[tuple[float, str]] = []


class Trial(NamedTuple):
    """One trial. It counts `times` times, because it can test several inputs."""

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
        COUNTS[TrialKey(self._family, dialect, outcome)] += times

    async def run(self, at_once: int = AT_ONCE, *, sample: float = SAMPLE) -> None:
        """Run this share of the trials. Fail the test if a trial fails or if there are no
        trials."""
        assert self._trials, "a test without trials checks nothing"
        chosen = sampled(self._trials, sample, os.environ.get(SAMPLE_VARIABLE, "all"))
        for trial in self._trials:
            if trial not in chosen:
                self.count(trial.dialect, "unsampled", trial.times)
        semaphore = asyncio.Semaphore(at_once)
        await asyncio.gather(*(self._run_trial(semaphore, trial) for trial in chosen))
        if self._failures:
            pytest.fail("\n".join(self._failures), pytrace=False)

    async def _run_trial(self, semaphore: asyncio.Semaphore, trial: Trial) -> None:
        name, dialect, run, times = trial
        async with semaphore:
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
    """Return a share of the trials of each dialect, at least one, chosen by the seed."""
    if seed == "all" or share >= 1:
        return list(trials)
    chosen: list[Trial] = []
    for dialect in dict.fromkeys(trial.dialect for trial in trials):
        of_dialect = [trial for trial in trials if trial.dialect == dialect]
        names = " ".join(trial.name for trial in of_dialect)
        # With the names, two tests with equally many trials get different samples.
        generator = random.Random(f"{seed} {dialect} {names}")
        chosen += generator.sample(of_dialect, math.ceil(len(of_dialect) * share))
    return chosen


def default_seed() -> str:
    """Return the commit as a seed, or the date without a repository."""
    try:
        result = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    return result.stdout.strip()


def summary() -> list[str]:
    """Return the counts as text: a line for all, and one for each dialect."""
    if not COUNTS:
        return []
    families = sorted({key.family for key in COUNTS})

    def count(**fields: str) -> int:
        return sum(
            times
            for key, times in COUNTS.items()
            if all(getattr(key, name) == value for name, value in fields.items())
        )

    def line(**fields: str) -> str:
        parts = [
            f"{family} {count(family=family, outcome='passed', **fields)}" for family in families
        ]
        outcomes = ("failed", "skipped", "unsampled")
        parts += [f"{outcome} {count(outcome=outcome, **fields)}" for outcome in outcomes]
        return ", ".join(parts)

    dialects = sorted({key.dialect for key in COUNTS})
    total = COUNTS.total()
    seed = os.environ.get(SAMPLE_VARIABLE, "all")
    sample = f"{SAMPLE_VARIABLE}={seed}"
    run_count = total - count(outcome="unsampled")
    return [
        f"fault trials: {line()}",
        f"fault trials: {run_count} of {total} trials, seed {seed} (again: {sample})",
        *(f"    {dialect + ':':9} {line(dialect=dialect)}" for dialect in dialects),
    ]
