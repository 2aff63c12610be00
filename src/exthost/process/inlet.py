"""Our end of a child's stdin: written at once where the pipe has room, never waited for.

A lone message goes out in its caller's own step (`write`). Messages that come while others are
under way are gathered and go out together at the end of the loop's tick (`gather`). What the pipe
does not take stays here and follows when it can; a child that takes nothing for `patience`
seconds is reported as stalled, our loop never waits.

The caller holds `lock` around `write` and `gather`: the blocking face writes from other threads.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable

from exthost.process.outlet import widen

# A message that fills the default pipe would go over in many small steps; once widened, few.
WIDEN_FROM_BYTES = 64 * 1024

# So many messages go out in one write. More would be fewer writes, but the child would start on
# the first only when the last of a long tick is written, and we would wait for it in turn.
BATCH = 32

# Linux allows 1024 buffers in one writev; messages are mostly far fewer per tick.
_MOST_BUFFERS = 512


class Inlet:
    """A non-blocking writer to one pipe."""

    __slots__ = (
        "_backlog",
        "_broken",
        "_close",
        "_drained",
        "_fd",
        "_join",
        "_lock",
        "_loop",
        "_stalled",
        "_thread",
        "_timer",
        "_watching",
        "_wide",
        "gathered",
        "held",
        "patience",
    )

    def __init__(
        self,
        fd: int,
        loop: asyncio.AbstractEventLoop,
        lock: threading.Lock,
        *,
        patience: float,
        join: Callable[[list[bytes]], bytes],
        close: Callable[[], None],
        stalled: Callable[[], None],
        broken: Callable[[], None],
    ) -> None:
        os.set_blocking(fd, False)
        self._fd: int | None = fd
        self._loop = loop
        self._lock = lock
        self._thread = threading.get_ident()
        self.patience = patience
        self._join = join
        self._close = close
        self._stalled = stalled
        self._broken = broken
        self.gathered: list[bytes] = []
        self.held = 0  # bytes that the pipe has not taken yet
        self._backlog: deque[bytes | memoryview] | None = None
        self._drained: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._watching = False
        self._wide = False

    def write(self, data: bytes) -> None:
        """Write now what the pipe takes; the rest follows by itself."""
        if self._backlog or self.gathered or self._fd is None or len(data) > WIDEN_FROM_BYTES:
            self.write_parts(data)
            return
        try:
            done = os.write(self._fd, data)
        except BlockingIOError:
            done = 0
        except OSError:
            self._break()
            return
        if done != len(data):
            self._keep((data,), done)

    def write_parts(self, *parts: bytes) -> None:
        """The same for a message too large to be joined with its frame, and in every case."""
        if self._fd is None:
            return
        if self.gathered:  # those came first
            self._flush_now()
        if self._backlog:
            self._keep(parts)
            return
        size = sum(map(len, parts))
        if size > WIDEN_FROM_BYTES and not self._wide:
            self._wide = True
            widen(self._fd)
        try:
            done = os.writev(self._fd, parts)
        except BlockingIOError:
            done = 0
        except OSError:
            self._break()
            return
        if done != size:
            self._keep(parts, done)

    def write_locked(self, data: bytes) -> None:
        """Write, for a caller that does not hold the lock."""
        with self._lock:
            self.write(data)

    def gather(self, payload: bytes) -> None:
        """Write at the end of this tick, together with what else comes. Loop's thread only.

        Between the first and the last of a batch, payloads may be put straight into `gathered`."""
        self.gathered.append(payload)
        if len(self.gathered) == 1:
            self._loop.call_soon(self._flush)
        elif len(self.gathered) > BATCH:
            self._flush_now()

    async def drained(self) -> None:
        """Wait until the pipe has taken everything, or takes nothing any more. Loop's thread."""
        if self._backlog and self._fd is not None:
            future = self._loop.create_future()
            self._drained.append(future)
            await future

    def close(self) -> bool:
        """Close the pipe: the child reads end-of-file. False if unwritten bytes were dropped."""
        with self._lock:
            if self._fd is None:
                return True
            if self.gathered:  # said before the end of this tick: it still goes out if it can
                self._flush_now()
            clean = not self._backlog
            self._unwatch()
            self._backlog = None
            self.held = 0
            self._fd = None
            self._close()
            return clean

    def _flush(self) -> None:
        with self._lock:
            if self.gathered:
                self._flush_now()

    def _flush_now(self) -> None:
        data = self._join(self.gathered)
        self.gathered.clear()
        self.write(data)

    def _keep(self, buffers: tuple[bytes, ...], done: int = 0) -> None:
        """Remember what was not written yet, in order."""
        if self._backlog is None:
            self._backlog = deque()
        for buffer in buffers:
            if done >= len(buffer):
                done -= len(buffer)
                continue
            self._backlog.append(memoryview(buffer)[done:] if done else buffer)
            self.held += len(buffer) - done
            done = 0
        if not self._watching:
            self._watching = True
            if threading.get_ident() == self._thread:
                self._watch()
            else:
                self._loop.call_soon_threadsafe(self._watch)

    def _watch(self) -> None:
        if self._fd is not None and self._backlog:
            self._loop.add_writer(self._fd, self._writable)
            self._timer = self._loop.call_later(self.patience, self._give_up)

    def _unwatch(self) -> None:
        if self._drained:
            waiting, self._drained = self._drained, []
            self._loop.call_soon_threadsafe(_tell, waiting)
        if self._watching and self._fd is not None:
            self._watching = False
            self._loop.remove_writer(self._fd)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _writable(self) -> None:
        with self._lock:
            if self._fd is None or not self._backlog:
                self._unwatch()
                return
            buffers = [self._backlog[i] for i in range(min(len(self._backlog), _MOST_BUFFERS))]
            try:
                done = os.writev(self._fd, buffers)
            except BlockingIOError:
                return
            except OSError:
                self._break()
                return
            self._advance(done)
            if not self._backlog:
                self._unwatch()
            elif self._timer is not None:  # it reads, if slowly: its patience starts anew
                self._timer.cancel()
                self._timer = self._loop.call_later(self.patience, self._give_up)

    def _advance(self, done: int) -> None:
        assert self._backlog is not None
        self.held -= done
        while done:
            first = self._backlog.popleft()
            if done < len(first):
                self._backlog.appendleft(memoryview(first)[done:])
                return
            done -= len(first)

    def _give_up(self) -> None:
        self._timer = None
        self._stalled()

    def _break(self) -> None:
        """The child closed its stdin or is gone; whoever watches the process will know which."""
        self._unwatch()
        self._backlog = None
        self.held = 0
        self.gathered.clear()
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self._broken)
        else:
            self._loop.call_soon_threadsafe(self._broken)


def _tell(waiting: list["asyncio.Future[None]"]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
