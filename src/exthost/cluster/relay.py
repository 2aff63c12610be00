"""Moves bytes from a descriptor to another, with back-pressure, in a loop that never blocks.

A `Relay` keeps at most one read in memory. While that cannot be written, the source is not read,
so that whoever writes to it blocks in turn.
"""

import os
import selectors

__all__ = ["Relay"]

# As much as a widened pipe or the buffer of a connection holds.
_READ_BYTES = 256 * 1024


class Relay:
    """One direction. `is_over` at the end of the source, or when the target is closed; then both
    descriptors are closed."""

    __slots__ = ("_pending", "_selector", "_source", "_target", "_waits_for", "is_over")

    def __init__(self, selector: selectors.BaseSelector, source: int, target: int) -> None:
        os.set_blocking(source, False)
        os.set_blocking(target, False)
        self._selector = selector
        self._source = source
        self._target = target
        self._pending = memoryview(b"")
        self._waits_for = -1
        self.is_over = False
        self._wait_for(source, selectors.EVENT_READ)

    def _wait_for(self, fd: int, event: int) -> None:
        if self._waits_for != fd:
            if self._waits_for >= 0:
                self._selector.unregister(self._waits_for)
            self._selector.register(fd, event, self.move)
            self._waits_for = fd

    def move(self) -> bool:
        """Move what can be moved now. Return False at the end."""
        if self.is_over:
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
        """Move until the source has no more bytes now. Return False if the target is full."""
        before = self._waits_for
        while self.move():
            if self._pending:
                return False
            if before == self._waits_for == self._source and not _is_readable(self._source):
                return True
            before = self._waits_for
        return True

    def close(self) -> None:
        """Close both descriptors. Closing twice is fine."""
        if not self.is_over:
            self.is_over = True
            self._selector.unregister(self._waits_for)
            os.close(self._source)
            os.close(self._target)


def _is_readable(fd: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        return bool(selector.select(0))
