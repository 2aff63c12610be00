"""The protocol on streamable HTTP: who may connect, and where.

Only this machine unless a host is named, and only with the bearer token. Requests whose Host or
Origin is not ours are refused, so that a web page cannot reach us under a name of its own (DNS
rebinding). HTTP, sessions and authorization are the `mcp` package's and uvicorn's.
"""

import hmac
import socket

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl

from exthost.gateway.server import McpServer
from exthost.http_server.access import Access
from exthost.http_server.listener import names, url
from exthost.http_server.probes import Probes
from exthost.http_server.server import serve_app

PATH = "/mcp"

# As much as a line on stdio may hold.
MAX_REQUEST_BYTES = 64 * 2**20


class _Token:
    """Knows the one token there is."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token):
            return None
        return AccessToken(token=token, client_id="exthost", scopes=[])


async def serve(
    server: McpServer, listener: socket.socket, host: str, token: str, probes: Probes
) -> None:
    """Serve every client, until cancelled; `/healthz` and `/metrics` are answered by `probes`."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=_only_for(names(host)),
        max_request_body_size=MAX_REQUEST_BYTES,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(url(listener, host, PATH)), resource_server_url=None
        ),
        token_verifier=_Token(token),
    )
    await serve_app(probes.beside(app, Access(host, token)), listener, has_lifespan=True)


def _only_for(names: list[str]) -> TransportSecuritySettings:
    hosts = [shape for name in names for shape in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{host}" for host in hosts],
    )
