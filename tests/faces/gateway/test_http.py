"""Who may connect to the gateway on HTTP, under which name, with which token."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import mcp_types as types
import pytest

from exthost.faces.http_server import listener, token
from tests.dialects.requirements import shows
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.faces.cli.cli_process import RUN_SECONDS, run_process
from tests.faces.cli.cli_process import run_inside as run
from tests.faces.gateway.gateway_process import (
    ERAS,
    Running,
    extension,
    http_gateway,
    on_http,
    tools_of,
    write_config,
)
from tests.faces.relay.relay_process import status, wait_until

ASKED = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway whose token is in a file that it made itself."""
    folder = tmp_path_factory.mktemp("http")
    file = folder / "token"
    with http_gateway(write_config(folder, {}), "--token-file", str(file)) as found:
        assert found.token is None, "a token that the operator has elsewhere is not shown"
        assert file.stat().st_mode & 0o777 == 0o600
        yield found._replace(token=file.read_text().strip())


@shows("gateway-http-02", "gateway-http-03")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic {token}"}, 401),
        ({"Authorization": "Bearer {token}x"}, 401),
        ({"Host": "attacker.example"}, 421),
        ({"Host": "127.0.0.1.attacker.example:80"}, 421),
        ({"Host": "localhost:1@attacker.example"}, 421),
        ({"Host": "localhost:1"}, 200),
        ({"Origin": "https://attacker.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:5173"}, 200),
        ({"Content-Type": "text/plain"}, 400),
        ({"Mcp-Protocol-Version": "2026-07-28", "Authorization": "Bearer wrong"}, 401),
        ({"Mcp-Protocol-Version": "2026-07-28", "Host": "attacker.example"}, 421),
        ({"Mcp-Protocol-Version": "2026-07-28", "Origin": "http://attacker.example"}, 403),
    ],
)
async def test_requests_without_the_token_or_under_another_name_are_refused(
    running: Running, headers: dict[str, str], status: int
) -> None:
    sent = ACCEPT | {"Authorization": "Bearer {token}"} | headers
    filled = {name: value.replace("{token}", str(running.token)) for name, value in sent.items()}
    async with httpx2.AsyncClient(timeout=RUN_SECONDS, verify=False) as client:
        answer = await client.post(running.url, json=ASKED, headers=filled)
    assert answer.status_code == status, answer.text


async def test_the_right_token_is_all_that_a_client_needs(running: Running) -> None:
    async with on_http(running, "handshake") as client:
        names = ("ext_climber_climb", "ext_climber_wait", "ext_climber_heard")
        assert set(await tools_of(client, *names)) == set(names)


@shows("gateway-http-04", "gateway-wire-03")
async def test_it_ends_in_time_though_clients_listen_and_hides_its_token_from_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(token.VARIABLE, "only-for-clients")
    agent = extension("agent", "nexo", "-S", "-E", str(NEXO))
    with http_gateway(write_config(tmp_path, {"extensions": [agent]})) as report:
        running = report._replace(token="only-for-clients")
        under_way = asyncio.Event()

        async def listen(era: str) -> None:
            async with on_http(running, era) as client:
                result = await client.call_tool("ext_agent_env", {})
                assert token.VARIABLE not in result.structured_content
                if era == "handshake":
                    under_way.set()
                    await client.call_tool("ext_climber_wait", {})
                async with client.listen(tools_list_changed=True) as changes:
                    under_way.set()
                    await anext(changes)

        listening = []
        for era in ERAS:
            listening.append(asyncio.ensure_future(listen(era)))
            await under_way.wait()
            under_way.clear()
    async with asyncio.timeout(RUN_SECONDS):
        ends = await asyncio.gather(*listening, return_exceptions=True)
    assert all(isinstance(end, Exception) for end in ends)


@shows("gateway-http-01")
def test_only_this_machine_can_connect_by_default(running: Running) -> None:
    with listener.listen("127.0.0.1", 0) as one, listener.listen("0.0.0.0", 0) as every:
        assert one.getsockname()[0] == "127.0.0.1"
        assert every.getsockname()[0] == "0.0.0.0"
    assert running.url.startswith("http://127.0.0.1:")
    assert set(listener.allowed_host_headers("127.0.0.1")) == {"127.0.0.1", "localhost", "[::1]"}
    assert socket.gethostname() in listener.allowed_host_headers("0.0.0.0")
    assert "192.0.2.7" in listener.allowed_host_headers("192.0.2.7")


def test_options_of_http_without_http_and_a_missing_config_are_reported(
    tmp_path: Path,
) -> None:
    done = run("gateway", "--host", "0.0.0.0", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and "X1366" in done.stderr
    done = run("gateway", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and "X1316" in done.stderr
    done = run("gateway", "--config", "no.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "") and "X0101" in done.stderr


@shows("gateway-install-01")
def test_a_missing_install_is_reported_with_the_command_that_installs_it(tmp_path: Path) -> None:
    write_config(tmp_path, {})
    blocked = tmp_path / "blocked" / "mcp"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('not here', name='mcp')")
    path = os.pathsep.join([str(blocked.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = run_process("gateway", "--own", cwd=tmp_path, env=os.environ | {"PYTHONPATH": path})
    assert (done.returncode, done.stdout) == (3, "")
    assert "X0165" in done.stderr and "pip install 'exthost[gateway]'" in done.stderr


async def test_clients_with_a_session_are_in_the_status_of_the_host(tmp_path: Path) -> None:
    config = write_config(tmp_path, {})
    with http_gateway(config) as running:
        info = types.Implementation(name="tester", version="7")
        async with on_http(running, "handshake", client_info=info):
            # The host may handle `notifications/initialized` after it has accepted it.
            await asyncio.to_thread(wait_until, lambda: status(config)["clients"], "no client")
            report = await asyncio.to_thread(status, config)
            assert report["clients"] == [{"name": "tester", "version": "7", "pid": None}]
            shown = await asyncio.to_thread(run, "status", cwd=tmp_path)
            assert "client: tester 7, on HTTP" in shown.stdout + shown.stderr
        await asyncio.to_thread(wait_until, lambda: not status(config)["clients"], "it stays")
