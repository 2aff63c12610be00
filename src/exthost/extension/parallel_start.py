"""Starts many extensions at once, but no more at a time than the machine has cores for.

A program that starts mostly computes: five hundred of them at once on two cores all exceed their
time limits. Some of them mostly wait (for a network, a lock), and must not delay the others: each
start holds a slot until it is done, or for a moment, whichever is shorter.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

# Starts under way per core: while one computes, others read their files.
STARTS_PER_CORE = 4

# A start that takes longer is waiting for something else than a core.
SLOT_SECONDS = 0.25


async def start_all(starts: Iterable[Callable[[], Awaitable[Any]]]) -> None:
    """Run every start, and return when all of them are done. Their errors are not raised here.
    Cancelling this cancels the starts under way."""
    slots = asyncio.Semaphore(STARTS_PER_CORE * _cores())

    async def start_one(start: Callable[[], Awaitable[Any]]) -> None:
        async with slots:
            starting = asyncio.ensure_future(start())
            try:
                await asyncio.wait([starting], timeout=SLOT_SECONDS)
            except asyncio.CancelledError:
                starting.cancel()
                raise
        await starting

    await asyncio.gather(*(start_one(start) for start in starts), return_exceptions=True)


def _cores() -> int:
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1
