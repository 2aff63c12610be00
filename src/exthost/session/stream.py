"""The consumer's end of a stream: `async with ext.stream(…) as events: async for event in events`.

Events come in the order in which they were sent. Iteration ends with the stream; `result` is then
the reply or the last event, depending on the dialect. A stream that failed raises its error once,
after its last event. Leaving the block early cancels the stream.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any, Self

from exthost.dialects.streams import StreamKind
from exthost.errors import ExthostError, UsageError
from exthost.session.call import Call
from exthost.session.replies import StreamReply
from exthost.session.stream_queue import STREAM_EVENTS, StreamQueue


class EventStream(StreamQueue):
    """One stream, opened by `async with`. One consumer at a time.

    `open` submits the call that opens the stream; `close` gives it up if it has not ended.
    """

    __slots__ = ("_close", "_open", "_opened", "_waiter", "error", "result", "resume_reading")

    def __init__(
        self,
        kind: StreamKind,
        key: Any,
        *,
        open: Callable[["EventStream"], None],
        close: Callable[["EventStream"], None],
    ) -> None:
        super().__init__(kind, key)
        self.result: Any = None
        self.error: ExthostError | None = None
        # Not None while the child's output is not read because this queue is full.
        self.resume_reading: Callable[[], None] | None = None
        self._open = open
        self._close = close
        self._opened: asyncio.Future[None] | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        if self.kind.ends == "reply":
            self._open(self)
            return self
        self._opened = asyncio.get_running_loop().create_future()
        self._open(self)
        try:
            await self._opened
        except asyncio.CancelledError:  # the stream may be open, if it was just acknowledged
            self._leave()
            raise
        if self.error is not None and not self.acknowledged:
            error, self.error = self.error, None
            raise error
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._close(self)
        self.ended = True
        self.events.clear()
        self._resume_reading()

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
        if self.resume_reading is not None and len(self.events) <= STREAM_EVENTS // 2:
            self._resume_reading()
        return event

    # -- from the session ----------------------------------------------------------------------

    def push(self, event: Any, size: int) -> None:
        self.events.append((event, size))
        self.bytes += size
        self._wake(self._waiter)

    def acknowledge(self) -> None:
        """Let `async with` continue, because the child has accepted the stream."""
        self._wake(self._opened)

    def finish(self, result: Any) -> None:
        """End the stream with a result. The events in the queue are still delivered."""
        if not self.ended:
            self.ended = True
            self.result = result
            self._wake(self._opened)
            self._wake(self._waiter)

    def fail(self, error: ExthostError) -> None:
        """End the stream with an error, which is raised after the events in the queue."""
        if not self.ended:
            self.ended = True
            self.error = error
            self._wake(self._opened)
            self._wake(self._waiter)

    def _wake(self, waiter: "asyncio.Future[None] | None") -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _resume_reading(self) -> None:
        if self.resume_reading is not None:
            resume, self.resume_reading = self.resume_reading, None
            resume()


class StreamCall(Call):
    """The call that opens a stream. It ends when the stream ends.

    `timeout` limits the time until the reply. After an acknowledgement, `whole_seconds` limits the
    whole stream, from the beginning of the call, or with `from_acknowledgement` from the
    acknowledgement; None means no limit.
    """

    def __init__(
        self,
        method: str,
        params: Any,
        stream: EventStream,
        timeout: float,
        now: float,
        whole_seconds: float | None,
        *,
        from_acknowledgement: bool = False,
    ) -> None:
        super().__init__(method, params, StreamReply(stream), timeout, now)
        self.stream = stream
        self._whole_seconds = whole_seconds
        self._from_acknowledgement = from_acknowledgement
        stream.params = params
        stream.call = self

    def acknowledged(self, now: float) -> None:
        """Set the deadline of the whole stream, because the child has accepted the stream."""
        if self._whole_seconds is None:
            self.deadline = math.inf
        else:
            self.timeout = self._whole_seconds
            began = now if self._from_acknowledgement else self.started_at
            self.deadline = began + self._whole_seconds

    def deliver(self, value: Any) -> None:
        self.stream.finish(value)

    def reject(self, error: BaseException) -> None:
        assert isinstance(error, ExthostError)
        self.stream.fail(error)
