"""Writes to the host on an event loop, without blocking it.

Bytes that do not fit into the pipe are kept and written later; back-pressure: senders may wait
while `is_full`. The file descriptor stays in blocking mode, because non-blocking mode would also
apply to other processes that have the same pipe or terminal. Instead, a write happens only when the
pipe polls as writable, and only with so few bytes that it cannot block then.
"""

import asyncio
import os
import select
import threading
from collections.abc import Generator
from threading import get_ident
from typing import Any

# POSIX: a pipe that polls as writable takes this many bytes without blocking.
_SAFE_BYTES = select.PIPE_BUF

# Senders wait when this much is unwritten.
FULL_BYTES = 64 * 1024


class LoopWriter:
    """Writes on the thread of an event loop."""

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        self.is_broken = False
        self._fd = fd
        self._loop = loop
        self._thread = get_ident()
        self._kept = bytearray()  # what did not fit into the pipe yet
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._room = threading.Event()  # set unless senders in other threads should wait
        self._room.set()
        self._waiters: list[asyncio.Future[None]] = []
        self._closing: asyncio.Future[None] | None = None

    @property
    def unwritten(self) -> int:
        """The number of bytes that do not yet fit into the pipe."""
        return len(self._kept)

    @property
    def is_full(self) -> bool:
        """Whether senders should wait."""
        return len(self._kept) > FULL_BYTES

    def send(self, data: bytes) -> None:
        if get_ident() == self._thread:
            self._send(data)
            return
        self._room.wait()
        try:
            self._loop.call_soon_threadsafe(self._send, data)
        except RuntimeError:  # the loop is closed: no one reads the output
            self.is_broken = True

    def _send(self, data: bytes) -> None:
        """Write what fits into the pipe, and keep the rest. Only on the thread of the loop."""
        if self.is_broken:
            return
        was_empty = not self._kept
        if was_empty and len(data) <= _SAFE_BYTES and self._poll.poll(0):
            self._write_small(data)
            return
        self._kept += data
        if was_empty:
            self._flush()
            if self._kept:
                self._loop.add_writer(self._fd, self._on_writable)
        if self.is_full:
            self._room.clear()

    def _write_small(self, data: bytes) -> None:
        """Write what a pipe takes as a whole."""
        try:
            os.write(self._fd, data)
        except OSError:
            self.is_broken = True

    def _flush(self) -> None:
        """Write what the pipe takes without blocking."""
        start, unsent = 0, self._kept
        try:
            while start < len(unsent) and self._poll.poll(0):
                start += os.write(self._fd, unsent[start : start + _SAFE_BYTES])
        except OSError:
            self.is_broken = True
            start = len(unsent)
        del unsent[:start]

    def _on_writable(self) -> None:
        self._flush()
        if not self._kept:
            self._loop.remove_writer(self._fd)
            if self._closing is not None and not self._closing.done():
                self._closing.set_result(None)
        if not self.is_full:
            self._room.set()
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def wait(self) -> Generator[Any, None, None]:
        while self.is_full and not self.is_broken:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            yield from waiter.__await__()

    async def close(self) -> None:
        """Wait until everything is written, or the host has gone. Senders no longer wait."""
        await asyncio.sleep(0)  # what other threads have sent already is passed to `_send`
        while self._kept and not self.is_broken:
            waiter = self._loop.create_future()
            self._closing = waiter
            await waiter
        self.abandon()

    def abandon(self) -> None:
        """Write nothing more."""
        if self._kept:
            self._loop.remove_writer(self._fd)
            self._kept.clear()
        self.is_broken = True
        self._room.set()
