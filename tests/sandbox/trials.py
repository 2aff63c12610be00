"""Runs every trial as the current user, and prints the outcome of each as a line of JSON.

    python -m tests.sandbox.trials [NAME …]

A trial is a test of a promise of SECURITY.md: an `async def` in one of the modules below, which
raises if the promise does not hold. `@trial` registers it under its name, which reads as a
sentence. It takes no arguments and has a time limit. All trials run in one process, because that is
faster.
"""

import asyncio
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable

TRIALS: dict[str, Callable[[], Awaitable[None]]] = {}
MODULES = (
    *("lifetime", "network", "files", "rights", "refusals", "resources", "programs"),
    *("packages", "restarts", "probes", "memory", "calls", "changes"),
    *("host_surface", "hosts", "tricks", "managers", "code", "pids", "network_names"),
    *("landlock", "templates"),
)

# How often a trial that depends on chance repeats its attempt. A soak sets a larger number.
TRIES = int(os.environ.get("EXTHOST_TEST_TRIES", "20"))

# The time limit of a trial. On an idle machine most of them take milliseconds.
TRIAL_SECONDS = 60 + 2 * TRIES

# The beginning of an outcome that is the message of NotHere.
NOT_HERE = "not here: "


class NotHere(Exception):
    """This machine lacks something that the trial needs, such as a toolchain."""


def trial(work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Register a trial under its name as a sentence."""
    TRIALS[work.__name__] = work
    return work


def all_trials() -> dict[str, Callable[[], Awaitable[None]]]:
    for name in MODULES:
        importlib.import_module(f"tests.sandbox.{name}")
    return TRIALS


async def run(work: Callable[[], Awaitable[None]]) -> str:
    """Run a trial. Return its error, "" without an error, or the reason why it cannot run here."""
    try:
        async with asyncio.timeout(TRIAL_SECONDS):
            await work()
    except NotHere as reason:
        return f"{NOT_HERE}{reason}"
    except BaseException:
        return traceback.format_exc()
    return ""


def main(names: list[str]) -> None:
    from tests.sandbox import trials  # not __main__: the other modules register here
    from tests.sandbox.trial_host import STARTED

    for name, work in trials.all_trials().items():
        if names and name not in names:
            continue
        began = time.monotonic()
        STARTED.clear()
        error = asyncio.run(trials.run(work))
        outcome = {"trial": name, "wrong": error, "started": dict(STARTED)}
        print(json.dumps({**outcome, "seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
