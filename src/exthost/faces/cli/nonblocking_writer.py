"""Writes text to stdout or stderr without ever blocking the event loop of a host.

A plain write blocks if the pipe is full because its reader has stopped reading, or if the terminal
was stopped with Ctrl-S. Then no extension of the host would make progress. So a thread writes. Its
queue is bounded: when it is full, the oldest text is dropped and counted. The log files of the
extensions have every line.
"""

import os
import threading
from collections import deque
from collections.abc import Callable

STDOUT, STDERR = 1, 2

# The maximum number of texts in the queue. A text is one line of at most 8 KiB, or a frame of the
# live table.
MAX_QUEUED_TEXTS = 1024

# How long `close` waits until the queued text is written.
CLOSE_SECONDS = 1.0


def _format_dropped_lines(count: int) -> str:
    if count == 1:
        return "… 1 line was not read in time; exthost logs NAME has it"
    return f"… {count:,} lines were not read in time; exthost logs NAME has them"


class NonblockingWriter:
    """Writes to one file descriptor. It has the methods of a text file that rich uses."""

    def __init__(
        self, fd: int, format_dropped: Callable[[int], str] = _format_dropped_lines
    ) -> None:
        """`format_dropped` is called with the number of dropped texts, and returns the line that
        reports it."""
        self._fd = fd
        self._format_dropped = format_dropped
        self._queue: deque[str] = deque()
        self._condition = threading.Condition()
        self._is_closing = False
        self._dropped_texts = 0
        # A daemon thread, because a write that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="exthost writer", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Queue the text. Never blocks and never fails. A text that is queued after `close` is
        lost, because the thread has ended."""
        with self._condition:
            if len(self._queue) >= MAX_QUEUED_TEXTS:
                self._queue.popleft()
                self._dropped_texts += 1
            self._queue.append(text)
            self._condition.notify()
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes as soon as it can."""

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        """Wait until the queued text is written, for at most CLOSE_SECONDS."""
        with self._condition:
            self._is_closing = True
            self._condition.notify()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        """Write the queued text until the writer is closed. Runs in the thread."""
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._queue or self._is_closing)
                if not self._queue:  # closing, and everything is written
                    return
                text = "".join(self._queue)
                self._queue.clear()
                dropped_count, self._dropped_texts = self._dropped_texts, 0
            notice = self._format_dropped(dropped_count) + "\n" if dropped_count else ""
            try:
                _write_all(self._fd, (notice + text).encode("utf-8", "backslashreplace"))
            except OSError:
                return  # the reader has closed the pipe; later texts stay in the bounded queue


def _write_all(fd: int, data: bytes) -> None:
    # Not with sys.stderr.write: a write that hangs would hold the lock of sys.stderr, on which the
    # interpreter would hang at exit.
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[os.write(fd, unwritten) :]
