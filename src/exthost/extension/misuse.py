"""What a caller can get wrong that asyncio, or nobody, would tell: a time limit that is none, and a
call from another loop than the host's."""

import asyncio
from typing import Any

from exthost.errors import UsageError


def given(timeout: Any) -> float:
    """A caller's own limit: not a number would never be over."""
    # A tuple of types, because `int | float` is an object that is made anew each time.
    if isinstance(timeout, (int, float)) and timeout == timeout:
        return timeout
    raise UsageError(
        "X1318",
        f"a timeout is a number of seconds, and not {timeout!r}",
        help="write timeout=5; left out, the limits of the extension hold",
    )


def elsewhere(queue: Any, error: RuntimeError) -> BaseException:
    """Why a task cannot wait for a call: asyncio says it in words about futures."""
    if asyncio.get_running_loop() is queue.loop:
        return error
    return UsageError(
        "X1319",
        "this host was opened in another event loop, and only that can wait for its calls",
        extension=queue.extension,
        help="use SyncHost, from any thread; or asyncio.run_coroutine_threadsafe(…, that_loop)",
    )
