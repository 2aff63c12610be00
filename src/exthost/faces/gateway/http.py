"""The HTTP transport of the gateway: serves MCP on streamable HTTP, and decides which clients can
connect.

Every request needs the bearer token. To prevent DNS rebinding, requests with a foreign `Host` or
`Origin` header are refused. Web pages of other origins may connect only if their origin is in
`origins`; they get CORS headers. A session without requests expires. The `mcp` package and uvicorn
implement HTTP, sessions and authorization.
"""

import socket
from collections.abc import Sequence

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.middleware.cors import CORSMiddleware

from exthost.faces.gateway.http_calls import HttpCalls
from exthost.faces.gateway.server import McpServer
from exthost.faces.http_server.access import Access
from exthost.faces.http_server.listener import allowed_host_headers, listener_url
from exthost.faces.http_server.probes import Probes
from exthost.faces.http_server.server import serve_app
from exthost.faces.http_server.token import Tokens

PATH = "/mcp"

# The same limit as for a line on stdio.
MAX_REQUEST_BYTES = 64 * 2**20

# A session without a request or an open stream for this long expires. A request with its id gets
# status 404, whereupon the client opens a new session.
SESSION_IDLE_SECONDS = 1800.0

# The maximum number of sessions; a request for one more gets status 503. Without a limit, a client
# that does not close its sessions could use up all memory before they expire.
MAX_SESSIONS = 2000

# The methods and headers that a page of an allowed origin may send, and the headers of a response
# that it may read.
_CORS_METHODS = ("GET", "POST", "DELETE")
_CORS_HEADERS = (
    "Accept", "Authorization", "Content-Type", "Last-Event-ID", "Mcp-Method", "Mcp-Name",
    "Mcp-Protocol-Version", "Mcp-Session-Id",
)  # fmt: skip
_CORS_EXPOSED_HEADERS = ("Mcp-Protocol-Version", "Mcp-Session-Id", "WWW-Authenticate")


class _TokenVerifier:
    """Checks tokens for the package. All valid tokens have the same `client_id`, so that a session
    stays valid when its client changes to a new token."""

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
    """Serve clients on the listening socket until cancelled. `host` is the host name or address
    that the socket was opened for. `probes` answers `/healthz` and `/metrics`. `origins` are the
    origins of web pages that may connect."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=_transport_security(allowed_host_headers(host), origins),
        max_request_body_size=MAX_REQUEST_BYTES,
        session_idle_timeout=SESSION_IDLE_SECONDS,
        max_sessions=MAX_SESSIONS,
        auth=AuthSettings(
            # The package requires the address of an issuer, but the operator issues the tokens.
            # Without a resource server, nothing refers clients to the issuer.
            issuer_url=AnyHttpUrl(listener_url(listener, host, PATH)),
            resource_server_url=None,
        ),
        token_verifier=_TokenVerifier(tokens),
    )
    if origins:
        # The middleware that is added last runs first. It must run before the token is checked,
        # because a CORS preflight request has no token.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=_CORS_METHODS,
            allow_headers=_CORS_HEADERS,
            expose_headers=_CORS_EXPOSED_HEADERS,
        )
    access = Access(host, tokens)
    gateway = server.gateway
    # Tool calls are handled before they reach the package, whose sessions take longer than a call.
    calls = HttpCalls(
        app, PATH, access, gateway.clients, gateway.answer_call, gateway.tools.input_schema
    )
    await serve_app(probes.wrap(calls, access), listener, access, has_lifespan=True)


def _transport_security(names: list[str], origins: Sequence[str]) -> TransportSecuritySettings:
    """Return the settings that allow only these host names, on any port, and these origins."""
    hosts = [pattern for name in names for pattern in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[*(f"http://{host}" for host in hosts), *origins],
    )
