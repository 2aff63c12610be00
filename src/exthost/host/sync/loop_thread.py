"""An event loop in a separate thread, for programs that have no event loop.

Other threads pass a function that returns a coroutine, and wait for the result of the coroutine:

    loop_thread = LoopThread()
    result = loop_thread.run(lambda: host.call_tool("ext_weather_forecast"))

The module does not depend on hosts or extensions.
"""

import _thread
import asyncio
import inspect
import logging
import os
import queue
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar

from exthost.errors import UsageError
from exthost.host.event_loop import new_event_loop
from exthost.session.failures import used_after_fork_error

_log = logging.getLogger("exthost.host.sync")

T = TypeVar("T")

# How long to wait for the event loop to react. Only a loop that is blocked takes longer.
LOOP_SECONDS = 5.0


class LoopThread:
    """An event loop and its thread. Other threads use it by `run`. Close it after use.

    The host and every extension, facet and stream of the blocking API refer to this object, but the
    thread does not. So if a program drops all of them without `close`, this object is deleted. It
    then gives a ResourceWarning, as files do, and the thread ends in the background.

    before_drop  called in that case, to end what runs on the loop; None if there is nothing to end
    """

    def __init__(self) -> None:
        self.before_drop: Callable[[], Coroutine[Any, Any, object]] | None = None
        self._pid = os.getpid()
        self._is_open = False  # set first: `__del__` reads it, even if the next line raises
        _require_threads()
        self.loop = new_event_loop()
        self._futures: set[Future[Any]] = set()  # of the calls of `run` that wait
        self._thread = threading.Thread(
            target=_run_loop, args=(self.loop, self._futures), name="exthost loop", daemon=True
        )
        self._thread.start()
        self._is_open = True

    def __del__(self) -> None:
        if not self._is_open or self.is_copy:
            return
        warnings.warn(
            "an open SyncHost or sync_connect was dropped without close(), and its extensions "
            "are ended: use it with `with`",
            ResourceWarning,
            stacklevel=2,
            source=self,
        )
        # While the interpreter is ending, the thread no longer runs. The extensions end when this
        # process ends.
        if not sys.is_finalizing():
            asyncio.run_coroutine_threadsafe(_end(self.before_drop), self.loop)

    def run(self, make_coroutine: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Call `make_coroutine` on the thread of the loop, run the coroutine, and return its
        result. Raises UsageError if it is called from that thread, or after `close`."""
        self.refuse_own_thread()
        if self.is_copy:
            raise used_after_fork_error()
        if not self._is_open:
            raise not_open_error()

        async def run() -> T:
            return await make_coroutine()

        coroutine = run()
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError:  # another thread has closed the loop since
            coroutine.close()
            raise not_open_error() from None
        self._futures.add(future)
        if self.loop.is_closed():  # the thread may have ended before the future was added
            _fail(future)
        try:
            return future.result()
        except CancelledError:
            if self._is_open:
                raise
            raise not_open_error() from None  # another thread has closed the host
        except BaseException:  # such as KeyboardInterrupt: no thread waits for the result any more
            future.cancel()
            raise
        finally:
            self._futures.discard(future)
            if (
                self.loop.is_closed()
                and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
            ):
                coroutine.close()  # it was never started, which would be a warning

    def refuse_own_thread(self) -> None:
        """Raise UsageError on the thread of the loop, which would wait for itself."""
        # If the thread has ended, another thread may have the same number.
        if threading.get_ident() == self._thread.ident and self._thread.is_alive():
            raise _own_loop_error()

    def run_plain(self, function: Callable[[], T]) -> T:
        """Call a plain function on the thread of the loop and return its result."""

        async def run() -> T:
            return function()

        return self.run(run)

    @property
    def is_copy(self) -> bool:
        """Whether this process is a fork: the thread exists only in the process that created it."""
        return os.getpid() != self._pid

    def close(self) -> None:
        """Cancel the tasks that still run, stop the loop and wait for its thread.

        After Ctrl-C a start of an extension may still run. It is cancelled and awaited, so that it
        ends the processes that it has started.
        """
        self._is_open = False
        asyncio.run_coroutine_threadsafe(_cancel_tasks(), self.loop)
        # Twice the time, because `_cancel_tasks` itself waits up to LOOP_SECONDS for the tasks.
        self._thread.join(2 * LOOP_SECONDS)


def _require_threads() -> None:
    """Raise UsageError if gevent or eventlet has replaced what the loop's thread needs. A thread
    would then be a greenlet, and the event loop would block all other greenlets for ever."""
    needed: dict[str, Any] = {
        "threading": _thread.start_new_thread,
        "queue": queue.SimpleQueue,
        "subprocess": subprocess.Popen,
    }
    for name, part in needed.items():
        library = str(part.__module__).partition(".")[0]
        if library in ("gevent", "eventlet"):
            raise UsageError(
                "X1337",
                f"{library} has replaced the module {name} of Python (monkey patching), and the "
                "blocking API needs real threads",
                help="use a server with threads (gunicorn --worker-class gthread), or run the "
                "extensions in another process: exthost gateway --http PORT",
            )


def _run_loop(loop: asyncio.AbstractEventLoop, futures: "set[Future[Any]]") -> None:
    """Run the loop until it is stopped, close it, and fail the futures that it has not completed.

    Event loops pass on a SystemExit or KeyboardInterrupt of a callback or task. Here it would end
    only this thread, and every caller of another thread would wait for ever.
    """
    asyncio.set_event_loop(loop)
    is_stopped = False
    while not is_stopped:
        try:
            loop.run_forever()
            is_stopped = True
        except BaseException as error:
            kind = type(error).__name__
            _log.exception("a callback raised %s on the host's loop, which continues", kind)
    loop.close()
    for future in tuple(futures):
        _fail(future)


def _fail(future: "Future[Any]") -> None:
    """Let the thread that waits for this future raise that the host is not open."""
    with suppress(InvalidStateError):  # it is done
        future.set_exception(not_open_error())


async def _end(before_drop: Callable[[], Coroutine[Any, Any, object]] | None) -> None:
    """End what runs on the loop, and stop the loop."""
    try:
        if before_drop is not None:
            await before_drop()
    finally:
        await _cancel_tasks()


async def _cancel_tasks() -> None:
    """Cancel every other task, wait for them, and stop the loop."""
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in tasks:
            task.cancel()
        _, unfinished = await asyncio.wait(tasks, timeout=LOOP_SECONDS)
        if unfinished:  # a task ignores its cancellation: do not wait for ever
            break
    asyncio.get_running_loop().stop()


def _own_loop_error() -> UsageError:
    """Return the error for a blocking call on the thread of the loop, such as from a listener."""
    return UsageError(
        "X1314",
        "a blocking call from the host's own loop would never return",
        help="listeners and callbacks run on that loop: make the call from another thread",
    )


def not_open_error() -> UsageError:
    """Return the error for a host that is not open yet, or is closed."""
    return UsageError("X1315", "this host is not open", help="use it with `with`")
