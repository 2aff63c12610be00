"""The gateway on HTTP inside the test: sessions that expire and have a limit, pages of other
origins, tokens that change."""

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
from tests.faces.gateway.gateway_process import inside
from tests.faces.gateway.test_http import ACCEPT, ASKED

PAGE = "https://page.example"
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


class Served(NamedTuple):
    """A gateway that is served, and a client of HTTP for it."""

    url: str
    client: httpx2.AsyncClient

    async def post(self, message: Any, **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = ACCEPT | {"Authorization": "Bearer one"} | named
        return await self.client.post(self.url, json=message, headers=sent)

    async def session(self, **headers: str) -> str:
        """Open a session and return its id."""
        answer = await self.post(ASKED, **headers)
        assert answer.status_code == 200, answer.text
        return str(answer.headers["mcp-session-id"])


class _Life(NamedTuple):
    opened: bool = True
    ending: bool = False


@asynccontextmanager
async def served(
    document: Mapping[str, Any] | None = None,
    tokens: Tokens | None = None,
    **settings: Any,
) -> AsyncIterator[Served]:
    listener: socket.socket
    async with inside(document or {}) as gateway:
        with listen("127.0.0.1", 0) as listener:
            metrics = Metrics(gateway.host)
            probes = Probes(_Life(), metrics)
            known = tokens or Tokens(Token("one"))
            serving = asyncio.ensure_future(
                http.serve(gateway.server, listener, "127.0.0.1", known, probes, **settings)
            )
            try:
                async with httpx2.AsyncClient(timeout=RUN_SECONDS) as client:
                    yield Served(listener_url(listener, "127.0.0.1", http.PATH), client)
            finally:
                serving.cancel()
                await asyncio.wait([serving])


async def test_a_request_with_an_invalid_id_is_refused_rather_than_dropped() -> None:
    async with served() as gateway:
        session = await gateway.session()
        for id in (None, 1.5, True, [1]):
            answer = await gateway.post(PING | {"id": id}, mcp_session_id=session)
            assert answer.status_code == 400
            assert "the id of a request" in answer.json()["error"]["message"]
        answer = await gateway.post(PING | {"id": 7.0}, mcp_session_id=session)
        assert answer.status_code == 200 and '"id":7,' in answer.text


@pytest.mark.more
@shows("gateway-http-05")
async def test_a_session_without_requests_expires_and_their_number_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "MAX_SESSIONS", 2)
    async with served() as gateway:
        first, _ = await gateway.session(), await gateway.session()
        refused = await gateway.post(ASKED)
        assert refused.status_code == 503 and "Too many open sessions" in refused.text
        assert (await gateway.post(PING, Mcp_Session_Id=first)).status_code == 200
        sent = {"Authorization": "Bearer one", "Mcp-Session-Id": first}
        ended = await gateway.client.delete(gateway.url, headers=sent)
        assert ended.status_code == 200
        assert (await gateway.post(PING, Mcp_Session_Id=first)).status_code == 404
        await gateway.session()  # there is room again
    monkeypatch.setattr(http, "SESSION_IDLE_SECONDS", 0.2)
    async with served() as gateway, asyncio.timeout(RUN_SECONDS):
        session, pause = await gateway.session(), 0.4  # each ping begins the time anew
        status = 200
        while status != 404:
            await asyncio.sleep(pause)
            status = (await gateway.post(PING, Mcp_Session_Id=session)).status_code


@shows("gateway-http-06")
async def test_web_pages_of_allowed_origins_can_use_it_and_no_others() -> None:
    asks = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,mcp-protocol-version",
    }
    async with served(origins=(PAGE,)) as gateway:
        allowed = await gateway.client.options(gateway.url, headers={"Origin": PAGE, **asks})
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == PAGE
        answer = await gateway.post(ASKED, Origin=PAGE)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "Mcp-Session-Id" in answer.headers["access-control-expose-headers"]
        without = await gateway.post(ASKED, Origin=PAGE, Authorization="Bearer wrong")
        assert without.status_code == 401  # and the page can read that
        assert without.headers["access-control-allow-origin"] == PAGE
        for other in ("https://page.example.evil", "http://page.example", "null"):
            refused = await gateway.client.options(gateway.url, headers={"Origin": other, **asks})
            assert refused.status_code == 400
            assert "access-control-allow-origin" not in refused.headers
            posted = await gateway.post(ASKED, Origin=other)
            assert posted.status_code == 403
            assert "access-control-allow-origin" not in posted.headers
    async with served() as gateway:
        nobody = await gateway.client.options(gateway.url, headers={"Origin": PAGE, **asks})
        assert nobody.status_code in (401, 405)
        assert "access-control-allow-origin" not in nobody.headers


@shows("gateway-http-07")
async def test_a_token_can_be_replaced_without_a_pause(tmp_path: Path) -> None:
    file = tmp_path / "token"

    def write(text: str) -> None:
        beside = tmp_path / "new"
        beside.touch(0o600)
        beside.write_text(text)
        os.replace(beside, file)  # noqa: PTH105

    write("one\n")
    async with served(tokens=Tokens(Token("one", str(file), file))) as gateway:
        session = await gateway.session()
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


ORIGINS = {
    "https://Example.org": "https://example.org",
    "https://example.org:443/": "https://example.org",
    "http://localhost:5173": "http://localhost:5173",
    "http://[::1]:80": "http://[::1]",
}
NO_ORIGINS = (
    "*",
    "null",
    "https://*.example.org",
    "example.org",
    "https://example.org/path",
    "https://me@example.org",
    "https://example.org:port",
    "file:///x",
)


def test_an_origin_is_read_as_browsers_send_it() -> None:
    assert {text: read_origin(text) for text in ORIGINS} == ORIGINS
    for text in NO_ORIGINS:
        with pytest.raises(argparse.ArgumentTypeError, match="is not an origin"):
            read_origin(text)


def test_origins_are_about_http(tmp_path: Path) -> None:
    done = run("gateway", "--allow-origin", PAGE, cwd=tmp_path)
    assert done.returncode == 2 and "X1366" in done.stderr
