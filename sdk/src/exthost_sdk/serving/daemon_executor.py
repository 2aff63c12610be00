"""The executor of the event loop, which runs the functions of `asyncio.to_thread`.

The interpreter joins the threads of asyncio's own executor at exit. A function that hangs in one of
them would keep the extension alive after its host has ended. The threads of this one are daemons.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from exthost_sdk.serving.thread_pool import ThreadPool

# As many threads as those of asyncio's own executor.
_MAX_THREADS = min(32, (os.cpu_count() or 1) + 4)

P = ParamSpec("P")
T = TypeVar("T")


class DaemonExecutor(ThreadPoolExecutor):
    """Runs functions in daemon threads. The event loop accepts only a ThreadPoolExecutor, but this
    class uses no threads of its base class. At the shutdown, it waits at most `shutdown_seconds`
    for the functions that run."""

    def __init__(self, shutdown_seconds: float) -> None:
        super().__init__()
        self._shutdown_seconds = shutdown_seconds
        self._pool = ThreadPool(_MAX_THREADS)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        self._pool.submit(run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.close(self._shutdown_seconds if wait else 0)
