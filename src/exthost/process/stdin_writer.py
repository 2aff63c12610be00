"""A non-blocking writer to a child's stdin.

`write` writes immediately. `gather` collects frames and writes them together at the end of the
current event-loop iteration. Bytes that do not fit into the pipe are kept in a backlog, and written
when the pipe has room. A child that reads nothing for `stall_seconds` is reported as stalled.

If other threads write, too, as the blocking API does, callers of `write` must hold `lock`. `gather`
is for the loop's thread alone.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import islice

from exthost.process.pipe_ends import WriteEnd

# The pipe is enlarged for a message of more bytes than this, the default size of a pipe: a message
# that does not fit into the pipe needs many small writes.
WIDEN_FROM_BYTES = 64 * 1024

# The most frames in one write. With more, the child could start on the first frame only after the
# host has encoded the last, and the host would then wait for the child.
BATCH_FRAMES = 32

# The most buffers in one writev. Linux allows 1024.
_MAX_BUFFERS = 512


class StdinWriter:
    """A non-blocking writer to one pipe.

    lock           protects the writer, since several threads may write
    stall_seconds  after this long without a read by the child, `on_stall` is called
    close_pipe     closes the pipe
    on_broken      is called when the child has closed its stdin or has exited

    The callbacks are called in the thread of the event loop, except `close_pipe`, which is called
    in the thread that calls `close`.
    """

    __slots__ = (
        "_backlog",
        "_close_pipe",
        "_drain_waiters",
        "_gathered",
        "_is_wide",
        "_lock",
        "_loop",
        "_on_broken",
        "_on_stall",
        "_pipe",
        "_thread",
        "_timer",
        "_unread_at_end",
        "_watching",
        "stall_seconds",
        "unwritten_bytes",
    )

    def __init__(
        self,
        pipe: WriteEnd,
        loop: asyncio.AbstractEventLoop,
        lock: AbstractContextManager[object],
        *,
        stall_seconds: float,
        close_pipe: Callable[[], None],
        on_stall: Callable[[], None],
        on_broken: Callable[[], None],
    ) -> None:
        self._pipe: WriteEnd | None = pipe
        self._loop = loop
        self._lock = lock
        self._thread = threading.get_ident()
        self.stall_seconds = stall_seconds
        self._close_pipe = close_pipe
        self._on_stall = on_stall
        self._on_broken = on_broken
        self._gathered: list[bytes] | None = None
        self.unwritten_bytes = 0  # the size of the backlog
        self._backlog: deque[bytes | memoryview] | None = None
        self._drain_waiters: list[asyncio.Future[None]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watching = False
        self._is_wide = False
        self._unread_at_end = 0

    def write(self, data: bytes) -> None:
        """Write what fits into the pipe now, and the rest when there is room."""
        if self._backlog or self._gathered or self._pipe is None or len(data) > WIDEN_FROM_BYTES:
            self.write_parts(data)
            return
        try:
            done = self._pipe.write(data)
        except BlockingIOError:
            done = 0
        except OSError:
            self._break()
            return
        if done != len(data):
            self._keep((data,), done)

    def write_parts(self, *parts: bytes) -> None:
        """Write a message in parts, so that a large message need not be copied to join it with the
        header and trailer of its frame."""
        if self._pipe is None:
            return
        if self._gathered:  # frames that were gathered earlier are written first
            self._flush_gathered()
        if self._backlog:
            self._keep(parts)
            return
        size = sum(map(len, parts))
        if size > WIDEN_FROM_BYTES and not self._is_wide:
            self._is_wide = True
            self._pipe.widen()
        try:
            done = self._pipe.writev(parts)
        except BlockingIOError:
            done = 0
        except OSError:
            self._break()
            return
        if done != size:
            self._keep(parts, done)

    def write_locked(self, data: bytes) -> None:
        """Acquire the lock, and write."""
        with self._lock:
            self.write(data)

    def gather(self, frame: bytes) -> None:
        """Write a frame at the end of this event-loop iteration, together with other frames. Only
        in the loop's thread."""
        gathered = self._gathered
        if gathered is None:
            gathered = self._gathered = []
        gathered.append(frame)
        count = len(gathered)
        if count == 1:
            self._loop.call_soon(self._flush)
        elif count == BATCH_FRAMES:
            self._flush_gathered()

    def unread_bytes(self) -> int:
        """Return how many bytes the child has not read yet. If the pipe is closed, return how many
        it had not read then; at least 1 if the pipe had broken before, since a write was lost."""
        if self._pipe is None:
            return self._unread_at_end
        return self.unwritten_bytes + self._pipe.unread_bytes()

    async def drained(self) -> None:
        """Wait until everything is in the pipe, or the pipe is closed. Only in the loop's
        thread."""
        if self._backlog and self._pipe is not None:
            future = self._loop.create_future()
            if self._drain_waiters is None:
                self._drain_waiters = []
            self._drain_waiters.append(future)
            await future

    def close(self) -> bool:
        """Close the pipe: the child reads end-of-file. Return False if bytes were dropped."""
        with self._lock:
            if self._pipe is None:
                return True
            if self._gathered:  # still written, as far as the pipe has room
                self._flush_gathered()
            clean = not self._backlog
            self._unread_at_end = max(self._unread_at_end, self.unread_bytes())
            self._unwatch()
            self._backlog = None
            self.unwritten_bytes = 0
            self._pipe = None
            self._close_pipe()
            return clean

    def _flush(self) -> None:
        with self._lock:
            if self._gathered:
                self._flush_gathered()

    def _flush_gathered(self) -> None:
        assert self._gathered is not None
        data = b"".join(self._gathered)
        self._gathered.clear()
        self.write(data)

    def _keep(self, buffers: tuple[bytes, ...], done: int = 0) -> None:
        """Append what was not written to the backlog: the buffers without their first `done`
        bytes."""
        if self._backlog is None:
            self._backlog = deque()
        for buffer in buffers:
            if done >= len(buffer):
                done -= len(buffer)
                continue
            self._backlog.append(memoryview(buffer)[done:] if done else buffer)
            self.unwritten_bytes += len(buffer) - done
            done = 0
        if not self._watching:
            self._watching = True
            if threading.get_ident() == self._thread:
                self._watch()
            else:
                self._loop.call_soon_threadsafe(self._watch)

    def _watch(self) -> None:
        if self._pipe is not None and self._backlog:
            self._pipe.watch(self._loop, self._on_writable)
            self._timer = self._loop.call_later(self.stall_seconds, self._stalled)

    def _unwatch(self) -> None:
        if self._drain_waiters:
            waiters, self._drain_waiters = self._drain_waiters, None
            self._loop.call_soon_threadsafe(_resolve, waiters)
        if self._watching and self._pipe is not None:
            self._watching = False
            self._pipe.unwatch(self._loop)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_writable(self) -> None:
        with self._lock:
            if self._pipe is None or not self._backlog:
                self._unwatch()
                return
            try:
                done = write_backlog(self._pipe.writev, self._backlog)
            except BlockingIOError:
                return
            except OSError:
                self._break()
                return
            self.unwritten_bytes -= done
            if not self._backlog:
                self._unwatch()
            elif self._timer is not None:  # the child has read something: restart the stall timer
                self._timer.cancel()
                self._timer = self._loop.call_later(self.stall_seconds, self._stalled)

    def _stalled(self) -> None:
        self._timer = None
        self._on_stall()

    def _break(self) -> None:
        """Handle a broken pipe: the child closed its stdin or has exited."""
        self._unread_at_end = 1
        self._unwatch()
        self._backlog = None
        self.unwritten_bytes = 0
        if self._gathered:
            self._gathered.clear()
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self._on_broken)
        else:
            self._loop.call_soon_threadsafe(self._on_broken)


def _resolve(waiters: list["asyncio.Future[None]"]) -> None:
    for future in waiters:
        if not future.done():
            future.set_result(None)


def write_backlog(
    writev: Callable[[Sequence[bytes | memoryview]], int], backlog: deque[bytes | memoryview]
) -> int:
    """Write what `writev` accepts now without blocking, and remove it from the backlog. Return the
    number of bytes. Raises BlockingIOError, or OSError if the other end is closed."""
    written = done = writev(tuple(islice(backlog, _MAX_BUFFERS)))
    while done:
        first = backlog.popleft()
        if done < len(first):
            backlog.appendleft(memoryview(first)[done:])
            break
        done -= len(first)
    return written
