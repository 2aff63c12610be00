"""Copies bytes from one file descriptor to another, with back-pressure and without blocking.

A `Relay` keeps the data of at most one read in memory. While that data cannot be written, it does
not read the source, so that the program that writes to the source blocks in turn.
"""

import os
import selectors

__all__ = ["Relay"]

# The size of the pipes and of the socket buffers that are used here.
_READ_BYTES = 256 * 1024


class Relay:
    """Copies in one direction. It has ended (`has_ended`), with both file descriptors closed, at
    the end of the source or when the target is closed."""

    __slots__ = ("_pending", "_registered_fd", "_selector", "_source", "_target", "has_ended")

    def __init__(self, selector: selectors.BaseSelector, source: int, target: int) -> None:
        os.set_blocking(source, False)
        os.set_blocking(target, False)
        self._selector = selector
        self._source = source
        self._target = target
        self._pending = memoryview(b"")
        self._registered_fd = -1
        self.has_ended = False
        self._wait_for(source, selectors.EVENT_READ)

    def _wait_for(self, fd: int, event: int) -> None:
        if self._registered_fd != fd:
            if self._registered_fd >= 0:
                self._selector.unregister(self._registered_fd)
            self._selector.register(fd, event, self.move)
            self._registered_fd = fd

    def move(self) -> bool:
        """Copy what can be copied now. Return False if the relay has ended."""
        if self.has_ended:
            return False
        try:
            if not self._pending:
                self._pending = memoryview(os.read(self._source, _READ_BYTES))
                if not self._pending:
                    self.close()
                    return False
            self._pending = self._pending[os.write(self._target, self._pending) :]
        except BlockingIOError:
            pass
        except OSError:  # the other side is closed
            self.close()
            return False
        if self._pending:
            self._wait_for(self._target, selectors.EVENT_WRITE)
        else:
            self._wait_for(self._source, selectors.EVENT_READ)
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
            self._selector.unregister(self._registered_fd)
            os.close(self._source)
            os.close(self._target)


def _is_readable(fd: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        return bool(selector.select(0))
