"""Every trial of SECURITY.md about lifetime, sandbox and resources, as root and as an ordinary
user, each counted in the summary of the run. A trial is skipped only where the platform cannot
run it; a missing bubblewrap is a failure, since `make test` installs it."""

import json
import subprocess
from functools import cache
from typing import Any

import pytest

from tests.sandbox.people import PEOPLE, PROJECT, command, missing
from tests.sandbox.trials import TRIAL_SECONDS, all_trials

NAMES = tuple(all_trials())


@cache
def outcomes(person: str) -> dict[str, Any]:
    """All trials of one person, run once."""
    with command(person, ("-m", "tests.sandbox.trials")) as (words, variables):
        ran = subprocess.run(
            words,
            env=variables,
            cwd="/" if person == "user" else PROJECT,
            capture_output=True,
            text=True,
            timeout=len(NAMES) * TRIAL_SECONDS,
            check=False,
        )
    told = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"trial"')]
    return {one["trial"]: one for one in told} | {"": ran.stderr}


@pytest.fixture(scope="module", params=PEOPLE)
def person(request: pytest.FixtureRequest) -> str:
    who: str = request.param
    if why := missing(who):
        pytest.skip(why)
    return who


@pytest.mark.trial
@pytest.mark.parametrize("name", NAMES)
def test_trial(person: str, name: str) -> None:
    told = outcomes(person)
    assert name in told, f"the trials of {person} ended early: {told['']}"
    assert not told[name]["wrong"], told[name]["wrong"]
