"""Errors for mistakes of callers: a timeout that is not a number, a name that is not text, another
argument of a wrong type, a use in another event loop or without asyncio, a start without a host, an
object that is opened twice, and an `await` of an object that is opened with `async with`.

Without these checks the caller would get an error of Python or asyncio that does not name the
mistake, or no error at all.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from exthost.errors import UsageError
from exthost.model.empty_mapping import EMPTY_MAPPING


def check_timeout(timeout: Any, argument: str = "timeout") -> float:
    """Return the timeout that a caller passed, in seconds. Raises UsageError if it is not a number.

    NaN is refused, because such a deadline would never expire. `argument` is the name of the
    argument, for the error.
    """
    # A tuple of types, because evaluating `int | float` makes a new object each time.
    if isinstance(timeout, (int, float)) and timeout == timeout:
        try:
            return timeout + 0.0
        except OverflowError:  # an int too large for a float
            return math.inf if timeout > 0 else -math.inf
    raise UsageError(
        "X1318",
        f"{argument} must be a number of seconds, not {timeout!r:.60}",
        help=f"write {argument}=5; without {argument}, the limits of the extension apply",
    )


def check_name(name: Any, owner: str = "a tool or a method") -> None:
    """Raise UsageError if the name of a tool, a method or another `owner` is not a string."""
    if not isinstance(name, str):
        raise UsageError(
            "X1335",
            f"the name of {owner} must be a string, not {name!r:.60}",
            help="write the name in quotes; `exthost list` and `exthost tools` list the names",
        )


def check_context(context: Any) -> Mapping[str, Any]:
    """Return the context of a call or an event. None is an empty one. Raises UsageError if it is
    not a mapping, or cannot be read."""
    if type(context) is dict:
        return context
    if isinstance(context, Mapping):
        try:
            dict(context)
        except Exception as error:
            raise UsageError(
                "X1338", f"context must be a mapping, and reading it raised {type(error).__name__}"
            ) from error
        return context
    if context is None:
        return EMPTY_MAPPING
    raise wrong_type_error("context", "a mapping, such as a dict", context)


def wrong_type_error(argument: str, expected: str, value: Any) -> UsageError:
    """Return the error for an argument that has a wrong type."""
    return UsageError("X1338", f"{argument} must be {expected}, not {value!r:.60}")


class _Queue(Protocol):
    """The part of the call queue that is needed here. `is_released`: the host or connection of the
    extension is closed or has removed it."""

    extension: str
    loop: asyncio.AbstractEventLoop
    is_forked: bool
    is_released: bool


def check_loop(queue: _Queue) -> None:
    """Raise UsageError unless the loop of this queue is the one that runs here."""
    if asyncio._get_running_loop() is not queue.loop:
        raise wrong_loop_error(queue)


def check_may_start(queue: _Queue) -> None:
    """Raise UsageError if the extension of this queue must not be started here: its host or
    connection is closed or has removed it, or its loop is not the one that runs."""
    check_loop(queue)
    if queue.is_released:
        raise UsageError(
            "X1315",
            "the extension is no longer part of an open host",
            extension=queue.extension,
            help="use an extension inside the `async with` or `with` of its host or connection",
        )


def wrong_loop_error(queue: _Queue) -> UsageError:
    """Return the error for a use of this queue outside its own event loop."""
    if queue.is_forked:  # asyncio reports no running loop in a fork
        from exthost.session.failures import used_after_fork_error

        return used_after_fork_error()
    return other_loop_error(queue.extension)


def other_loop_error(
    extension: str = "",
    help: str = "use SyncHost, from any thread; or asyncio.run_coroutine_threadsafe(…, that_loop)",
) -> UsageError:
    """Return the error for a use of a host in another event loop than the one that opened it."""
    return UsageError(
        "X1319",
        "this host was opened in another event loop, and only that loop can wait for its calls",
        extension=extension,
        help=help,
    )


def require_asyncio() -> asyncio.AbstractEventLoop:
    """Return the event loop that runs here. Raises UsageError if asyncio does not run this task,
    but for example trio does."""
    loop = asyncio._get_running_loop()
    if loop is None:
        raise UsageError(
            "X1336",
            "exthost needs a running asyncio event loop, and there is none",
            help="run it with asyncio.run; without asyncio (trio, curio, plain threads) use "
            "SyncHost or sync_connect, from a worker thread",
        )
    return loop


def already_open_error() -> UsageError:
    """Return the error for a host or a connection that is opened while it is open."""
    return UsageError(
        "X1311",
        "this host or connection is already open",
        help="use the open object, or create another",
    )


class AsyncOnly:
    """A base class for objects that are opened with `async with`. Using one with `with` raises
    UsageError."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers report it themselves

        def __enter__(self) -> NoReturn:
            raise UsageError(
                "X1803",
                "open this object with `async with` instead of `with`",
                help="write `async with`; or use the blocking form: SyncHost, sync_connect or "
                "sync_attach",
            )

        def __exit__(self, *_: object) -> None: ...


class OpenedByWith(AsyncOnly):
    """A base class for objects that are opened with `async with`. Awaiting such an
    object raises UsageError."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, NoReturn]:
        raise UsageError(
            "X1333",
            "this is opened with `async with`, and cannot be awaited",
            help="write `async with … as ext:`; contextlib.AsyncExitStack keeps it open for longer",
        )
