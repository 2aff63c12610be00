"""An event loop in a thread of its own, for programs that have none.

Knows nothing of hosts and extensions. Other threads hand it a function that makes a coroutine, and
wait for its result.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from exthost.errors import UsageError
from exthost.event_loop import new_event_loop
from exthost.session.failures import used_after_fork_error

__all__ = ["LOOP_SECONDS", "LoopThread", "not_open_error"]

T = TypeVar("T")

# How long to wait for a loop that should end by itself; only one that is stuck takes longer.
LOOP_SECONDS = 5.0


class LoopThread:
    """The loop, its thread, and how other threads use it. Close it in the end."""

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run_loop, name="exthost loop", daemon=True)
        self._thread.start()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine on the loop's thread and return its result."""
        if threading.current_thread() is self._thread:
            raise UsageError("X1314", "a blocking call from the host's own loop would never return")
        if self.is_copy:
            raise used_after_fork_error()
        if self.loop.is_closed():
            raise not_open_error()

        async def run() -> T:
            return await make()

        future = asyncio.run_coroutine_threadsafe(run(), self.loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C above all: nobody waits for the result any more
            future.cancel()
            raise

    def run_plain(self, function: Callable[[], T]) -> T:
        """Call a plain function on the loop's thread and return its result."""

        async def run() -> T:
            return function()

        return self.run(run)

    @property
    def is_copy(self) -> bool:
        """Whether a fork copied this object: the thread exists in the original process only."""
        return os.getpid() != self._pid

    def close(self) -> None:
        """Cancel what still runs, stop the loop and wait for its thread.

        After Ctrl-C something may still run: a start, whose processes it must end itself.
        """
        asyncio.run_coroutine_threadsafe(_cancel_tasks(), self.loop)
        self._thread.join(2 * LOOP_SECONDS)
        self.loop.close()


async def _cancel_tasks() -> None:
    """Cancel every other task, wait for them, and stop the loop."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=LOOP_SECONDS)
    asyncio.get_running_loop().stop()


def not_open_error() -> UsageError:
    """Return the error for a host that is not open yet, or no more."""
    return UsageError("X1315", "this host is not open", help="use it with `with`")
