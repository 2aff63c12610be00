"""Reads a child's stdout, and passes the frames to `on_items`.

Small reads use `os.read`. Inside a large frame a read goes directly into the memory of the frame.
Reading can be paused: then the pipe fills, and the child blocks.
"""

import asyncio
import os
from collections.abc import Callable
from os import read

from exthost.process.large_reads import read_large, room_for, widen
from exthost.wire.framing import READ_BYTES, Framing, Item

# Memory for large messages is kept this long for the next one.
_KEPT_SECONDS = 1.0

# Enough to recognise a dialect.
_FIRST_BYTES = 256


class StdoutReader:
    """Reads one pipe. `on_end` is called at its end."""

    __slots__ = (
        "_fd",
        "_feed",
        "_framing",
        "_is_wide",
        "_loop",
        "_memory_timer",
        "_on_end",
        "_on_items",
        "first_output",
        "is_closed",
        "is_reading",
    )

    def __init__(
        self,
        fd: int,
        framing: Framing,
        loop: asyncio.AbstractEventLoop,
        on_items: Callable[[list[Item]], None],
        on_end: Callable[[], None],
    ) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._framing = framing
        self._feed = framing.feed
        self._loop = loop
        self._on_items = on_items
        self._on_end = on_end
        self._is_wide = False
        self._memory_timer: asyncio.TimerHandle | None = None
        self.first_output = b""  # the first bytes, which show a wrong dialect
        self.is_reading = False
        self.is_closed = False

    def resume(self) -> None:
        """Start reading, or go on after a pause."""
        if not self.is_reading and not self.is_closed:
            self.is_reading = True
            self._loop.add_reader(self._fd, self.read_now)

    def pause(self) -> None:
        """Leave the child's output in the pipe."""
        if self.is_reading:
            self.is_reading = False
            self._loop.remove_reader(self._fd)

    def close(self) -> None:
        """Read nothing more."""
        self.pause()
        self.is_closed = True

    def read_now(self) -> None:
        """Read once, and pass on the frames that are complete."""
        framing = self._framing
        try:
            if framing.read_size > READ_BYTES:
                items = self._read_large()
            else:
                data = read(self._fd, framing.read_size)
                if not self.first_output:
                    self.first_output = data[:_FIRST_BYTES]
                items = self._feed(data) if data else None
        except BlockingIOError:
            return
        except OSError:
            items = None
        if items is None:
            self.pause()
            self._on_end()
        elif items:
            self._on_items(items)
        if framing.read_size > READ_BYTES and not self._is_wide:
            self._is_wide = True
            widen(self._fd)

    def _read_large(self) -> list[Item] | None:
        framing = self._framing
        buffer = framing.read_buffer(room_for)
        if buffer is None:
            data = read_large(self._fd)
            return self._feed(data) if data else None
        if self._memory_timer is None:
            self._memory_timer = self._loop.call_later(_KEPT_SECONDS, self._release_memory)
        count = os.readv(self._fd, [buffer])
        return framing.commit(count) if count else None

    def _release_memory(self) -> None:
        self._memory_timer = None
        self._framing.release()
