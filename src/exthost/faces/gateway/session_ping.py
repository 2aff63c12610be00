"""Sends a ping to a session of the `mcp` package, in the name of its client.

The package expires a session for which it gets no requests, and tool calls bypass it. A call itself
is not left to the package for that: the package answers with an event stream, and some clients
refuse an event of more than 1 MiB.
"""

import asyncio
import itertools
from typing import Any

from exthost.faces.gateway.request_body import ReplayedBody
from exthost.faces.http_server.probes import App, Scope

__all__ = ["ping_session"]

# The package answers a ping itself, at once.
_PING_SECONDS = 5.0

# Of two requests with one id at the same time, the package answers only one.
_numbers = itertools.count(1)


async def ping_session(app: App, scope: Scope) -> bool:
    """Send a ping with the headers of this request to the package. Return whether it was answered:
    an unknown or expired session is refused."""
    # An id that no client uses for a request of its own.
    ping = b'{"jsonrpc":"2.0","id":"exthost/ping/%d","method":"ping"}' % next(_numbers)
    headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
    headers.append((b"content-length", str(len(ping)).encode()))
    status = 0

    async def keep_status(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]

    try:
        async with asyncio.timeout(_PING_SECONDS):
            await app({**scope, "headers": headers}, ReplayedBody(ping, _wait_for_end), keep_status)
    except TimeoutError:
        return False
    return status == 200


async def _wait_for_end() -> Any:
    """The client of the ping does not disconnect: the package cancels this with its response."""
    await asyncio.Event().wait()
