"""A writer that never blocks the event loop, for readers who may not read.

A plain write to a pipe that nobody empties, or to a terminal that was stopped with Ctrl-S, blocks
forever, and every extension of the host with it. So a thread writes. Its queue is bounded: when it
is full the oldest text is dropped and counted. The log files have everything.
"""

import os
import threading
from collections import deque
from collections.abc import Callable

STDOUT, STDERR = 1, 2

# The length of the queue; an item is a line, of 8 KiB at most, or a drawing of the table.
MOST_WAITING = 1024

# How long `close` waits for a slow reader.
LAST_SECONDS = 1.0


def _lost(times: int) -> str:
    return f"… {times:,} lines were not read in time; exthost logs NAME has them"


class NonblockingWriter:
    """Writes to one descriptor. Has the methods of a text file that rich needs."""

    def __init__(self, fd: int, lost: Callable[[int], str] = _lost) -> None:
        """`lost` returns the line that reports how many texts were dropped."""
        self._fd = fd
        self._tell_lost = lost
        self._waiting: deque[str] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._lost = 0
        # A daemon: a write that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="exthost writer", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Queue the text. Never blocks and never fails."""
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
                self._lost += 1
            self._waiting.append(text)
            self._changed.notify()
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes as soon as it can."""

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        """Write what is queued, if somebody reads it within LAST_SECONDS."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(LAST_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                text = "".join(self._waiting)
                self._waiting.clear()
                lost, self._lost = self._lost, 0
            if not text:
                return
            notice = self._tell_lost(lost) + "\n" if lost else ""
            try:
                _write_all(self._fd, (notice + text).encode("utf-8", "backslashreplace"))
            except OSError:
                return  # nobody reads any more: later texts are queued, bounded, and dropped


def _write_all(fd: int, data: bytes) -> None:
    # Not through sys.stderr: its lock, held by a write that hangs, would hang the end as well.
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
