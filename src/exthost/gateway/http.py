"""The protocol on streamable HTTP: who may connect, and where.

Only this machine unless a host is named, and only with the bearer token. Requests whose Host or
Origin is not ours are refused, so that a web page cannot reach us under a name of its own (DNS
rebinding). Web pages of other origins can use it if their origin is on a list: they are answered
by the rules of CORS. A session without requests expires. HTTP, sessions and authorization are the
`mcp` package's and uvicorn's.
"""

import socket
from collections.abc import Sequence

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.middleware.cors import CORSMiddleware

from exthost.gateway.http_calls import HttpCalls
from exthost.gateway.server import McpServer
from exthost.http_server.access import Access
from exthost.http_server.listener import allowed_host_headers, listener_url
from exthost.http_server.probes import Probes
from exthost.http_server.server import serve_app
from exthost.http_server.token import Tokens

PATH = "/mcp"

# As much as a line on stdio may hold.
MAX_REQUEST_BYTES = 64 * 2**20

# A session without a request or an open stream for this long is forgotten: its id gets 404, and its
# client opens a new one.
SESSION_IDLE_SECONDS = 1800.0

# Sessions at a time; a request for one more gets 503. A client that forgets its sessions cannot
# take all memory before they expire.
MAX_SESSIONS = 2000

# What a page of an allowed origin may send, and what it may read of an answer.
_CORS_METHODS = ("GET", "POST", "DELETE")
_CORS_HEADERS = (
    "Accept", "Authorization", "Content-Type", "Last-Event-ID", "Mcp-Method", "Mcp-Name",
    "Mcp-Protocol-Version", "Mcp-Session-Id",
)  # fmt: skip
_CORS_EXPOSED = ("Mcp-Protocol-Version", "Mcp-Session-Id", "WWW-Authenticate")


class _Verifier:
    """Judges tokens for the package. All clients are one owner of sessions: a session goes on when
    its client changes from one valid token to another."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        if not self._tokens.is_valid(token):
            return None
        return AccessToken(token=token, client_id="exthost", scopes=[])


async def serve(
    server: McpServer,
    listener: socket.socket,
    host: str,
    tokens: Tokens,
    probes: Probes,
    *,
    origins: Sequence[str] = (),
) -> None:
    """Serve every client, until cancelled; `/healthz` and `/metrics` are answered by `probes`.
    `origins` are those of web pages that may use it."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=_only_for(allowed_host_headers(host), origins),
        max_request_body_size=MAX_REQUEST_BYTES,
        session_idle_timeout=SESSION_IDLE_SECONDS,
        max_sessions=MAX_SESSIONS,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(listener_url(listener, host, PATH)), resource_server_url=None
        ),
        token_verifier=_Verifier(tokens),
    )
    if origins:
        # Added last, it is asked first: the request before the request has no token.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=_CORS_METHODS,
            allow_headers=_CORS_HEADERS,
            expose_headers=_CORS_EXPOSED,
        )
    access = Access(host, tokens)
    gateway = server.gateway
    calls = HttpCalls(
        app, PATH, access, gateway.clients, gateway.answer_call, gateway.tools.input_schema
    )
    await serve_app(probes.wrap(calls, access), listener, has_lifespan=True)


def _only_for(names: list[str], origins: Sequence[str]) -> TransportSecuritySettings:
    hosts = [shape for name in names for shape in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[*(f"http://{host}" for host in hosts), *origins],
    )
