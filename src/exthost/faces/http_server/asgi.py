"""ASGI, the interface between the HTTP server uvicorn and the applications of exthost (the web page
and the gateway): its types, and functions that read headers and send responses."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

from exthost.faces.http_server.access import UNAUTHORIZED

# The description of a request, the functions that receive and send its messages, and an
# application that handles it.
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def decode_headers(scope: Scope) -> Mapping[str, str]:
    """Return the headers of an ASGI request, by their names in lower case. The values of a header
    that occurs several times are joined with commas."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def send_response(send: Send, status: int, content_type: str, body: bytes) -> None:
    """Send a whole response."""
    headers = [
        (b"content-type", content_type.encode("latin-1")),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if status == UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
