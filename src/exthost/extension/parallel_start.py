"""Starts many extensions concurrently, a few per processor core at a time. A host uses it when it
opens.

A starting program mostly computes, so five hundred of them at once on two cores would all exceed
their time limits. Therefore each start takes a slot. Some programs mostly wait (for a network or a
lock) and must not delay the others, so a start gives its slot back after `SLOT_SECONDS` even if it
is not done.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

# Slots per core. More than one, because a start also waits for files to be read.
STARTS_PER_CORE = 4

# A start that takes longer is assumed to wait for something other than the processor.
SLOT_SECONDS = 0.25


async def start_all(starts: Iterable[Callable[[], Awaitable[Any]]]) -> None:
    """Run every start, and return when all of them are done. Their errors are ignored here,
    because each extension keeps its own error in `ext.cause`. If the caller is cancelled, the
    starts in progress are cancelled."""
    slots = asyncio.Semaphore(STARTS_PER_CORE * _count_cores())

    async def start_one(start: Callable[[], Awaitable[Any]]) -> None:
        async with slots:
            task = asyncio.ensure_future(start())
            try:
                await asyncio.wait([task], timeout=SLOT_SECONDS)
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait([task])  # it cleans up
                raise
        await task  # another start has the slot

    await asyncio.gather(*(start_one(start) for start in starts), return_exceptions=True)


def _count_cores() -> int:
    """Return the number of cores that this process may use."""
    get_affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(get_affinity(0)) if get_affinity is not None else os.cpu_count() or 1
