"""Calls a function when a file descriptor can be read or written.

An agent, the program that runs processes on another machine, uses it to wait for the pipes of these
processes and for its own connection. `selectors` of the standard library does the same, but takes
several times as long, and an agent waits twice for each call of an extension.
"""

import select
from collections.abc import Callable

_OUT = select.EPOLLOUT

# The most events of one wait. The others are returned by the next.
_MAX_EVENTS = 64


class Poller:
    """The descriptors that an agent waits for, each with its function."""

    __slots__ = ("_callbacks", "_epoll", "_writable_callbacks")

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], object]] = {}
        # For descriptors that are watched for reading, too (`watch_writable`).
        self._writable_callbacks: dict[int, Callable[[], object]] = {}

    def on_readable(self, fd: int, callback: Callable[[], object]) -> None:
        """Call `callback` while `fd` can be read, or its other end is closed."""
        self._epoll.register(fd, select.EPOLLIN)
        self._callbacks[fd] = callback

    def on_writable(self, fd: int, callback: Callable[[], object]) -> None:
        """Call `callback` while `fd` can be written, or its other end is closed."""
        self._epoll.register(fd, select.EPOLLOUT)
        self._callbacks[fd] = callback

    def watch_writable(self, fd: int, is_wanted: bool, callback: Callable[[], object]) -> None:
        """Begin to call `callback` while `fd` can be written, or stop if `is_wanted` is false. The
        descriptor must already be watched by `on_readable`."""
        events = select.EPOLLIN | select.EPOLLOUT if is_wanted else select.EPOLLIN
        if is_wanted:
            self._writable_callbacks[fd] = callback
        else:
            self._writable_callbacks.pop(fd, None)
        self._epoll.modify(fd, events)

    def forget(self, fd: int) -> None:
        """Stop waiting for `fd`. Call this before the descriptor is closed."""
        self._epoll.unregister(fd)
        del self._callbacks[fd]
        self._writable_callbacks.pop(fd, None)

    def wait(self, seconds: float) -> None:
        """Wait at most this long for a descriptor, and call the functions of all that are ready."""
        for fd, events in self._epoll.poll(seconds, _MAX_EVENTS):
            if events & _OUT and fd in self._writable_callbacks:
                self._writable_callbacks[fd]()
                if not events & ~_OUT:  # it is writable only, so there is nothing to read
                    continue
            callback = self._callbacks.get(fd)
            if callback is not None:  # None: an earlier callback has ended the wait for it
                callback()

    def close(self) -> None:
        """Release the descriptor of the poller itself."""
        self._epoll.close()
