"""A pool of worker threads for handlers, which are started on demand and then reused.

`concurrent.futures` is not used, because the interpreter joins its threads at exit. A handler that
hangs would keep the extension alive after its host has ended. The threads of this pool are daemons.
"""

import queue
import threading
import time
from collections.abc import Callable

Work = Callable[[], None]


class ThreadPool:
    """Runs functions in at most `limit` threads. While all are busy, functions wait in a queue.
    None in the queue ends the thread that takes it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: list[threading.Thread] = []

    def submit(self, work: Work) -> None:
        """Run a function in a thread. The function must not raise, since that would end the
        thread."""
        with self._lock:
            if self._idle > 0:  # a thread that waits for work takes it
                self._idle -= 1
            elif len(self._threads) < self._limit:
                name = f"exthost-worker-{len(self._threads) + 1}"
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        self._work.put(work)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            with self._lock:
                # If a function waits in the queue, this thread runs it next and is not idle.
                if self._work.empty():
                    self._idle += 1

    def close(self, seconds: float) -> None:
        """End the idle threads, and wait at most `seconds` for all threads to end."""
        for _ in self._threads:
            self._work.put(None)
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))
