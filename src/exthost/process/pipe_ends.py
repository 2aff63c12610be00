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
from os import read, write
from typing import Protocol

from exthost.process.large_reads import widen


class ReadEnd(Protocol):
    """The end of a pipe that is read. `fd` is its descriptor, -1 if it has none.

    `read` returns at most so many bytes, and b"" at the end of the pipe. It raises BlockingIOError
    if there are none now, and OSError if the pipe cannot be read.
    """

    @property
    def fd(self) -> int: ...

    def read(self, size: int) -> bytes:
        """Read at most so many bytes."""

    def read_into(self, buffer: memoryview) -> int:
        """Read into a buffer. Return the number of bytes, 0 at the end. Raises as `read`."""

    def watch(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Call `callback` while there are bytes to read, or the end, until `unwatch`."""

    def unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop calling the function of `watch`."""

    def widen(self) -> None:
        """Prepare for large messages."""


class WriteEnd(Protocol):
    """The end of a pipe that is written.

    `write` returns how many bytes were accepted. It raises BlockingIOError if there is no room now,
    and OSError if the pipe cannot be written any more.
    """

    def write(self, data: bytes) -> int:
        """Write what is accepted now."""

    def writev(self, parts: Sequence[bytes | memoryview]) -> int:
        """Write several buffers. Raises as `write`."""

    def watch(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Call `callback` while there is room, until `unwatch`."""

    def unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop calling the function of `watch`."""

    def widen(self) -> None:
        """Prepare for large messages."""

    def unread_bytes(self) -> int:
        """Return how many of the bytes that were accepted the process has not read yet, as far as
        that is known."""


class FdReadEnd(int):
    """A descriptor that is read. It is the number itself, because an idle extension has three ends
    of pipes, and objects with attributes take more memory."""

    __slots__ = ()

    def __new__(cls, fd: int) -> "FdReadEnd":
        os.set_blocking(fd, False)
        return int.__new__(cls, fd)

    @property
    def fd(self) -> int:
        return self

    def read(self, size: int) -> bytes:
        return read(self, size)

    def read_into(self, buffer: memoryview) -> int:
        return os.readv(self, [buffer])

    def watch(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        loop.add_reader(self, callback)

    def unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self)

    def widen(self) -> None:
        widen(self)


class FdWriteEnd(int):
    """A descriptor that is written. It is the number itself, as in `FdReadEnd`."""

    __slots__ = ()

    def __new__(cls, fd: int) -> "FdWriteEnd":
        os.set_blocking(fd, False)
        return int.__new__(cls, fd)

    def write(self, data: bytes) -> int:
        return write(self, data)

    def writev(self, parts: Sequence[bytes | memoryview]) -> int:
        return os.writev(self, parts)

    def watch(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        loop.add_writer(self, callback)

    def unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_writer(self)

    def widen(self) -> None:
        widen(self)

    def unread_bytes(self) -> int:
        try:
            in_pipe = fcntl.ioctl(self, termios.FIONREAD, bytes(4))
        except OSError:  # some systems support this ioctl only at the reading end
            return 0
        return int.from_bytes(in_pipe, sys.byteorder)
