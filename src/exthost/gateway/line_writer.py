"""Writes lines to a descriptor that must stay blocking, and never blocks.

Lines of one step of the loop are written together at its end, as far as the system says that they
will not block; the rest follows when it is ready again.
"""

import asyncio
import os
import select
from collections.abc import Callable

__all__ = ["LineWriter"]

# While more than this is unwritten, senders wait.
HIGH_WATER_BYTES = 64 * 1024


class LineWriter:
    """The lines to one client, in order. `on_broken` is called if nobody reads any more."""

    def __init__(self, fd: int, on_broken: Callable[[], object]) -> None:
        self._fd = fd
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._unwritten = bytearray()
        self._is_due = False  # a flush is scheduled, or waits until the descriptor is ready
        self._waiters: list[asyncio.Future[None]] = []
        self._is_watching = False
        self.is_broken = False

    def write(self, line: bytes) -> None:
        """Write a line after those before it. Lines to a client that is gone are dropped."""
        if self.is_broken:
            return
        self._unwritten += line
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._flush)

    async def ready(self) -> None:
        """Wait while much is unwritten."""
        while len(self._unwritten) > HIGH_WATER_BYTES:
            await self._next_progress()

    async def flush(self) -> None:
        """Wait until everything is written."""
        while self._unwritten:
            await self._next_progress()

    def close(self) -> None:
        """Write nothing more."""
        self._unwatch()
        self.is_broken = True
        self._unwritten.clear()
        self._wake()

    async def _next_progress(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _flush(self) -> None:
        unwritten = self._unwritten
        try:
            while unwritten and self._is_writable():
                # A writable pipe takes this many bytes without blocking.
                with memoryview(unwritten) as view, view[: select.PIPE_BUF] as part:
                    count = os.write(self._fd, part)
                del unwritten[:count]
        except OSError:
            self.close()
            self._on_broken()
            return
        if unwritten:
            self._watch()
        else:
            self._unwatch()
            self._is_due = False
        if self._waiters:
            self._wake()

    def _is_writable(self) -> bool:
        return bool(self._poll.poll(0))

    def _watch(self) -> None:
        if not self._is_watching:
            try:
                self._loop.add_writer(self._fd, self._flush)
            except PermissionError:  # a regular file is always ready, and cannot be watched
                self._loop.call_soon(self._flush)
                return
            self._is_watching = True

    def _unwatch(self) -> None:
        if self._is_watching:
            self._is_watching = False
            self._loop.remove_writer(self._fd)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
