"""Lets one process be spawned per turn of the event loop.

A spawn takes some milliseconds of the loop's thread. Hundreds of extensions that start or restart
at the same time would block the loop for seconds, and with it the calls of those that run. With a
lock for each loop, other callbacks run between two spawns. A start that is alone waits for nothing.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

__all__ = ["spawn_turn"]

_locks: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]" = WeakKeyDictionary()


@asynccontextmanager
async def spawn_turn(loop: asyncio.AbstractEventLoop) -> AsyncIterator[None]:
    """Hold the turn of this loop in which a process is spawned."""
    lock = _locks.get(loop)
    if lock is None:
        lock = _locks[loop] = asyncio.Lock()
    await lock.acquire()
    try:
        yield
    finally:
        # Not at once: the next start, which is ready as well, would follow in this turn.
        loop.call_soon(lock.release)
