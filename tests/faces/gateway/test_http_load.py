"""Many clients call the gateway on HTTP at the same time: every call gets its own result."""

import asyncio
import sys
from pathlib import Path

import httpx2
import pytest

from tests.faces.gateway.gateway_process import http_gateway, write_config
from tests.faces.gateway.test_http import ACCEPT, INITIALIZE
from tests.faces.gateway.test_relayed_requests import CHILD
from tests.faces.gateway.test_stdio import HANDSHAKE, tool_call

CLIENTS = 100
CALLS = 10
# The limit of an answer. It only bounds a test that hangs.
ANSWER_SECONDS = 180


@pytest.mark.more
async def test_a_hundred_clients_with_ten_concurrent_calls_each_get_their_results(
    tmp_path: Path,
) -> None:
    child = {"command": sys.executable, "args": ["-S", "-E", CHILD], "limits": {"call": "3m"}}
    config = write_config(tmp_path, {"mcp_servers": {"server": child}})
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    with http_gateway(config, plain=True) as running:
        headers = ACCEPT | {"Authorization": f"Bearer {running.token}"}
        async with httpx2.AsyncClient(
            timeout=ANSWER_SECONDS, limits=limits, headers=headers
        ) as http:

            async def open_session() -> str:
                answer = await http.post(running.url, json=INITIALIZE)
                assert answer.status_code == 200, answer.text
                session = str(answer.headers["mcp-session-id"])
                answer = await http.post(
                    running.url, json=HANDSHAKE[1], headers={"Mcp-Session-Id": session}
                )
                assert answer.status_code == 202, answer.text
                return session

            async def call(session: str, client: int, n: int) -> None:
                message = tool_call(n, "ext_server_echo", mine=f"{client}-{n}")
                answer = await http.post(
                    running.url, json=message, headers={"Mcp-Session-Id": session}
                )
                assert answer.status_code == 200, answer.text
                assert f"{client}-{n}" in answer.text and '"error"' not in answer.text

            sessions = await asyncio.gather(*(open_session() for _ in range(CLIENTS)))
            assert len(set(sessions)) == CLIENTS
            await asyncio.gather(
                *(
                    call(session, client, n)
                    for client, session in enumerate(sessions)
                    for n in range(CALLS)
                )
            )
