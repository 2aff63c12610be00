"""uvicorn for every HTTP service: with limits that it lacks, and without its signal handlers.

A client without a token must not be able to take every descriptor of the host: the head of a
request has a deadline, and the number of connections a limit.
"""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

# How long open streams may last after the server was told to stop.
GRACE_SECONDS = 1

# A client that takes longer to send the head of a request is cut off.
HEADER_SECONDS = 10.0

# A connection without a request is closed after this.
IDLE_SECONDS = 30

# The number of connections at a time, if descriptors allow it; further ones are closed. Half of the
# descriptors stay for extensions.
MAX_CONNECTIONS = 2048


class ServerWithoutSignals(uvicorn.Server):
    """A server that leaves signals to the command line."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class LimitedProtocol(H11Protocol):
    """HTTP with a deadline for the head of a request and a limit of connections."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _max_connections():
            transport.abort()
        else:
            self._head_timer = self.loop.call_later(HEADER_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._head_timer is None:  # the next request on this connection
            self._head_timer = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _max_connections() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft < 0 else max(8, min(MAX_CONNECTIONS, soft // 2))


async def serve_app(app: Any, listener: socket.socket, *, has_lifespan: bool = False) -> None:
    """Serve an ASGI application to every client, until cancelled."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on" if has_lifespan else "off",
        ws="none",
        http=LimitedProtocol,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = ServerWithoutSignals(config)
    serving = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await asyncio.wait([serving])
        raise
