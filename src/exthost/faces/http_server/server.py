"""Runs uvicorn for the HTTP services of a host (the web page and the MCP gateway), with limits that
uvicorn lacks, and without its signal handlers.

A client without a token must not be able to exhaust the file descriptors of the host, nor to keep
out clients that have one. So the number of connections is limited, and most of the places are
reserved for connections that have sent a request with the token (`connection_limit`). A client has
to send the head of a request (the request line and the headers) before a deadline, and its body
before another.
"""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from exthost.faces.http_server import asgi
from exthost.faces.http_server.access import Access
from exthost.model.connection_limit import ConnectionLimit, peer_of

# How long open responses may continue after the server was stopped.
GRACE_SECONDS = 1

# A client that takes longer to send the head of a request is disconnected.
HEADER_SECONDS = 10.0

# A client that takes longer to send the body of a request is disconnected. 16 MiB take that long at
# about 2 Mbit/s.
BODY_SECONDS = 60.0

# A connection without a request is closed after this.
IDLE_SECONDS = 30

# The maximum number of open connections. If the process may open few file descriptors, the maximum
# is half of them: the other half is reserved for extensions.
MAX_CONNECTIONS = 2048

# As long as there is room, a new connection has this time to send a request with the token. Only
# then is it counted as one without a token, because a client with many connections may open all of
# them before it sends the first request.
ARRIVAL_SECONDS = 10.0

# Strangers are connections without a token. At most a quarter of all connections may be strangers,
# and at most half of these may come from one peer.
_STRANGERS_PART = 4
_PEER_PART = 2

# How many connections are accepted in one iteration of the event loop, before the limit applies.
_ACCEPTED_AT_ONCE = 64


class ServerWithoutSignals(uvicorn.Server):
    """A server without signal handlers: the command line handles signals."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # asyncio has one number for the connections that wait in the kernel and for those that are
        # accepted at once. Few are accepted at once, and many may wait.
        for listener in sockets or ():
            listener.listen(MAX_CONNECTIONS)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class LimitedProtocol(H11Protocol):
    """The HTTP protocol of uvicorn, with deadlines for the head and the body of a request and a
    limit of connections. `serve_app` derives a class for each service, with its own limit and its
    own tokens."""

    limit: "ConnectionLimit[LimitedProtocol]"
    # The connections that are not counted yet, oldest first, each with the timer that counts it.
    arriving: "dict[LimitedProtocol, asyncio.TimerHandle]"
    has_token: Callable[[Mapping[str, str]], bool]

    _is_authenticated = False
    _has_sent_data = False  # whether the client has sent anything
    _timer: asyncio.TimerHandle | None = None
    _timed_state: Any = None  # the state of h11 in which the client has to send something

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer(h11.IDLE, HEADER_SECONDS)
        self.arriving[self] = self.loop.call_later(ARRIVAL_SECONDS, self._count)
        while self.arriving and len(self.arriving) + len(self.limit) > self.limit.max_connections:
            next(iter(self.arriving))._count()

    def _count(self) -> None:
        """Count this connection, and close another one if there are too many."""
        timer = self.arriving.pop(self, None)
        if timer is None:
            return
        timer.cancel()
        closed = self.limit.admit(self, peer_of(self.transport.get_extra_info("peername")))
        if closed is not None:
            closed.transport.abort()
        if self._has_sent_data:
            self.limit.mark_active(self)

    def data_received(self, data: bytes) -> None:
        """Handle data of the client. Note whether it has sent a token, and set the deadline for
        what it has to send next."""
        if not self._is_authenticated:
            self._has_sent_data = True
            self.limit.mark_active(self)
        super().data_received(data)
        if not self._is_authenticated and self.scope is not None:
            self._is_authenticated = self.has_token(asgi.decode_headers(dict(self.scope)))
            if self._is_authenticated:
                self._count()
                self.limit.authenticate(self)
        if self.conn.their_state is h11.IDLE:  # a request has begun, and its head is not complete
            self._start_timer(h11.IDLE, HEADER_SECONDS)
        elif self.conn.their_state is not h11.SEND_BODY:  # the request is complete
            self._stop_timer()
        else:
            self._start_timer(h11.SEND_BODY, BODY_SECONDS)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # The next request may have come together with the last one.
        if self.conn.their_state is h11.SEND_BODY:
            self._start_timer(h11.SEND_BODY, BODY_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if (timer := self.arriving.pop(self, None)) is not None:
            timer.cancel()
        self.limit.remove(self)
        super().connection_lost(exc)

    def _start_timer(self, state: Any, seconds: float) -> None:
        """Disconnect the client unless it leaves this state in time. If the timer of this state
        runs already, it goes on."""
        if self._timed_state is not state:
            self._stop_timer()
            self._timed_state = state
            self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        self._timed_state = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _max_connections() -> int:
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit < 0:  # RLIM_INFINITY
        return MAX_CONNECTIONS
    return max(8, min(MAX_CONNECTIONS, soft_limit // 2))


def _make_limit() -> ConnectionLimit[LimitedProtocol]:
    max_connections = _max_connections()
    max_strangers = max(2, max_connections // _STRANGERS_PART)
    return ConnectionLimit(max_connections, max_strangers, max(1, max_strangers // _PEER_PART))


async def serve_app(
    app: Any, listener: socket.socket, access: Access, *, has_lifespan: bool = False
) -> None:
    """Serve an ASGI application on this listener, until the task is cancelled.

    `access` decides which requests have the token; the application itself must refuse the others.
    `has_lifespan`: the application has startup and shutdown code, as ASGI lifespan events.
    """
    members = {"limit": _make_limit(), "arriving": {}, "has_token": staticmethod(access.has_token)}
    config = uvicorn.Config(
        refuse_repeated_headers(app),
        log_config=None,
        access_log=False,
        lifespan="on" if has_lifespan else "off",
        ws="none",
        http=type("Protocol", (LimitedProtocol,), members),
        backlog=_ACCEPTED_AT_ONCE,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = ServerWithoutSignals(config)
    serving = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
    try:
        # Shielded, so that a cancellation lets the server complete its responses.
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await asyncio.wait([serving])
        raise


BAD_REQUEST = 400

# Headers that the access rules read (`access.Access`).
_SINGLE_HEADERS = (b"authorization", b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode")


def refuse_repeated_headers(app: asgi.App) -> asgi.App:
    """Return an ASGI application that answers a request with 400 if a header that decides about
    access occurs more than once, and passes all others to `app`. Of two `Authorization` headers,
    some programs use the first and others the last, so a proxy could check the wrong one."""

    async def answer(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        if scope["type"] == "http":
            names = [name.lower() for name, _ in scope["headers"]]
            for header in _SINGLE_HEADERS:
                if names.count(header) > 1:
                    reason = b"the header " + header + b" occurs more than once"
                    await asgi.send_response(send, BAD_REQUEST, "text/plain", reason)
                    return
        await app(scope, receive, send)

    return answer
