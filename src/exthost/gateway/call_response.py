"""The response to one tool call on HTTP: a JSON body, or a stream of events if one is needed.

A stream is needed for messages before the result, and for a call that takes long: comments keep its
connection open where something between cuts idle ones.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import mcp_types as types

from exthost.http_server.probes import Send
from exthost.wire import jsontext

__all__ = ["CallResponse"]

# A call without a result for this long is answered by a stream, with a comment each time.
COMMENT_SECONDS = 10.0

_EVENT_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)


class CallResponse:
    """The response; `headers` are added to those that every response has."""

    def __init__(self, send: Send, *headers: tuple[bytes, bytes]) -> None:
        self._send = send
        self._headers = headers
        self._lock = asyncio.Lock()
        self._is_started = False
        self._is_ended = False
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(COMMENT_SECONDS, self._comment)
        self._commenting: asyncio.Task[None] | None = None

    async def notify(self, notification: types.ServerNotification) -> None:
        """Send a notification."""
        message = notification.model_dump(by_alias=True, mode="json", exclude_none=True)
        await self.send({"jsonrpc": "2.0", **message})

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message before the reply."""
        await self._part(_event(jsontext.encode(message)))

    async def end(self, body: bytes, status: int) -> None:
        """Send the reply. Its status is that of the response if that is not a stream yet."""
        self._timer.cancel()
        async with self._lock:
            self._is_ended = True
            if self._is_started:
                await self._send({"type": "http.response.body", "body": _event(body)})
                return
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                *self._headers,
            ]
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
            await self._send({"type": "http.response.body", "body": body})

    def close(self) -> None:
        """Send nothing more."""
        self._timer.cancel()
        if self._commenting is not None:
            self._commenting.cancel()

    def _comment(self) -> None:
        self._timer = self._loop.call_later(COMMENT_SECONDS, self._comment)
        self._commenting = self._loop.create_task(self._part(b": still running\r\n\r\n"))

    async def _part(self, data: bytes) -> None:
        async with self._lock:
            if self._is_ended:  # a notification or a comment that comes too late
                return
            if not self._is_started:
                self._is_started = True
                headers = [*_EVENT_HEADERS, *self._headers]
                await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send({"type": "http.response.body", "body": data, "more_body": True})


def _event(message: bytes) -> bytes:
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"
