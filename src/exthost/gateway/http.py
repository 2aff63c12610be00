"""The protocol on streamable HTTP: who may connect, and where.

Only this machine unless a host is named, and only with the bearer token. Requests whose Host or
Origin is not ours are refused, so that a web page cannot reach us under a name of its own (DNS
rebinding). HTTP, sessions and authorization are the `mcp` package's and uvicorn's.
"""

import asyncio
import contextlib
import hmac
import ipaddress
import resource
import socket
from collections.abc import Iterator

import h11
import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from uvicorn.protocols.http.h11_impl import H11Protocol

from exthost.errors import UsageError
from exthost.gateway.server import McpServer

PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "::1")

# Streams that clients hold open are cut after this when we end.
GRACE_SECONDS = 1

# As much as a line on stdio may hold.
MAX_REQUEST_BYTES = 64 * 2**20


# A client that takes longer to send the head of a request is cut off.
HEADER_SECONDS = 10.0

# The number of connections at a time, if descriptors allow it; further ones are closed. Half of the
# descriptors stay for extensions.
MAX_CONNECTIONS = 512


class _Token:
    """Knows the one token there is."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token):
            return None
        return AccessToken(token=token, client_id="exthost", scopes=[])


class _Uvicorn(uvicorn.Server):
    """Signals are the command line's business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Protocol(H11Protocol):
    """HTTP with a deadline for the head of a request and a limit of connections, which uvicorn
    lacks: a client without a token could take every descriptor of the host."""

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
        elif self._head_timer is None:  # the first part of a further head
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


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one."""
    try:
        if not 0 <= port < 2**16:  # the system would take it modulo that
            raise OverflowError("there is no such port")
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        raise UsageError(
            "X1365",
            f"cannot listen on {host} port {port}: {error}",
            help="choose another port, or 0 for any that is free",
        ) from None


def url(listener: socket.socket, host: str) -> str:
    """Where a client on this machine finds us."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}{PATH}"


async def serve(server: McpServer, listener: socket.socket, host: str, token: str) -> None:
    """Serve every client, until cancelled."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=_only_for(names(host)),
        max_request_body_size=MAX_REQUEST_BYTES,
        auth=AuthSettings(issuer_url=AnyHttpUrl(url(listener, host)), resource_server_url=None),
        token_verifier=_Token(token),
    )
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        http=_Protocol,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    uvicorn_server = _Uvicorn(config)
    serving = asyncio.get_running_loop().create_task(uvicorn_server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        uvicorn_server.should_exit = True
        await asyncio.wait([serving])
        raise


def names(host: str) -> list[str]:
    """Under which names we may be asked for, when bound to this host."""
    found = dict.fromkeys((*LOOPBACK, host))
    if host not in LOOPBACK:
        found[socket.gethostname()] = None
    if _is_every_address(host):
        with contextlib.suppress(OSError):
            for *_, address in socket.getaddrinfo(socket.gethostname(), None):
                found[str(address[0]).partition("%")[0]] = None
    return [f"[{name}]" if ":" in name else name for name in found]


def _is_every_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _only_for(names: list[str]) -> TransportSecuritySettings:
    hosts = [shape for name in names for shape in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{host}" for host in hosts],
    )
