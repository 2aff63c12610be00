"""The sample of trials depends only on the seed, and has trials of each dialect.

A trial is a small test of a hostile behaviour in one dialect (`tests/faults/trials.py`). There are
thousands, so each test run chooses some of them.
"""

import asyncio
import os
import subprocess
import sys

import pytest

from tests.faults.trials import SAMPLE_VARIABLE, Trial, default_seed, sampled


async def do_nothing() -> None:
    await asyncio.sleep(0)


# Two dialects: "many" has 100 trials, and "few" has 3.
TRIALS = [
    Trial(f"{dialect} {n}", dialect, do_nothing, 1)
    for dialect, count in (("many", 100), ("few", 3))
    for n in range(count)
]


def sampled_names(seed: str, share: float = 0.1) -> list[str]:
    return [trial.name for trial in sampled(TRIALS, share, seed)]


def test_a_seed_always_chooses_the_same_trials() -> None:
    assert sampled_names("one") == sampled_names("one") != sampled_names("two")


def test_each_dialect_has_its_share_and_at_least_one_trial() -> None:
    for seed in "abcdef":
        dialects = [name.split()[0] for name in sampled_names(seed)]
        assert (dialects.count("many"), dialects.count("few")) == (10, 1)
        assert len(set(sampled_names(seed))) == 11


def test_the_seed_all_chooses_all_trials_and_many_seeds_reach_all() -> None:
    assert sampled(TRIALS, 0.1, "all") == sampled(TRIALS, 1.0, "one") == TRIALS
    names = {name for n in range(300) for name in sampled_names(str(n))}
    assert names == {trial.name for trial in TRIALS}


def test_the_default_seed_does_not_change() -> None:
    assert default_seed() == default_seed() != ""


# A program that runs trials in a new process, so that this test run does not count them.
COUNTING_PROGRAM = """
import asyncio, os
from tests.faults.trials import Trials, summary
async def nothing(): pass
trials = Trials("pipes")
for n in range(10):
    trials.add(str(n), "toy", nothing, times=2)
asyncio.run(trials.run(sample=0.3))
print("\\n".join(summary()))
"""


# Ten trials, each of which counts as two. A share of 0.3 of them is 3 trials, which count as 6.
@pytest.mark.more
@pytest.mark.parametrize(("seed", "expected_count"), [("abc", "6 of 20"), ("all", "20 of 20")])
def test_the_summary_has_the_counts_and_the_seed(seed: str, expected_count: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", COUNTING_PROGRAM],
        env={**os.environ, SAMPLE_VARIABLE: seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert f"fault trials: {expected_count} trials, seed {seed} " in result.stdout
