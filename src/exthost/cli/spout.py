"""Words for a reader who may not read, from a loop that must not wait.

A pipe that nobody empties, or a terminal that was stopped with Ctrl-S, makes a plain write wait
for ever, and with it every extension of the host. So a thread of its own writes; what waits for
it is bounded, and of too much the oldest goes, counted (the log that is kept has it all).
"""

import os
import threading
from collections import deque
from collections.abc import Callable

STDOUT, STDERR = 1, 2

# Writes that wait; one is a line, of 8 KiB at most, or a drawing of the table.
MOST_WAITING = 1024

# At the end, so long for a reader who is merely slow.
LAST_SECONDS = 1.0


def _lost(times: int) -> str:
    return f"… {times:,} lines were not read in time; exthost logs NAME has them"


class Spout:
    """One descriptor's writer. As much of a text file as rich needs."""

    def __init__(self, fd: int, lost: Callable[[int], str] = _lost) -> None:
        """`lost` words how many were let go."""
        self._fd = fd
        self._tell_lost = lost
        self._waiting: deque[str] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._lost = 0
        # A daemon: a write that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._pour, name="exthost spout", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Never waits, never fails."""
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
                self._lost += 1
            self._waiting.append(text)
            self._changed.notify()
        return len(text)

    def flush(self) -> None:
        """Nothing to do: it is written as soon as it can be."""

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        """Write what waits, if it is read within a moment."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(LAST_SECONDS)

    def _pour(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                text = "".join(self._waiting)
                self._waiting.clear()
                lost, self._lost = self._lost, 0
            if not text:
                return
            told = self._tell_lost(lost) + "\n" if lost else ""
            try:
                _write_all(self._fd, (told + text).encode("utf-8", "backslashreplace"))
            except OSError:
                return  # nobody reads any more: what comes is gathered, bounded, and let go


def _write_all(fd: int, data: bytes) -> None:
    # Not through sys.stderr: its lock, held by a write that hangs, would hang the end as well.
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
