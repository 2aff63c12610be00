"""Copies bytes from one file descriptor to another, with back-pressure and without blocking.

A `Relay` keeps the data of at most one read in memory. While that data cannot be written, it does
not read the source, so that the program that writes to the source blocks in turn.
"""

import os
import select

from exthost.cluster.poller import Poller

__all__ = ["Relay"]

# The size of the pipes and of the socket buffers that are used here.
_READ_BYTES = 256 * 1024


class Relay:
    """Copies in one direction. It has ended (`has_ended`), with both file descriptors closed, at
    the end of the source or when the target is closed."""

    __slots__ = (
        "_buffer",
        "_pending",
        "_poller",
        "_registered_fd",
        "_source",
        "_target",
        "has_ended",
    )

    def __init__(self, poller: Poller, source: int, target: int) -> None:
        os.set_blocking(source, False)
        os.set_blocking(target, False)
        self._poller = poller
        self._source = source
        self._target = target
        # The memory of every read. New memory of this size for each read would take longer than all
        # the rest.
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._pending = self._buffer[:0]
        self._registered_fd = source
        self.has_ended = False
        poller.on_readable(source, self.move)

    def _wait_for_source(self) -> None:
        if self._registered_fd != self._source:
            self._poller.forget(self._target)
            self._poller.on_readable(self._source, self.move)
            self._registered_fd = self._source

    def _wait_for_target(self) -> None:
        if self._registered_fd != self._target:
            self._poller.forget(self._source)
            self._poller.on_writable(self._target, self.move)
            self._registered_fd = self._target

    def move(self) -> bool:
        """Copy what can be copied now. Return False if the relay has ended."""
        if self.has_ended:
            return False
        try:
            if not self._pending:
                count = os.readv(self._source, (self._buffer,))
                if not count:
                    self.close()
                    return False
                self._pending = self._buffer[:count]
            self._pending = self._pending[os.write(self._target, self._pending) :]
        except BlockingIOError:
            pass
        except OSError:  # the other side is closed
            self.close()
            return False
        if self._pending:
            self._wait_for_target()
        else:
            self._wait_for_source()
        return True

    def drain(self) -> bool:
        """Copy until the source has no more bytes for now. Return False if the target is full, True
        otherwise, also if the relay has ended."""
        previous_fd = self._registered_fd
        while self.move():
            if self._pending:
                return False
            if previous_fd == self._registered_fd == self._source and not _is_readable(
                self._source
            ):
                return True
            previous_fd = self._registered_fd
        return True

    def close(self) -> None:
        """Close both descriptors. Closing twice is fine."""
        if not self.has_ended:
            self.has_ended = True
            self._poller.forget(self._registered_fd)
            os.close(self._source)
            os.close(self._target)


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
