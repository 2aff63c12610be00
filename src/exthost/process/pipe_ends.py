"""The host's ends of the pipes to a process: `ReadEnd` and `WriteEnd`.

A pipe of this machine is a file descriptor (`FdReadEnd`, `FdWriteEnd`). The pipes of a process on
another node are streams of one connection (`cluster.streams`), which have no descriptors of their
own. Readers and writers use either in the same way.
"""

import asyncio
import fcntl
import os
import sys
import termios
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from exthost.process.large_reads import widen


class ReadEnd(Protocol):
    """The end of a pipe that is read. `fd` is its descriptor, -1 if it has none.

    `read` returns at most so many bytes, and b"" at the end of the pipe. It raises BlockingIOError
    if there are none now, and OSError if the pipe cannot be read.
    """

    @property
    def fd(self) -> int: ...

    @property
    def read(self) -> Callable[[int], bytes]: ...

    def read_into(self, buffer: memoryview) -> int:
        """Read into a buffer. Return the number of bytes, 0 at the end. Raises as `read`."""

    def watch(self, callback: Callable[[], None]) -> None:
        """Call `callback` while there are bytes to read, or the end, until `unwatch`."""

    def unwatch(self) -> None:
        """Stop calling the function of `watch`."""

    def widen(self) -> None:
        """Prepare for large messages."""


class WriteEnd(Protocol):
    """The end of a pipe that is written.

    `write` returns how many bytes were accepted. It raises BlockingIOError if there is no room now,
    and OSError if the pipe cannot be written any more.
    """

    @property
    def write(self) -> Callable[[bytes], int]: ...

    def writev(self, parts: Sequence[bytes | memoryview]) -> int:
        """Write several buffers. Raises as `write`."""

    def watch(self, callback: Callable[[], None]) -> None:
        """Call `callback` while there is room, until `unwatch`."""

    def unwatch(self) -> None:
        """Stop calling the function of `watch`."""

    def widen(self) -> None:
        """Prepare for large messages."""

    def unread_bytes(self) -> int:
        """Return how many of the bytes that were accepted the process has not read yet, as far as
        that is known."""


class FdReadEnd:
    """A descriptor that is read."""

    __slots__ = ("_loop", "fd", "read")

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._loop = loop
        self.read = partial(os.read, fd)

    def read_into(self, buffer: memoryview) -> int:
        return os.readv(self.fd, [buffer])

    def watch(self, callback: Callable[[], None]) -> None:
        self._loop.add_reader(self.fd, callback)

    def unwatch(self) -> None:
        self._loop.remove_reader(self.fd)

    def widen(self) -> None:
        widen(self.fd)


class FdWriteEnd:
    """A descriptor that is written."""

    __slots__ = ("_fd", "_loop", "write")

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._loop = loop
        self.write = partial(os.write, fd)

    def writev(self, parts: Sequence[bytes | memoryview]) -> int:
        return os.writev(self._fd, parts)

    def watch(self, callback: Callable[[], None]) -> None:
        self._loop.add_writer(self._fd, callback)

    def unwatch(self) -> None:
        self._loop.remove_writer(self._fd)

    def widen(self) -> None:
        widen(self._fd)

    def unread_bytes(self) -> int:
        try:
            in_pipe = fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4))
        except OSError:  # some systems support this ioctl only at the reading end
            return 0
        return int.from_bytes(in_pipe, sys.byteorder)
