"""Calls a callback of the program that uses the host, which may be a plain or an async function.

An example is the function `confirm`, which asks a person whether a tool may be called. An async
function runs on the event loop. A plain one may block, as `input` does, so it runs on a thread of
its own: the event loop and other calls continue. The thread is a daemon, so that a person who does
not answer does not keep the program from ending.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable
from functools import partial
from typing import Any


async def call_plain_or_async(function: Callable[[Any], Any], argument: Any) -> Any:
    """Return the result of the function, or what it raises."""
    if _is_async(function):
        return await function(argument)
    result = await _call_in_thread(function, argument)
    return await result if inspect.isawaitable(result) else result


def _is_async(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async `__call__`
    )


async def _call_in_thread(function: Callable[[Any], Any], argument: Any) -> Any:
    """Return the result of the function, which runs on a new thread, or raise what it raises."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()

    def set_outcome(result: Any, error: Exception | None) -> None:
        if outcome.done():  # the caller was cancelled
            return
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def run() -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = function(argument)
        except Exception as raised:
            error = raised
        except BaseException as raised:  # such as SystemExit: it must not end the event loop
            error = RuntimeError(f"the function raised {raised!r}")
        if isinstance(error, StopIteration):  # a future cannot raise it
            error = RuntimeError(f"the function raised {error!r}")
        try:
            loop.call_soon_threadsafe(set_outcome, result, error)
        except RuntimeError:  # the loop is closed: no task waits any more
            pass

    threading.Thread(target=run, name="exthost confirm", daemon=True).start()
    return await outcome
