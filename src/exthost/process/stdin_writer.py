"""A non-blocking writer to a child's stdin.

`write` writes immediately. `gather` collects frames and writes them together at the end of the
current event-loop iteration. Bytes that do not fit into the pipe are kept in a backlog, and written
when the pipe has room. A child that reads nothing for `stall_seconds` is reported as stalled.

If other threads write, too, as the blocking API does, callers of `write` must hold `lock`, and
`gather` must not be used, since it takes no lock. Other threads only write: everything else here is
called in the thread of the loop. So only that thread removes bytes from the backlog, watches the
pipe and closes it.

In the main thread of a program, a signal handler may raise an exception (KeyboardInterrupt) between
any two steps of a write. A frame of which only a part is in the pipe must be completed all the
same, because the frames of other threads follow it. So another thread stores how much was written
in the same step in which it writes (`_write_from_thread`), and the next user of the writer, or
`recover`, does the rest.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from select import PIPE_BUF

from exthost.process.pipe_ends import FdWriteEnd, WriteEnd

# The pipe is enlarged for a message of more bytes than this, the default size of a pipe: a message
# that does not fit into the pipe needs many small writes.
WIDEN_FROM_BYTES = 64 * 1024

# A pipe takes so many bytes as a whole, or not at all.
_DIVISIBLE_BYTES = min(PIPE_BUF, WIDEN_FROM_BYTES)

_NOT_WRITTEN: list[int] = []  # stays empty

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
        "_interrupted",
        "_is_watching",
        "_is_wide",
        "_lock",
        "_loop",
        "_loop_thread",
        "_on_broken",
        "_on_stall",
        "_pipe",
        "_stall_timer",
        "_unread_at_end",
        "_written",
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
        self._loop_thread = threading.get_ident()
        self.stall_seconds = stall_seconds
        self._close_pipe = close_pipe
        self._on_stall = on_stall
        self._on_broken = on_broken
        # The collections are created at their first use: most writers never need a backlog.
        self._gathered: list[bytes] | None = None
        self.unwritten_bytes = 0  # the size of the backlog
        self._backlog: deque[bytes | memoryview] | None = None
        # The frame that another thread is writing, and how much of it is in the pipe: one number,
        # none before the write.
        self._interrupted: tuple[bytes, ...] | None = None
        self._written: list[int] = _NOT_WRITTEN
        self._drain_waiters: list[asyncio.Future[None]] | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._is_watching = False  # whether the loop waits for room in the pipe
        self._is_wide = False  # whether the pipe was enlarged
        self._unread_at_end = 0  # the result of `unread_bytes` when the pipe was closed

    def write(self, data: bytes) -> None:
        """Write what fits into the pipe now, and the rest when there is room."""
        if (
            self._backlog
            or self._gathered
            or self._pipe is None
            or len(data) > _DIVISIBLE_BYTES
            or self._interrupted is not None
        ):
            self.write_parts(data)
            return
        try:
            written = self._pipe.write(data)
        except BlockingIOError:
            written = 0
        except OSError:
            self._break()
            return
        if written != len(data):
            self._keep((data,), written)

    def write_parts(self, *parts: bytes) -> None:
        """Write a message in parts, so that a large message need not be copied to join it with the
        header and trailer of its frame."""
        if self._pipe is None:
            return
        if self._interrupted is not None:
            self._settle()
        if self._gathered:  # frames that were gathered earlier are written first
            self._flush_gathered()
        if self._backlog:
            self._keep(parts)
            return
        size = sum(map(len, parts))
        if size > WIDEN_FROM_BYTES and not self._is_wide:
            self._is_wide = True
            self._pipe.widen()
        if threading.get_ident() != self._loop_thread:
            self._write_from_thread(parts)
            return
        try:
            written = self._pipe.writev(parts)
        except BlockingIOError:
            written = 0
        except OSError:
            self._break()
            return
        if written != size:
            self._keep(parts, written)

    def _write_from_thread(self, parts: tuple[bytes, ...]) -> None:
        """Write a message on another thread than that of the loop; see the docstring of this
        module. There is no backlog."""
        pipe = self._pipe
        assert pipe is not None
        written: list[int] = []
        self._written = written
        self._interrupted = parts
        try:
            if isinstance(pipe, FdWriteEnd):
                # No signal handler runs between the write and `extend`.
                written.extend(map(os.writev, (pipe,), (parts,)))
            else:
                written.append(pipe.writev(parts))
        except BlockingIOError:
            written.append(0)
        except OSError:
            self._interrupted = None
            self._break()
            return
        self._settle()

    def _settle(self) -> None:
        """Keep what is left of the frame that another thread was writing. A frame of which nothing
        was written is dropped: an exception has prevented that, which its caller gets."""
        parts, written = self._interrupted, self._written
        rest = list(_skip(parts, written[0])) if parts is not None and written else []
        size = sum(map(len, rest))
        if rest:
            backlog = deque(rest)
            # No call between these lines: a signal handler could run there.
            self._backlog = backlog
            self.unwritten_bytes = size
        self._interrupted = None
        if rest:
            self._watch_soon()

    def recover(self) -> None:
        """Complete what an exception in another thread has interrupted. Only in the loop's
        thread."""
        with self._lock:
            if self._interrupted is not None:
                self._settle()
            self.unwritten_bytes = sum(map(len, self._backlog or ()))
            self._watch()

    def write_locked(self, data: bytes) -> None:
        """Acquire the lock, and write."""
        with self._lock:
            self.write(data)

    def gather(self, frame: bytes) -> None:
        """Write a frame at the end of this event-loop iteration, together with other frames. Only
        in the loop's thread, and only if no other thread writes."""
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
        self._flush()  # frames that were gathered go into the pipe or the backlog
        if self._backlog and self._pipe is not None:
            future = self._loop.create_future()
            if self._drain_waiters is None:
                self._drain_waiters = []
            self._drain_waiters.append(future)
            await future

    def close(self) -> bool:
        """Close the pipe: the child reads end-of-file. Return False if bytes were dropped, now or
        when the pipe broke; True if the pipe was closed already."""
        with self._lock:
            if self._pipe is None:
                return True
            if self._interrupted is not None:
                self._settle()
            if self._gathered:  # still written, as far as the pipe has room
                self._flush_gathered()
            # Before the pipe is closed, only `_break` sets `_unread_at_end`.
            clean = not self._backlog and self._unread_at_end == 0
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

    def _keep(self, buffers: tuple[bytes, ...], written: int = 0) -> None:
        """Append the buffers to the backlog, without their first `written` bytes, and write them
        when the pipe has room."""
        if self._backlog is None:
            self._backlog = deque()
        rest = tuple(_skip(buffers, written))
        self._backlog.extend(rest)  # in one step, which no signal handler can interrupt
        self.unwritten_bytes += sum(map(len, rest))
        self._watch_soon()

    def _watch_soon(self) -> None:
        """Write the backlog when the pipe has room."""
        if not self._is_watching:
            self._is_watching = True
            if threading.get_ident() == self._loop_thread:
                self._watch()
            else:
                self._loop.call_soon_threadsafe(self._watch)

    def _watch(self) -> None:
        """Write the backlog when the pipe has room, and start the stall timer. Only in the loop's
        thread: no other thread could close the pipe or empty the backlog meanwhile."""
        if self._pipe is not None and self._backlog and self._stall_timer is None:
            self._is_watching = True
            self._pipe.watch(self._loop, self._on_writable)
            self._stall_timer = self._loop.call_later(self.stall_seconds, self._stalled)

    def _unwatch(self) -> None:
        """Stop watching the pipe, and wake those that wait until everything is written.

        Another thread calls this only from `_break`, after a write that found no backlog. Then the
        pipe is not watched and there is no timer, so nothing of the loop is touched."""
        if self._drain_waiters:
            waiters, self._drain_waiters = self._drain_waiters, None
            self._loop.call_soon_threadsafe(_resolve, waiters)
        if self._is_watching and self._pipe is not None:
            self._is_watching = False
            self._pipe.unwatch(self._loop)
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _on_writable(self) -> None:
        """Write as much of the backlog as the pipe has room for."""
        with self._lock:
            if self._pipe is None or not self._backlog:
                self._unwatch()
                return
            try:
                written = write_backlog(self._pipe.writev, self._backlog)
            except BlockingIOError:
                return
            except OSError:
                self._break()
                return
            self.unwritten_bytes -= written
            if not self._backlog:
                self._unwatch()
            elif self._stall_timer is not None:  # None if the child was reported as stalled
                # The child has read something, so its time starts again.
                self._stall_timer.cancel()
                self._stall_timer = self._loop.call_later(self.stall_seconds, self._stalled)

    def _stalled(self) -> None:
        self._stall_timer = None
        self._on_stall()

    def _break(self) -> None:
        """Handle a broken pipe: the child closed its stdin or has exited. Drop what is unwritten;
        `on_broken` decides when to close the pipe."""
        self._unread_at_end = 1
        self._unwatch()
        self._backlog = None
        self.unwritten_bytes = 0
        if self._gathered:
            self._gathered.clear()
        if threading.get_ident() == self._loop_thread:
            self._loop.call_soon(self._on_broken)
        else:
            self._loop.call_soon_threadsafe(self._on_broken)


def _skip(buffers: tuple[bytes, ...] | None, count: int) -> Iterator[bytes | memoryview]:
    """Yield these buffers without their first `count` bytes."""
    for buffer in buffers or ():
        if count < len(buffer):
            yield memoryview(buffer)[count:] if count else buffer
        count = max(0, count - len(buffer))


def _resolve(waiters: list["asyncio.Future[None]"]) -> None:
    for future in waiters:
        if not future.done():
            future.set_result(None)


def write_backlog(
    writev: Callable[[Sequence[bytes | memoryview]], int], backlog: deque[bytes | memoryview]
) -> int:
    """Write what `writev` accepts now without blocking, and remove it from the backlog. Return the
    number of bytes. Raises BlockingIOError, or OSError if the other end is closed."""
    written = remaining = writev(tuple(islice(backlog, _MAX_BUFFERS)))
    while remaining:
        first = backlog.popleft()
        if remaining < len(first):
            backlog.appendleft(memoryview(first)[remaining:])
            break
        remaining -= len(first)
    return written
