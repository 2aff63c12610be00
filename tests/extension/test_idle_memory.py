"""The memory that a host needs for an extension that waits for calls.

A host can have thousands of extensions, so the memory of each counts.
"""

import asyncio
import gc
import sys
import tracemalloc
from contextlib import AsyncExitStack

import pytest

import exthost
from tests.extensions.morphir_program import morphir_program

MAX_BYTES = 12_800  # for each extension
EXTENSIONS = 16  # in each measurement
MEASUREMENTS = 3


@pytest.mark.skipif(
    sys.flags.dev_mode, reason="in development mode asyncio keeps the stack of each handle and task"
)
async def test_an_idle_extension_takes_at_most_12_800_bytes() -> None:
    command = [sys.executable, "-S", "-E", "-c", morphir_program()]
    async with AsyncExitStack() as stack:

        async def start(count: int) -> None:
            connections = [exthost.connect(command, dialect="morphir") for _ in range(count)]
            await asyncio.gather(*map(stack.enter_async_context, connections))

        async def measure() -> float:
            """Return the bytes that each of some more extensions keeps."""
            gc.collect()
            tracemalloc.start()
            try:
                await start(EXTENSIONS)
                await asyncio.sleep(0)  # the callback that ended `gather` keeps its tasks until now
                gc.collect()
                return tracemalloc.get_traced_memory()[0] / EXTENSIONS
            finally:
                tracemalloc.stop()

        await start(2)  # imports modules and fills caches before the first measurement
        # Shared tables, such as the set of all tasks, grow in steps of many KiB. When one grows
        # depends on the earlier tests, but no table grows in each measurement.
        kept_bytes = [await measure() for _ in range(MEASUREMENTS)]
    assert min(kept_bytes) <= MAX_BYTES
