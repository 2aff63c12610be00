"""Writes lines to a file descriptor in blocking mode without ever blocking. The gateway on stdio
writes to its client with it.

The descriptor must stay in blocking mode, because other processes may share it. Lines that are
written in one iteration of the event loop are sent together in the next. Before each `os.write`,
`poll` reports whether the write would block; if it would, the rest is written when the descriptor
is writable again.
"""

import asyncio
import os
import select
from collections.abc import Callable

# While more than this is unwritten, `wait_for_room` waits (back-pressure).
HIGH_WATER_BYTES = 64 * 1024

# The pause between two checks of `watch_client`.
CHECK_SECONDS = 1.0


class LineWriter:
    """The lines to one client, in order. `on_broken` is called if the client has closed its end: if
    a write fails, or `watch_client` notices it."""

    def __init__(self, fd: int, on_broken: Callable[[], object]) -> None:
        self._fd = fd
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._unwritten = bytearray()
        # Also True while a flush waits until the descriptor is writable.
        self._is_flush_scheduled = False
        self._waiters: list[asyncio.Future[None]] = []
        self._is_watching = False
        self._check_timer: asyncio.TimerHandle | None = None
        self.is_broken = False

    def write(self, line: bytes) -> None:
        """Write a line after the earlier lines. It is dropped if the client has closed its end."""
        if self.is_broken:
            return
        self._unwritten += line
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._loop.call_soon(self._flush)

    def write_reply(self, number: int, line: bytes) -> None:
        """Write a reply. On a pipe, it has the id of its request and needs no number."""
        self.write(line)

    def write_request(self, line: bytes) -> None:
        """Write a request of a server."""
        self.write(line)

    def end_line(self, number: int) -> None:
        """Do nothing: on a pipe, only a relay needs to know that a line gets no reply."""

    async def wait_for_room(self) -> None:
        """Wait while more than HIGH_WATER_BYTES are unwritten."""
        while len(self._unwritten) > HIGH_WATER_BYTES:
            await self._wait_for_progress()

    async def flush(self) -> None:
        """Wait until everything is written."""
        while self._unwritten:
            await self._wait_for_progress()

    def watch_client(self) -> None:
        """Check from now on whether the client has closed its end, though nothing is written."""
        if self.is_broken:
            return
        if any(events & (select.POLLERR | select.POLLHUP) for _, events in self._poll.poll(0)):
            self.close()
            self._on_broken()
        else:
            self._check_timer = self._loop.call_later(CHECK_SECONDS, self.watch_client)

    def close(self) -> None:
        """Drop the unwritten lines, and write nothing more."""
        self._unwatch()
        if self._check_timer is not None:
            self._check_timer.cancel()
        self.is_broken = True
        self._unwritten.clear()
        self._wake_waiters()

    async def _wait_for_progress(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _flush(self) -> None:
        """Write as much as is possible without blocking. If something is left, continue when the
        descriptor is writable."""
        unwritten = self._unwritten
        try:
            while unwritten and self._is_writable():
                # A pipe that `poll` reports as writable takes PIPE_BUF bytes without blocking.
                with memoryview(unwritten) as view, view[: select.PIPE_BUF] as chunk:
                    count = os.write(self._fd, chunk)
                del unwritten[:count]
        except OSError:
            self.close()
            self._on_broken()
            return
        if unwritten:
            self._watch()
        else:
            self._unwatch()
            self._is_flush_scheduled = False
        if self._waiters:
            self._wake_waiters()

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

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
