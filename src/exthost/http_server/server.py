"""Runs uvicorn for the HTTP services, with limits that it lacks, and without its signal handlers.

A client without a token must not be able to exhaust the file descriptors of the host. So the number
of connections is limited, and a client has to send the head of a request (the request line and the
headers) before a deadline.
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

# How long open responses may continue after the server was stopped.
GRACE_SECONDS = 1

# A client that takes longer to send the head of a request is disconnected.
HEADER_SECONDS = 10.0

# A connection without a request is closed after this.
IDLE_SECONDS = 30

# The maximum number of open connections; further connections are closed. If the process may open
# few file descriptors, the maximum is half of them: the other half is reserved for extensions.
MAX_CONNECTIONS = 2048


class ServerWithoutSignals(uvicorn.Server):
    """A server without signal handlers: the command line handles signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class LimitedProtocol(H11Protocol):
    """The HTTP protocol of uvicorn, with a deadline for the head of a request and a limit of
    connections."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _max_connections():
            transport.abort()
        else:
            self._head_timer = self.loop.call_later(HEADER_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:  # the head is complete
            self._stop_timer()
        elif self._head_timer is None:  # the next request on this connection begins
            self._head_timer = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _max_connections() -> int:
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit < 0:  # RLIM_INFINITY
        return MAX_CONNECTIONS
    return max(8, min(MAX_CONNECTIONS, soft_limit // 2))


async def serve_app(app: Any, listener: socket.socket, *, has_lifespan: bool = False) -> None:
    """Serve an ASGI application on this listener, until the task is cancelled.

    `has_lifespan`: the application has startup and shutdown code, as ASGI lifespan events.
    """
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
