"""A response that is a stream of events, as `text/event-stream` has them.

Its producer is an asynchronous iterator of values. It is closed when the browser goes away or the
host ends, whatever it waits for at that moment. A browser that does not read delays its own
producer and nothing else.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from exthost.web.page_values import to_json


class OpenStreams:
    """The streams that are open, so that the end of the host can end them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """End every stream."""
        for task in self._tasks:
            task.cancel()


class EventStream(Response):
    """A response of events. Each value of `events` is one."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[Any, None], streams: OpenStreams) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._events = events
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(head)
        loop = asyncio.get_running_loop()
        sending = loop.create_task(self._send_events(send))
        leaving = loop.create_task(_until_left(receive))
        self._streams.add(sending)
        try:
            await asyncio.wait({sending, leaving}, return_when="FIRST_COMPLETED")
        finally:
            has_left = leaving.done()
            sending.cancel()
            leaving.cancel()
            await asyncio.wait({sending, leaving})
        if not has_left:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        if not sending.cancelled():
            sending.result()

    async def _send_events(self, send: Send) -> None:
        async with aclosing(self._events) as events:
            async for event in events:
                body = b"data: " + to_json(event) + b"\n\n"
                await send({"type": "http.response.body", "body": body, "more_body": True})


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
