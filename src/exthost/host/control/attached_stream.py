"""A stream of events of an extension that runs in the host of another process.

The host reads the stream from the extension, and sends the events over the control socket.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any, Self

from exthost.errors import ExthostError, UsageError

# The most events that wait to be read. A stream in the host's own process has the same limit.
MAX_EVENTS = 4096


class AttachedStream:
    """An asynchronous iterator over events as data. After the last event, `result` is the result of
    the stream."""

    def __init__(self) -> None:
        self.result: Any = None
        self._events: deque[Mapping[str, Any]] = deque()
        self._arrived = asyncio.Event()
        self._call: asyncio.Task[Any] | None = None
        self._has_overflowed = False

    def start(self, call: Coroutine[Any, Any, Any]) -> None:
        """Run this call, which requests the stream and returns its result, in a task."""
        self._call = asyncio.get_running_loop().create_task(call)
        self._call.add_done_callback(lambda _: self._arrived.set())

    def push(self, event: Mapping[str, Any]) -> None:
        """Add an event that the host sent. Cancel the stream if too many events wait to be read."""
        if event["kind"] != "stream":
            return
        if len(self._events) >= MAX_EVENTS and self._call is not None:
            self._has_overflowed = True
            self._call.cancel()
            return
        self._events.append({"type": event["type"], "data": event["data"]})
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Mapping[str, Any]:
        assert self._call is not None
        while not self._events:
            if self._call.done():
                self._finish(self._call)
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._events.popleft()

    def _finish(self, call: "asyncio.Task[Any]") -> None:
        if self._has_overflowed:
            raise UsageError(
                "X1380",
                f"the stream was given up: {MAX_EVENTS:,} events waited to be read",
                help="read the events of a stream as they come",
            )
        self.result = call.result()["raw"]

    async def close(self) -> None:
        """Close the stream. If it has not ended, it is cancelled."""
        assert self._call is not None
        self._call.cancel()
        try:
            await self._call
        except (asyncio.CancelledError, ExthostError):
            pass  # the iteration has already raised it, or the caller left the block early
