"""The consumer's end of a stream: `async with ext.stream(…) as events: async for event in events`.

A stream is a call with many results, its events, such as the parts of a model's answer. In some
dialects (protocols) the events come before the reply; in others the reply only acknowledges the
stream, and the events follow. Events come in the order in which they were sent. Iteration ends with
the stream; `result` is then the reply or the last event, depending on the dialect. A stream that
failed raises its error once, after its last event. Leaving the block early cancels the stream.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any, Self

from exthost.dialects.streams import StreamKind
from exthost.errors import ExthostError, UsageError
from exthost.session.call import Call
from exthost.session.replies import StreamHandler
from exthost.session.stream_queue import STREAM_EVENTS, StreamQueue


class EventStream(StreamQueue):
    """One stream, opened by `async with`. Only one task may read it at a time.

    result          the reply or the last event; None until the stream has ended
    error           the error that the stream ended with; None after it was raised
    resume_reading  resumes reading the child's output; None unless the reading is paused because
                    this queue was full
    """

    __slots__ = (
        "_close",
        "_event_waiter",
        "_open",
        "_open_waiter",
        "error",
        "result",
        "resume_reading",
    )

    def __init__(
        self,
        kind: StreamKind,
        key: Any,
        *,
        open: Callable[["EventStream"], None],
        close: Callable[["EventStream"], None],
    ) -> None:
        """`open` submits the call that opens the stream; `close` gives that call up if it has not
        ended."""
        super().__init__(kind, key)
        self.result: Any = None
        self.error: ExthostError | None = None
        self.resume_reading: Callable[[], None] | None = None
        self._open = open
        self._close = close
        self._open_waiter: asyncio.Future[None] | None = None
        self._event_waiter: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        if self.kind.ends == "reply":  # the events come before the reply, without acknowledgement
            self._open(self)
            return self
        self._open_waiter = asyncio.get_running_loop().create_future()
        self._open(self)
        try:
            await self._open_waiter
        except asyncio.CancelledError:  # `__aexit__` will not run
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
        self.bytes = 0
        self._wake(self._event_waiter)  # of another task, which reads until the end
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
            if self._event_waiter is not None:
                raise UsageError("X1305", "two tasks read from one stream at the same time")
            self._event_waiter = asyncio.get_running_loop().create_future()
            try:
                await self._event_waiter
            finally:
                self._event_waiter = None
        event, size = self.events.popleft()
        self.bytes -= size
        self.delivered = True
        # At half, not at the first free place: otherwise reading would stop again at once.
        is_half_empty = len(self.events) <= STREAM_EVENTS // 2 and self.bytes <= self.max_bytes // 2
        if self.resume_reading is not None and is_half_empty:
            self._resume_reading()
        return event

    # -- from the session ----------------------------------------------------------------------

    def push(self, event: Any, size: int) -> None:
        """Add an event, which arrived in a frame of `size` bytes."""
        self.events.append((event, size))
        self.bytes += size
        self._wake(self._event_waiter)

    def acknowledge(self) -> None:
        """Let `async with` continue, because the child has accepted the stream, and the session has
        set `acknowledged`."""
        self._wake(self._open_waiter)

    def finish(self, result: Any) -> None:
        """End the stream with a result. The events in the queue are still delivered."""
        if not self.ended:
            self.ended = True
            self.result = result
            self._wake(self._open_waiter)
            self._wake(self._event_waiter)

    def fail(self, error: ExthostError) -> None:
        """End the stream with an error, which is raised after the events in the queue."""
        if not self.ended:
            self.ended = True
            self.error = error
            self._wake(self._open_waiter)
            self._wake(self._event_waiter)

    def _wake(self, waiter: "asyncio.Future[None] | None") -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _resume_reading(self) -> None:
        if self.resume_reading is not None:
            resume, self.resume_reading = self.resume_reading, None
            resume()


class StreamCall(Call):
    """The call that opens a stream. It ends when the stream ends.

    `timeout` limits the time until the reply. After an acknowledgement, `max_stream_seconds`
    limits the whole stream; None means no limit. That time begins with the call; if
    `from_acknowledgement` is true, with the acknowledgement.
    """

    def __init__(
        self,
        method: str,
        params: Any,
        stream: EventStream,
        timeout: float,
        now: float,
        max_stream_seconds: float | None,
        *,
        from_acknowledgement: bool = False,
    ) -> None:
        super().__init__(method, params, StreamHandler(stream), timeout, now)
        self.stream = stream
        self._max_stream_seconds = max_stream_seconds
        self._limit_from_acknowledgement = from_acknowledgement
        stream.params = params
        stream.call = self

    def acknowledged(self, now: float) -> None:
        """Set the deadline of the whole stream, because the child has accepted the stream."""
        if self._max_stream_seconds is None:
            self.deadline = math.inf
        else:
            self.timeout = self._max_stream_seconds
            limit_began_at = now if self._limit_from_acknowledgement else self.started_at
            self.deadline = limit_began_at + self._max_stream_seconds

    def deliver(self, value: Any) -> None:
        self.stream.finish(value)

    def reject(self, error: BaseException) -> None:
        assert isinstance(error, ExthostError)
        self.stream.fail(error)
