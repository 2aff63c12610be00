"""Tests of the gateway on HTTP in the test process: expiry and maximum number of sessions, requests
of web pages, and tokens that change.

The gateway is an MCP server in front of extensions. A client of the era with a handshake has a
session, whose id it sends in the header Mcp-Session-Id.
"""

import argparse
import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from exthost.faces.cli.mcp_service import read_origin
from exthost.faces.gateway import http
from exthost.faces.http_server.listener import listen, listener_url
from exthost.faces.http_server.metrics import Metrics
from exthost.faces.http_server.probes import Probes
from exthost.faces.http_server.token import Token, Tokens
from tests.dialects.requirements import shows
from tests.faces.cli.cli_process import RUN_SECONDS
from tests.faces.cli.cli_process import run_inside as run
from tests.faces.gateway.gateway_process import open_gateway
from tests.faces.gateway.test_http import ACCEPT, INITIALIZE

PAGE = "https://page.example"  # the origin of a web page
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


class GatewayOnHttp(NamedTuple):
    """The address of a gateway on HTTP, and an HTTP client with its token."""

    url: str
    client: httpx2.AsyncClient

    async def post(self, message: Any, **headers: str) -> httpx2.Response:
        further_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = ACCEPT | {"Authorization": "Bearer one"} | further_headers
        return await self.client.post(self.url, json=message, headers=sent)

    async def open_session(self, **headers: str) -> str:
        """Open a session and return its id."""
        answer = await self.post(INITIALIZE, **headers)
        assert answer.status_code == 200, answer.text
        return str(answer.headers["mcp-session-id"])


class _OpenHost(NamedTuple):
    """The state of a host that is open, for the probes."""

    opened: bool = True
    ending: bool = False


@asynccontextmanager
async def serve_on_http(
    document: Mapping[str, Any] | None = None,
    tokens: Tokens | None = None,
    **settings: Any,
) -> AsyncIterator[GatewayOnHttp]:
    """Serve a gateway in this process on a free port."""
    listener: socket.socket
    async with open_gateway(document or {}) as gateway:
        with listen("127.0.0.1", 0) as listener:
            metrics = Metrics(gateway.host)
            probes = Probes(_OpenHost(), metrics)
            valid_tokens = tokens or Tokens(Token("one"))
            serving = asyncio.ensure_future(
                http.serve(gateway.server, listener, "127.0.0.1", valid_tokens, probes, **settings)
            )
            try:
                async with httpx2.AsyncClient(timeout=RUN_SECONDS) as client:
                    yield GatewayOnHttp(listener_url(listener, "127.0.0.1", http.PATH), client)
            finally:
                serving.cancel()
                await asyncio.wait([serving])


async def test_a_request_with_an_invalid_id_is_refused() -> None:
    async with serve_on_http() as gateway:
        session = await gateway.open_session()
        for id in (None, 1.5, True, [1]):
            answer = await gateway.post(PING | {"id": id}, mcp_session_id=session)
            assert answer.status_code == 400
            assert "the id of a request" in answer.json()["error"]["message"]
        answer = await gateway.post(PING | {"id": 7.0}, mcp_session_id=session)
        assert answer.status_code == 200 and '"id":7,' in answer.text


@pytest.mark.more
@shows("gateway-http-05")
async def test_idle_sessions_expire_and_the_number_of_sessions_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "MAX_SESSIONS", 2)
    async with serve_on_http() as gateway:
        first, _ = await gateway.open_session(), await gateway.open_session()
        refused = await gateway.post(INITIALIZE)
        assert refused.status_code == 503 and "Too many open sessions" in refused.text
        assert (await gateway.post(PING, Mcp_Session_Id=first)).status_code == 200
        sent = {"Authorization": "Bearer one", "Mcp-Session-Id": first}
        deleted = await gateway.client.delete(gateway.url, headers=sent)
        assert deleted.status_code == 200
        assert (await gateway.post(PING, Mcp_Session_Id=first)).status_code == 404
        await gateway.open_session()  # the number is below the limit again
    monkeypatch.setattr(http, "SESSION_IDLE_SECONDS", 0.2)
    async with serve_on_http() as gateway, asyncio.timeout(RUN_SECONDS):
        session = await gateway.open_session()
        status = 200
        while status != 404:
            # Each ping restarts the idle time, so the pause must be longer than it.
            await asyncio.sleep(2 * http.SESSION_IDLE_SECONDS)
            status = (await gateway.post(PING, Mcp_Session_Id=session)).status_code


