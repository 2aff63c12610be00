"""Calls at a steady rate while something is killed, and how each of them ended for its caller."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from tests.extensions.harness import until

CALLS_PER_SECOND = 200

# A child that may die is there again at once, as often as it takes.
REVIVED = {"strategy": "immediate", "max_retries": "unlimited"}

# A pool that loses processes again and again is not to be left alone.
PATIENT_BREAKER = {"failures": 1_000_000}


class Load:
    """The calls that were made, and how each ended; one that ended twice is an error."""

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
        """Make calls until cancelled, however the earlier ones fare."""
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
    """Make calls for the time of the block, and settle them at its end."""
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
    """Kill this often under load, and let the pool recover in between. `kill` returns what becomes
    true when nothing is left of what it killed. Return the account of the calls."""
    async with under_load(extension) as load:
        for _ in range(rounds):
            before = load.ends["result"]
            is_over = await kill()
            await until(is_over, 120)
            await until(lambda: extension.stats.processes >= processes, 150)
            await until(lambda before=before: load.ends["result"] > before + 20, 90)  # type: ignore[misc]
    return load
