"""The sample of a matrix: the same for the same seed, some of each dialect, all in the end."""

import asyncio
import os
import subprocess
import sys

import pytest

from tests.faults.trials import SAMPLE_VARIABLE, Trial, default_seed, sampled


async def nothing() -> None:
    await asyncio.sleep(0)


TRIALS = [
    Trial(f"{dialect} {n}", dialect, nothing, 1)
    for dialect, count in (("many", 100), ("few", 3))
    for n in range(count)
]


def names(seed: str, share: float = 0.1) -> list[str]:
    return [trial.name for trial in sampled(TRIALS, share, seed)]


def test_a_seed_always_chooses_the_same_and_another_seed_something_else() -> None:
    assert names("one") == names("one") != names("two")


def test_each_dialect_has_its_share_and_one_trial_at_least() -> None:
    for seed in "abcdef":
        dialects = [name.split()[0] for name in names(seed)]
        assert (dialects.count("many"), dialects.count("few")) == (10, 1)
        assert len(set(names(seed))) == 11


def test_all_is_all_and_many_seeds_reach_all() -> None:
    assert sampled(TRIALS, 0.1, "all") == sampled(TRIALS, 1.0, "one") == TRIALS
    assert {name for n in range(300) for name in names(str(n))} == {item.name for item in TRIALS}


def test_the_seed_of_a_checkout_is_steady() -> None:
    assert default_seed() == default_seed() != ""


# In a process of its own: what it counts is not what this run has tried.
COUNTED = """
import asyncio, os
from tests.faults.trials import Trials, summary
async def nothing(): pass
trials = Trials("pipes")
for n in range(10):
    trials.add(str(n), "toy", nothing, times=2)
asyncio.run(trials.run(sample=0.3))
print("\\n".join(summary()))
"""


@pytest.mark.parametrize(("seed", "tried"), [("abc", "6 of 20"), ("all", "20 of 20")])
def test_the_counts_have_total_part_and_seed(seed: str, tried: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", COUNTED],
        env={**os.environ, SAMPLE_VARIABLE: seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert f"fault trials: {tried} trials, seed {seed} " in ran.stdout
