"""The body of an HTTP request: reads it, and gives it to another ASGI application afterwards.

The module knows nothing of what a body contains.
"""

from typing import Any

from exthost.faces.http_server.probes import Receive


class ReplayedBody:
    """The ASGI `receive` callable for the package, of a request whose body was read already."""

    __slots__ = ("_body", "_receive")

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> dict[str, Any]:
        if self._body is None:
            message: dict[str, Any] = await self._receive()
            return message
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def read_body(receive: Receive) -> bytes | None:
    """Return the body of a request, or None if the client disconnects before its end."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        return bytes(message.get("body", b""))
    chunks = []
    while message["type"] == "http.request":
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)
        message = await receive()
    return None
