"""The consumer's end of a stream: `async with ext.stream(…) as events: async for event in events`.

Events come in the order they were sent. Iteration ends with the stream; `result` is then the
reply, or the terminal event, as the dialect has it. Leaving early tells the child in its own
words, where it has some. A stream that broke raises what broke it, once, after its last event.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self

from exthost.dialects.dialect import StreamKind
from exthost.errors import ExthostError, UsageError
from exthost.session.state import STREAM_EVENTS, StreamQueue


class EventStream(StreamQueue):
    """One stream, opened by `async with`. One consumer at a time."""

    __slots__ = ("_close", "_open", "_resume", "_waiter", "error", "paused", "result")

    def __init__(
        self,
        kind: StreamKind,
        key: Any,
        *,
        open: Callable[["EventStream"], Any],
        close: Callable[["EventStream"], None],
    ) -> None:
        super().__init__(kind, key)
        self.result: Any = None
        self.error: ExthostError | None = None
        self.paused: Callable[[], None] | None = None  # set while the child is left unread for us
        self._open = open
        self._close = close
        self._waiter: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        await self._open(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close(self)
        self.ended = True
        self.events.clear()
        self._read_on()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while not self.events:
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            if self.ended:
                raise StopAsyncIteration
            if self._waiter is not None:
                raise UsageError("X1305", "two tasks read from one stream at the same time")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        event, size = self.events.popleft()
        self.bytes -= size
        self.delivered = True
        if self.paused is not None and len(self.events) <= STREAM_EVENTS // 2:
            self._read_on()
        return event

    def push(self, event: Any, size: int) -> None:
        self.events.append((event, size))
        self.bytes += size
        self._wake()

    def finish(self, result: Any) -> None:
        """No more events will come; those queued are still delivered."""
        if not self.ended:
            self.ended = True
            self.result = result
            self._wake()

    def fail(self, error: ExthostError) -> None:
        if not self.ended:
            self.ended = True
            self.error = error
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _read_on(self) -> None:
        if self.paused is not None:
            resume, self.paused = self.paused, None
            resume()
