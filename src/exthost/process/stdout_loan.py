"""Lets threads read a child's stdout themselves, while the event loop does not watch it.

The event loop lends the pipe, and later takes it back. In between, one thread at a time reads. What
a thread has read stays in the loan until the thread has handled it, so nothing is lost if the
thread is interrupted, for example by Ctrl-C: the event loop handles the rest after the loan.
"""

import os
import select
import threading
from os import read
from typing import Any

from exthost.wire.framing import READ_BYTES

CAN_LEND = hasattr(os, "eventfd") and hasattr(select, "poll")
"""Whether this system has what a loan needs. Otherwise the event loop does all the reading."""

# The longest time that a thread waits for data, in seconds, because `poll` takes no longer time.
_MAX_POLL_SECONDS = 60.0 * 60 * 24


class StdoutLoan:
    """A pipe that threads may read, from its creation until `end`.

    data           what was read and not handled yet, in order
    is_over        whether the loan is to end: no thread may start to read
    is_taken_back  whether the event loop has called `end`
    reads          how many reads were handled by a thread
    """

    __slots__ = (
        "_arguments", "_lock", "_poll", "_wake_fd", "data", "is_over", "is_taken_back", "reads",
    )  # fmt: skip

    def __init__(self, fd: int, wake_fd: int) -> None:
        """`wake_fd` is an eventfd, which the loan closes."""
        self.data: list[bytes] = []
        self.is_over = False
        self.is_taken_back = False
        self.reads = 0
        # Held by the thread that reads. This kind of lock knows the thread.
        self._lock: Any = threading.RLock()
        self._arguments: tuple[tuple[int, ...], tuple[int, ...]] = ((fd,), (READ_BYTES,))
        self._wake_fd = wake_fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._poll.register(self._wake_fd, select.POLLIN)

    def __del__(self) -> None:
        os.close(self._wake_fd)

    # -- on the thread that reads ------------------------------------------------------------

    def begin(self) -> bool:
        """Start to read on this thread. Return False if another thread reads, or the loan is over.
        Call `stop` afterwards in any case, also after an exception."""
        if self._lock._is_owned():
            # This thread was interrupted while it reads, and the function that interrupted it, such
            # as a signal handler, makes a call, too. The read that was interrupted is given up.
            self.is_over = True
            return False
        return self._lock.acquire(False) and not self.is_over

    def read(self, seconds: float) -> bytes | None:
        """Wait for data, and return what came in one read. Return None if none came in this time,
        if the pipe has ended, or if the loan is over."""
        milliseconds = max(0.0, min(seconds, _MAX_POLL_SECONDS)) * 1000
        if not self._poll.poll(milliseconds) or self.is_over:
            return None
        try:
            # `extend` stores the data in the same step in which it is read: no signal handler can
            # run between the two, and raise an exception.
            self.data.extend(map(read, *self._arguments))
        except OSError:
            return None
        return self.data[0] if self.data else None

    def handled(self) -> None:
        """Remove the data: this thread has handled it."""
        self.data.clear()
        self.reads += 1

    def stop(self) -> None:
        """Let other threads read. Nothing happens if this thread does not read."""
        while self._lock._is_owned():
            self._lock.release()

    # -- on the thread of the event loop -----------------------------------------------------

    def is_in_use(self) -> bool:
        """Return whether a thread reads now."""
        is_free = self._lock.acquire(False)
        self.stop()
        return not is_free

    def end(self) -> None:
        """End the loan: a thread that reads stops."""
        self.is_over = self.is_taken_back = True
        self._arguments = ((), ())
        os.eventfd_write(self._wake_fd, 1)

    def take_data(self, seconds: float) -> list[bytes] | None:
        """Return what was read and not handled, after the end. Return None if a thread has not
        stopped within this time, because it runs a signal handler or gets no processor."""
        if not self._lock.acquire(timeout=seconds):
            return None
        self.stop()
        return [part for part in self.data if part]
