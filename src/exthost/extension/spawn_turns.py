"""Limits spawns to one process per event-loop iteration.

A spawn blocks the loop's thread for some milliseconds. Hundreds of extensions that start at the
same time would block the loop for seconds, and with it all calls. A lock for each loop, which is
released in the next iteration, lets other callbacks run between two spawns. A single start does not
wait.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

__all__ = ["spawn_turn"]

_locks: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]" = WeakKeyDictionary()


@asynccontextmanager
async def spawn_turn(loop: asyncio.AbstractEventLoop) -> AsyncIterator[None]:
    """Wait for the turn to spawn a process in this loop, and keep it for the length of the
    block."""
    lock = _locks.get(loop)
    if lock is None:
        lock = _locks[loop] = asyncio.Lock()
    await lock.acquire()
    try:
        yield
    finally:
        # Released in the next iteration: otherwise the next start would run in this one.
        loop.call_soon(lock.release)
