"""Errors for three mistakes of callers: a timeout that is not a number, a call from another event
loop, and an `await` of an object that is opened with `async with`.

Without these checks the caller would get an error of asyncio that does not name the mistake, or no
error at all.
"""

import asyncio
from collections.abc import Generator
from typing import Any, NoReturn

from exthost.errors import UsageError


def check_timeout(timeout: Any) -> float:
    """Return the timeout that a caller passed, in seconds. Raises UsageError if it is not a number.

    NaN is refused as well: a deadline that is NaN would never pass.
    """
    # A tuple of types, because evaluating `int | float` makes a new object each time.
    if isinstance(timeout, (int, float)) and timeout == timeout:
        return timeout
    raise UsageError(
        "X1318",
        f"a timeout is a number of seconds, and not {timeout!r}",
        help="write timeout=5; without a timeout, the limits of the extension apply",
    )


def wrong_loop_error(queue: Any, error: RuntimeError) -> BaseException:
    """Return the error for a task that awaits a call of another event loop.

    `error` is the error that asyncio raised; it is returned if it has another reason.
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
    """A base class for objects that are opened with `async with`. Awaiting such an
    object raises UsageError."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, NoReturn]:
        raise UsageError(
            "X1333",
            "this is opened with `async with`, and cannot be awaited",
            help="write `async with … as it:`; contextlib.AsyncExitStack keeps it open for longer",
        )
