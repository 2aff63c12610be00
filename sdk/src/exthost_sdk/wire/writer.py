"""Writes whole frames (messages as bytes) to the host, in the order in which they were sent.
Thread-safe.

`BlockingWriter` blocks the sender while the host does not read. The writer for an event loop, which
must not block, is in `loop_writer`.

If the host has closed its end, no error is raised: `is_broken` becomes true, and nothing more is
written.
"""

import os
import threading
from collections.abc import Generator
from typing import Any, Protocol


class Writer(Protocol):
    """Sends frames to the host."""

    is_broken: bool

    def send(self, data: bytes) -> None:
        """Write frames."""

    def wait(self) -> Generator[Any, None, None]:
        """Wait until the host has read enough; for `await`."""


class Sent:
    """A message that was sent. Awaiting it waits while the host is slow to read."""

    __slots__ = ("_writer",)

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __await__(self) -> Generator[Any, None, None]:
        return self._writer.wait()


class BlockingWriter:
    """Writes on the thread of the sender."""

    def __init__(self, fd: int) -> None:
        self.is_broken = False
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, data: bytes) -> None:
        # One lock for the whole frame: `os.write` may write only a part, and frames of several
        # threads must not be mixed.
        with self._lock:
            if self.is_broken:
                return
            try:
                written = os.write(self._fd, data)
                while written < len(data):
                    data = data[written:]
                    written = os.write(self._fd, data)
            except OSError:
                self.is_broken = True

    def wait(self) -> Generator[Any, None, None]:
        yield from ()  # `send` has waited already
