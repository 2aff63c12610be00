"""The HTTP response of the gateway to one tool call of an MCP client: a JSON body, or a stream of
server-sent events if needed.

A stream is needed if messages (progress, or a request to the client) are sent before the result, or
if the call takes long: comments in the stream then keep proxies from closing an idle connection.
`http_calls` makes one `CallResponse` for each call.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import mcp_types as types

from exthost.faces.http_server.asgi import Send
from exthost.wire import jsontext

# If a call has no result after this time, its response becomes a stream. A comment is sent then,
# and again each time this time has passed.
COMMENT_SECONDS = 10.0

_EVENT_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),  # nginx would collect events before it passes them on
)


class CallResponse:
    """One response. `send` is the ASGI callable; `headers` are added to the standard headers."""

    def __init__(self, send: Send, *headers: tuple[bytes, bytes]) -> None:
        self._send = send
        self._headers = headers
        self._lock = asyncio.Lock()
        self._is_streaming = False
        self._is_ended = False
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(COMMENT_SECONDS, self._start_comment)
        self._comment_task: asyncio.Task[None] | None = None

    async def notify(self, notification: types.ServerNotification) -> None:
        """Send a notification before the reply."""
        message = notification.model_dump(by_alias=True, mode="json", exclude_none=True)
        await self.send({"jsonrpc": "2.0", **message})

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message before the reply."""
        await self._send_part(_encode_event(jsontext.encode(message)))

    async def end(self, body: bytes, status: int) -> None:
        """Send the reply and finish the response. The HTTP status is used only if the response is
        not a stream yet; a stream has begun with status 200."""
        self._timer.cancel()
        async with self._lock:
            self._is_ended = True
            if self._is_streaming:
                await self._send({"type": "http.response.body", "body": _encode_event(body)})
                return
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                *self._headers,
            ]
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
            await self._send({"type": "http.response.body", "body": body})

    def close(self) -> None:
        """Stop the timer and cancel a comment that is being sent. The response stays unfinished:
        later messages are dropped."""
        self._is_ended = True
        self._timer.cancel()
        if self._comment_task is not None:
            self._comment_task.cancel()

    def _start_comment(self) -> None:
        self._timer = self._loop.call_later(COMMENT_SECONDS, self._start_comment)
        self._comment_task = self._loop.create_task(self._send_part(b": still running\r\n\r\n"))

    async def _send_part(self, data: bytes) -> None:
        async with self._lock:
            if self._is_ended:  # a late notification or comment
                return
            if not self._is_streaming:
                self._is_streaming = True
                headers = [*_EVENT_HEADERS, *self._headers]
                await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send({"type": "http.response.body", "body": data, "more_body": True})


def _encode_event(message: bytes) -> bytes:
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"
