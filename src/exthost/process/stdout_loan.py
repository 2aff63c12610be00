"""Lets threads read a child's stdout themselves, while the event loop does not watch it.

The event loop lends the pipe, and later takes it back. In between, one thread at a time waits for
data and reads it. Data that a thread has read stays in the loan until the thread has handled it: if
the thread cannot handle it, or is interrupted by an exception of a signal handler, the event loop
handles it after the loan.

A thread may be stopped at any instruction for any time, by a signal handler or because it gets no
processor. So the event loop does not wait for a thread that waits for data, nor for long for a
thread that has data.
"""

import os
import select
import threading
from os import read

from exthost.wire.framing import READ_BYTES

CAN_LEND = hasattr(os, "eventfd") and hasattr(select, "poll")
"""Whether this system has what a loan needs. Otherwise the event loop does all the reading."""

# The longest time that a thread waits for data, in seconds, because `poll` takes no longer time.
_MAX_POLL_SECONDS = 60.0 * 60 * 24


class StdoutLoan:
    """A pipe that threads may read, from its creation until `end`.

    turn     held by the thread that waits for data, reads and handles it
    busy     held by that thread while it reads and handles data
    data     what was read and not handled yet, in order
    is_over  whether the loan is to end: no thread starts to read any more
    reads    how many reads were handled by a thread
    """

    __slots__ = ("_fd", "_poll", "_wake_fd", "busy", "data", "is_over", "reads", "turn")

    def __init__(self, fd: int) -> None:
        """Raises OSError if there are too many open files."""
        self._fd = self._wake_fd = -1
        # A copy: the original may be closed, and its number used again, while a thread is here.
        self._fd = os.dup(fd)
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._poll.register(self._wake_fd, select.POLLIN)
        self.turn = threading.Lock()
        self.busy = threading.Lock()
        self.data: list[bytes] = []
        self.is_over = False
        self.reads = 0

    def __del__(self) -> None:
        # Only now, because a thread may poll them for a moment after the end.
        for fd in (self._fd, self._wake_fd):
            if fd >= 0:
                os.close(fd)

    # -- on the thread that has its turn -----------------------------------------------------

    def wait(self, seconds: float) -> bool:
        """Wait until there is data or the loan is over. Return False after this time."""
        milliseconds = max(0.0, min(seconds, _MAX_POLL_SECONDS)) * 1000
        return self.is_over or bool(self.data) or bool(self._poll.poll(milliseconds))

    def read(self) -> bytes | None:
        """Return the data of one read. Return None if the loan is over, if the pipe has ended, or
        if an interrupted thread has left data. The thread must be `busy`, and must call `handled`
        or `decline` afterwards."""
        if self.is_over or self.data:
            return None
        try:
            # `extend` stores the data in the same step in which it is read: no signal handler can
            # run between the two, and raise an exception.
            self.data.extend(map(read, (self._fd,), (READ_BYTES,)))
        except OSError:
            return None
        return self.data[0] or None

    def handled(self) -> None:
        """Remove the data, because the thread has handled it."""
        self.data.clear()
        self.reads += 1

    def decline(self) -> None:
        """Leave the data to the event loop. No thread reads what follows it."""
        self.is_over = True

    # -- on the thread of the event loop -----------------------------------------------------

    def end(self) -> None:
        """End the loan: a thread that waits for data stops."""
        self.is_over = True
        os.eventfd_write(self._wake_fd, 1)

    def take_data(self, seconds: float, *, force: bool) -> list[bytes] | None:
        """Return what was read and not handled, after the end. Return None if a thread is busy for
        longer than this; with `force`, take the data from it."""
        is_free = self.busy.acquire(timeout=seconds)
        if is_free:
            self.busy.release()
        elif not force:
            return None
        data, self.data = self.data, []
        return [part for part in data if part]
