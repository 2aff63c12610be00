"""Starting many at once, but no more at a time than the machine has cores for.

A program that starts mostly computes: five hundred of them at once on two cores all run into their
time limits. Some of them mostly wait (for a network, a lock), and must not hold up the others: a
turn is over when its start is, or after a moment, whichever comes first.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

# Starts under way per core: while one computes, others read their files.
STARTS_PER_CORE = 4

# One that has not started by then is waiting for something else than a core.
TURN_SECONDS = 0.25


async def start_all(starts: Iterable[Callable[[], Awaitable[Any]]]) -> None:
    """Start each in its turn. Returns when all of them have started or failed, which is theirs to
    tell; whoever is cancelled here cancels those under way."""
    turns = asyncio.Semaphore(STARTS_PER_CORE * _cores())

    async def one(start: Callable[[], Awaitable[Any]]) -> None:
        async with turns:
            starting = asyncio.ensure_future(start())
            try:
                await asyncio.wait([starting], timeout=TURN_SECONDS)
            except asyncio.CancelledError:
                starting.cancel()
                raise
        await starting

    await asyncio.gather(*(one(start) for start in starts), return_exceptions=True)


def _cores() -> int:
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1
