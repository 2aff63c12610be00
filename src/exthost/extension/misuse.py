"""Errors for three mistakes of callers: a timeout that is not a number, a call in another loop, and
an `await` of what is opened with `async with`.

Without these checks asyncio would report them in its own terms, or nobody would.
"""

import asyncio
from collections.abc import Generator
from typing import Any, NoReturn

from exthost.errors import UsageError


def check_timeout(timeout: Any) -> float:
    """Return the timeout of a caller. Raises UsageError for anything but a number.

    NaN is refused as well: a deadline with it would never pass.
    """
    # A tuple of types, because `int | float` would make a new object each time.
    if isinstance(timeout, (int, float)) and timeout == timeout:
        return timeout
    raise UsageError(
        "X1318",
        f"a timeout is a number of seconds, and not {timeout!r}",
        help="write timeout=5; without a timeout, the limits of the extension apply",
    )


def wrong_loop_error(queue: Any, error: RuntimeError) -> BaseException:
    """Return the error for a task of another loop that waits for a call.

    `error` is the one that asyncio raises, which speaks of futures.
    """
    if asyncio.get_running_loop() is queue.loop:
        return error
    return UsageError(
        "X1319",
        "this host was opened in another event loop, and only that loop can wait for its calls",
        extension=queue.extension,
        help="use SyncHost, from any thread; or asyncio.run_coroutine_threadsafe(…, that_loop)",
    )


class OpenedByWith:
    """A base for what is opened with `async with`: to await it is an error that says so."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, NoReturn]:
        raise UsageError(
            "X1333",
            "this is opened with `async with`, and cannot be awaited",
            help="write `async with … as it:`; contextlib.AsyncExitStack keeps it open for longer",
        )
