"""An HTTP response that is a stream of server-sent events (`text/event-stream`), by which the web
page of a host is kept up to date.

The events come from an asynchronous generator. It is closed when the browser disconnects or the
host ends, even while it waits. A browser that does not read delays only its own generator
(back-pressure).
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from exthost.faces.web.page_values import to_json


class OpenStreams:
    """The tasks of the open streams, so that they can be ended when the host ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: "asyncio.Task[None]") -> None:
        """Remember a task until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """End every stream."""
        for task in self._tasks:
            task.cancel()


class EventStreamResponse(Response):
    """A response whose events are the values of the generator `events`, as JSON."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[Any, None], streams: OpenStreams) -> None:
        super().__init__()
        del self.headers["content-length"]  # the length is not known
        self._events = events
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the generator ends, the browser disconnects, or the host ends."""
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(head)
        loop = asyncio.get_running_loop()
        send_task = loop.create_task(self._send_events(send))
        disconnect_task = loop.create_task(_wait_for_disconnect(receive))
        self._streams.add(send_task)
        try:
            await asyncio.wait({send_task, disconnect_task}, return_when="FIRST_COMPLETED")
        finally:
            is_disconnected = disconnect_task.done()
            send_task.cancel()
            disconnect_task.cancel()
            await asyncio.wait({send_task, disconnect_task})
        if not is_disconnected:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        if not send_task.cancelled():
            send_task.result()  # raises the error of the generator, if it failed

    async def _send_events(self, send: Send) -> None:
        async with aclosing(self._events) as events:
            async for event in events:
                body = b"data: " + to_json(event) + b"\n\n"
                await send({"type": "http.response.body", "body": body, "more_body": True})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
