"""The host's ends of the pipes of a process on another node: streams of the connection to its
agent.

An agent is the program that runs the host's processes on another machine (a node). The streams have
the interface of pipes on this machine (`process.pipe_ends`), without descriptors, so that a session
uses both alike.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from exthost.cluster.link import Link
from exthost.cluster.multiplexer import CONSUME_BYTES


class IncomingStream:
    """A stream that is read. The connection calls `feed` and `notify`."""

    __slots__ = (
        "_callback",
        "_chunks",
        "_consumed",
        "_is_notifying",
        "_link",
        "_loop",
        "_stream",
        "is_ended",
    )

    fd = -1  # in the interface of a pipe: there is no descriptor

    def __init__(self, link: Link, stream: int, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self._stream = stream
        self._loop = loop
        self._chunks: deque[bytes | memoryview] = deque()
        self._callback: Callable[[], None] | None = None
        self._consumed = 0  # bytes that were read and are not reported yet
        self._is_notifying = False  # whether a call of `notify` is scheduled
        self.is_ended = False
        link.perform(link.multiplexer.open_incoming, stream)

    # -- used by the connection --------------------------------------------------------------

    def feed(self, data: bytes | memoryview) -> None:
        """Add bytes that were received."""
        self._chunks.append(data)

    def end(self) -> None:
        """Report the end of the stream when everything before it was read."""
        self.is_ended = True
        self.notify()

    def notify(self) -> None:
        """Call the function of `watch` if there is something to read. It reads once; if more is
        left, it is called again in the next iteration of the event loop."""
        self._is_notifying = False
        if self._callback is not None and (self._chunks or self.is_ended):
            self._callback()
            if self._chunks or self.is_ended:
                self._schedule()

    def _schedule(self) -> None:
        is_readable = self._chunks or self.is_ended
        if self._callback is not None and is_readable and not self._is_notifying:
            self._is_notifying = True
            self._loop.call_soon(self.notify)

    # -- the interface of a pipe, documented in `process.pipe_ends` --------------------------

    def read(self, size: int) -> bytes:
        chunks = self._chunks
        if not chunks:
            if self.is_ended:
                return b""
            raise BlockingIOError
        if len(chunks) == 1 and len(chunks[0]) <= size:
            data = bytes(chunks.popleft())  # no copy is made of an object that is bytes already
        else:
            data = self._join(size)
        self._consumed += len(data)
        if self._consumed >= CONSUME_BYTES:
            self._report_consumed()
        return data

    def _join(self, size: int) -> bytes:
        """Remove and return at most `size` bytes of several chunks."""
        parts: list[bytes | memoryview] = []
        while self._chunks and size:
            chunk = self._chunks.popleft()
            if len(chunk) > size:
                view = memoryview(chunk)
                self._chunks.appendleft(view[size:])
                chunk = view[:size]
            parts.append(chunk)
            size -= len(chunk)
        return b"".join(parts)

    def read_into(self, buffer: memoryview) -> int:
        if not self._chunks and not self.is_ended:
            raise BlockingIOError
        count = 0
        while self._chunks and count < len(buffer):
            chunk = self._chunks.popleft()
            room = len(buffer) - count
            if len(chunk) > room:
                view = memoryview(chunk)
                self._chunks.appendleft(view[room:])
                chunk = view[:room]
            buffer[count : count + len(chunk)] = chunk
            count += len(chunk)
        self._consumed += count
        if self._consumed >= CONSUME_BYTES:
            self._report_consumed()
        return count

    def _report_consumed(self) -> None:
        count, self._consumed = self._consumed, 0
        if not self.is_ended:
            self._link.perform(self._link.multiplexer.consume, self._stream, count)

    def watch(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._schedule()

    def unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._callback = None

    def widen(self) -> None:
        self._link.perform(self._link.multiplexer.widen, self._stream)

    def close(self) -> None:
        """Receive no more."""
        self._callback = None
        self._chunks.clear()
        if not self.is_ended:
            self.is_ended = True
            self._link.perform(self._link.multiplexer.reset, self._stream)


class OutgoingStream:
    """A stream that is written. The connection calls `notify` and `abort`."""

    __slots__ = ("_callback", "_link", "_loop", "_stream", "is_broken", "on_broken")

    def __init__(self, link: Link, stream: int, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self._stream = stream
        self._loop = loop
        self._callback: Callable[[], None] | None = None
        self.is_broken = False
        self.on_broken: Callable[[], None] | None = None
        link.perform(link.multiplexer.open_outgoing, stream)

    # -- used by the connection --------------------------------------------------------------

    @property
    def is_watched(self) -> bool:
        """Whether a writer waits for room."""
        return self._callback is not None

    def notify(self) -> None:
        """Call the function of `watch`, because there may be room."""
        if self._callback is not None:
            self._callback()

    def abort(self) -> None:
        """Report that nothing can be written any more: the process has closed its stdin."""
        if not self.is_broken:
            self.is_broken = True
            self.notify()
            if self.on_broken is not None:
                self.on_broken()

    # -- the interface of a pipe, documented in `process.pipe_ends` --------------------------

    def write(self, data: bytes | memoryview) -> int:
        if self.is_broken:
            raise BrokenPipeError
        count = self._link.send(self._stream, data)
        if not count and data:
            raise BlockingIOError
        return count

    def writev(self, parts: Sequence[bytes | memoryview]) -> int:
        if len(parts) > 1 and sum(map(len, parts)) <= _JOIN_BYTES:
            parts = (b"".join(parts),)
        written = 0
        for part in parts:
            if not part:
                continue
            try:
                count = self.write(part)
            except BlockingIOError:
                if written:
                    break
                raise
            written += count
            if count < len(part):
                break
        return written

    def watch(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._callback = callback
        # The room may have been reported before `watch` was called, and is reported only once.
        has_credit = self._link.multiplexer.credits.get(self._stream, 0) > 0
        if self.is_broken or (self._link.has_room and has_credit):
            loop.call_soon(self.notify)

    def unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._callback = None

    def widen(self) -> None:
        """Do nothing: the agent decides how much it accepts."""

    def unread_bytes(self) -> int:
        return 0  # the host does not know how much the process on the node has not read yet

    def close(self) -> None:
        """End the stream: the process reads the end of its stdin."""
        self._callback = self.on_broken = None
        self._link.perform(self._link.multiplexer.end, self._stream)


# Parts of a message are joined up to this size: one frame is cheaper than two.
_JOIN_BYTES = 64 * 1024