@shows("gateway-http-06")
async def test_only_web_pages_of_allowed_origins_can_use_the_gateway() -> None:
    preflight_headers = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,mcp-protocol-version",
    }
    async with serve_on_http(origins=(PAGE,)) as gateway:
        allowed = await gateway.client.options(
            gateway.url, headers={"Origin": PAGE, **preflight_headers}
        )
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == PAGE
        answer = await gateway.post(INITIALIZE, Origin=PAGE)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "Mcp-Session-Id" in answer.headers["access-control-expose-headers"]
        unauthorized = await gateway.post(INITIALIZE, Origin=PAGE, Authorization="Bearer wrong")
        assert unauthorized.status_code == 401  # the page can read this status
        assert unauthorized.headers["access-control-allow-origin"] == PAGE
        for other in ("https://page.example.evil", "http://page.example", "null"):
            refused = await gateway.client.options(
                gateway.url, headers={"Origin": other, **preflight_headers}
            )
            assert refused.status_code == 400
            assert "access-control-allow-origin" not in refused.headers
            posted = await gateway.post(INITIALIZE, Origin=other)
            assert posted.status_code == 403
            assert "access-control-allow-origin" not in posted.headers
    async with serve_on_http() as gateway:
        response = await gateway.client.options(
            gateway.url, headers={"Origin": PAGE, **preflight_headers}
        )
        assert response.status_code in (401, 405)
        assert "access-control-allow-origin" not in response.headers


@shows("gateway-http-07")
async def test_a_token_can_be_replaced_while_the_gateway_runs(tmp_path: Path) -> None:
    file = tmp_path / "token"

    def write(text: str) -> None:
        new_file = tmp_path / "new"
        new_file.touch(0o600)
        new_file.write_text(text)
        os.replace(new_file, file)  # noqa: PTH105

    write("one\n")
    async with serve_on_http(tokens=Tokens(Token("one", str(file), file))) as gateway:
        session = await gateway.open_session()
        two = {"Authorization": "Bearer two"}
        assert (await gateway.post(PING, **two)).status_code == 401
        write("two\none\n")
        assert (await gateway.post(PING, Mcp_Session_Id=session)).status_code == 200
        assert (await gateway.post(PING, Mcp_Session_Id=session, **two)).status_code == 200
        write("two\n")
        assert (await gateway.post(PING, Mcp_Session_Id=session)).status_code == 401
        assert (await gateway.post(PING, Mcp_Session_Id=session, **two)).status_code == 200
        metrics = gateway.url.removesuffix(http.PATH) + "/metrics"
        assert (await gateway.client.get(metrics, headers=two)).status_code == 200


# By argument of --allow-origin: the origin as a browser sends it.
ORIGINS = {
    "https://Example.org": "https://example.org",
    "https://example.org:443/": "https://example.org",
    "http://localhost:5173": "http://localhost:5173",
    "http://[::1]:80": "http://[::1]",
    "https://bücher.example": "https://xn--bcher-kva.example",
}
INVALID_ORIGINS = (
    "*",
    "null",
    "https://*.example.org",
    "example.org",
    "https://example.org/path",
    "https://me@example.org",
    "https://example.org:port",
    "file:///x",
    "https://a b",
    "https://ü..example",
)


def test_an_origin_is_read_as_browsers_send_it() -> None:
    assert {text: read_origin(text) for text in ORIGINS} == ORIGINS
    for text in INVALID_ORIGINS:
        with pytest.raises(argparse.ArgumentTypeError, match="is not an origin"):
            read_origin(text)


def test_allowed_origins_need_http(tmp_path: Path) -> None:
    result = run("gateway", "--allow-origin", PAGE, cwd=tmp_path)
    assert result.returncode == 2 and "X1366" in result.stderr
