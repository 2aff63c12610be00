"""Makes calls of an extension at a steady rate, while a test kills processes, and counts how each
call ended: with a result, or with an error such as ExtensionGone. Each must end exactly once.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from tests.extensions.harness import wait_until

CALLS_PER_SECOND = 200

# Restart a dead process immediately and without a limit.
ALWAYS_RESTART = {"strategy": "immediate", "max_retries": "unlimited"}

# A breaker that never opens, although many processes are lost.
PATIENT_BREAKER = {"failures": 1_000_000}


class Load:
    """Counts the calls that were made and how each of them ended."""

    def __init__(self, extension: Extension) -> None:
        self._extension = extension
        self._pending: set[asyncio.Task[None]] = set()
        self.made = 0
        self.ends: Counter[str] = Counter()

    async def _call(self, n: int) -> None:
        try:
            answer = await self._extension.call("echo", n, timeout=120)
        except ExthostError as error:
            self.ends[type(error).__name__] += 1
        else:
            assert answer == n
            self.ends["result"] += 1

    async def make_calls(self) -> None:
        """Make calls until cancelled, without waiting for earlier calls."""
        loop = asyncio.get_running_loop()
        began, first = loop.time(), self.made
        while True:
            while self.made - first < (loop.time() - began) * CALLS_PER_SECOND:
                task = asyncio.create_task(self._call(self.made))
                self.made += 1
                self._pending.add(task)
                task.add_done_callback(self._pending.discard)
            await asyncio.sleep(1 / CALLS_PER_SECOND)

    async def settle(self) -> None:
        """Wait for all calls, and check that each ended once."""
        if self._pending:
            await asyncio.wait(self._pending)
        assert sum(self.ends.values()) == self.made, (self.made, self.ends)


@asynccontextmanager
async def under_load(extension: Extension) -> AsyncIterator[Load]:
    """Make calls during the block, and wait for all of them at its end."""
    load = Load(extension)
    making = asyncio.create_task(load.make_calls())
    try:
        yield load
    finally:
        making.cancel()
        await asyncio.wait([making])
        await load.settle()


async def kill_repeatedly(
    extension: Extension,
    rounds: int,
    kill: Callable[[], Awaitable[Callable[[], bool]]],
    processes: int,
) -> Load:
    """Call `kill` this often under load, and let the pool recover after each time. `kill` returns a
    condition that becomes true when all killed processes have ended. Return the counts of calls."""
    async with under_load(extension) as load:
        for _ in range(rounds):
            before = load.ends["result"]
            is_over = await kill()
            await wait_until(is_over, 120)
            await wait_until(lambda: extension.stats.processes >= processes, 150)
            await wait_until(lambda before=before: load.ends["result"] > before + 20, 90)  # type: ignore[misc]
    return load
