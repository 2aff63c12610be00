"""Runs every trial as the current user, and prints the outcome of each as a line of JSON.

    python -m tests.sandbox.trials [NAME …]

A trial is an `async def` in one of the modules below that raises if a promise does not hold. It is
registered by `@trial` under its sentence, takes no arguments, and is bounded. All trials share one
process, because that is faster.
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
    *("host_surface", "hosts", "tricks", "managers", "code", "pids"),
)

# How often a trial that depends on chance is tried: a test run, or a soak that sets more.
TRIES = int(os.environ.get("EXTHOST_TEST_TRIES", "20"))

# Each is a matter of milliseconds on an idle machine.
TRIAL_SECONDS = 60 + 2 * TRIES


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
    """Run a trial. Return its error, "" if there is none, or why it cannot be run here."""
    try:
        async with asyncio.timeout(TRIAL_SECONDS):
            await work()
    except NotHere as reason:
        return f"{NOT_HERE}{reason}"
    except BaseException:
        return traceback.format_exc()
    return ""


def main(names: list[str]) -> None:
    from tests.sandbox import trials  # this file under its own name, where the others register

    for name, work in trials.all_trials().items():
        if names and name not in names:
            continue
        began = time.monotonic()
        wrong = asyncio.run(trials.run(work))
        print(
            json.dumps({"trial": name, "wrong": wrong, "seconds": time.monotonic() - began}),
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
