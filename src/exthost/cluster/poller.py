"""Calls a function when a file descriptor can be read or written.

`selectors` of the standard library does the same, and takes several times as long for it. A relay
waits twice for each call of an extension.
"""

import select
from collections.abc import Callable

# The most events of one wait; a node process has seven descriptors.
_MAX_EVENTS = 16


class Poller:
    """The descriptors that a node process waits for, each with its function."""

    __slots__ = ("_callbacks", "_epoll")

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], object]] = {}

    def on_readable(self, fd: int, callback: Callable[[], object]) -> None:
        """Call `callback` while `fd` can be read, or its other end is closed."""
        self._epoll.register(fd, select.EPOLLIN)
        self._callbacks[fd] = callback

    def on_writable(self, fd: int, callback: Callable[[], object]) -> None:
        """Call `callback` while `fd` can be written, or its other end is closed."""
        self._epoll.register(fd, select.EPOLLOUT)
        self._callbacks[fd] = callback

    def forget(self, fd: int) -> None:
        """Stop waiting for `fd`. To be called before it is closed."""
        self._epoll.unregister(fd)
        del self._callbacks[fd]

    def wait(self, seconds: float) -> None:
        """Wait this long at most until a descriptor is ready, and call the functions of those that
        are."""
        for fd, _ in self._epoll.poll(seconds, _MAX_EVENTS):
            callback = self._callbacks.get(fd)
            if callback is not None:  # None: an earlier callback has ended the wait for it
                callback()

    def close(self) -> None:
        """Release the descriptor of the poller itself."""
        self._epoll.close()
