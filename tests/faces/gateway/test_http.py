"""Tests of the access to the gateway on HTTP (`exthost gateway --http PORT`).

A request needs the token of the gateway. Its headers Host and Origin must not be those of a web
page of somebody else, which could otherwise use the browser of the user to reach the gateway.
"""

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
    RunningGateway,
    extension,
    http_client,
    http_gateway,
    tools_of,
    write_config,
)
from tests.faces.relay.relay_process import status, wait_until

# The first message of a client.
INITIALIZE = {
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
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that has created its token file."""
    folder = tmp_path_factory.mktemp("http")
    file = folder / "token"
    with http_gateway(write_config(folder, {}), "--token-file", str(file)) as gateway:
        assert gateway.token is None, "a token in a file is not printed"
        assert file.stat().st_mode & 0o777 == 0o600
        yield gateway._replace(token=file.read_text().strip())


@pytest.mark.sampled
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
async def test_requests_with_a_wrong_token_host_or_origin_are_refused(
    running: RunningGateway, headers: dict[str, str], status: int
) -> None:
    templates = ACCEPT | {"Authorization": "Bearer {token}"} | headers
    token = str(running.token)
    sent_headers = {name: value.replace("{token}", token) for name, value in templates.items()}
    async with httpx2.AsyncClient(timeout=RUN_SECONDS, verify=False) as client:
        answer = await client.post(running.url, json=INITIALIZE, headers=sent_headers)
    assert answer.status_code == status, answer.text


async def test_a_client_with_the_token_can_list_the_tools(running: RunningGateway) -> None:
    async with http_client(running, "handshake") as client:
        names = ("ext_climber_climb", "ext_climber_wait", "ext_climber_heard")
        assert set(await tools_of(client, *names)) == set(names)


@pytest.mark.more
@shows("gateway-http-04", "gateway-wire-03")
async def test_the_gateway_ends_while_clients_are_connected_and_hides_its_token_from_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(token.VARIABLE, "only-for-clients")
    agent = extension("agent", "nexo", "-S", "-E", str(NEXO))
    with http_gateway(write_config(tmp_path, {"extensions": [agent]})) as gateway:
        running = gateway._replace(token="only-for-clients")
        is_connected = asyncio.Event()

        async def listen(era: str) -> None:
            async with http_client(running, era) as client:
                result = await client.call_tool("ext_agent_env", {})
                assert token.VARIABLE not in result.structured_content
                if era == "handshake":
                    is_connected.set()
                    await client.call_tool("ext_climber_wait", {})
                async with client.listen(tools_list_changed=True) as changes:
                    is_connected.set()
                    await anext(changes)

        listeners = []
        for era in ERAS:
            listeners.append(asyncio.ensure_future(listen(era)))
            await is_connected.wait()
            is_connected.clear()
    async with asyncio.timeout(RUN_SECONDS):
        outcomes = await asyncio.gather(*listeners, return_exceptions=True)
    assert all(isinstance(outcome, Exception) for outcome in outcomes)


@shows("gateway-http-01")
def test_only_this_machine_can_connect_by_default(running: RunningGateway) -> None:
    with listener.listen("127.0.0.1", 0) as local, listener.listen("0.0.0.0", 0) as public:
        assert local.getsockname()[0] == "127.0.0.1"
        assert public.getsockname()[0] == "0.0.0.0"
    assert running.url.startswith("http://127.0.0.1:")
    assert set(listener.allowed_host_headers("127.0.0.1")) == {"127.0.0.1", "localhost", "[::1]"}
    assert socket.gethostname() in listener.allowed_host_headers("0.0.0.0")
    assert "192.0.2.7" in listener.allowed_host_headers("192.0.2.7")


@pytest.mark.more
def test_http_options_without_http_and_a_missing_config_are_errors(
    tmp_path: Path,
) -> None:
    result = run("gateway", "--host", "0.0.0.0", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "") and "X1366" in result.stderr
    result = run("gateway", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "") and "X1316" in result.stderr
    result = run("gateway", "--config", "no.toml", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (3, "") and "X0101" in result.stderr


@pytest.mark.more
@shows("gateway-install-01")
def test_a_missing_package_is_reported_with_the_command_that_installs_it(tmp_path: Path) -> None:
    write_config(tmp_path, {})
    fake_package = tmp_path / "fake_package" / "mcp"
    fake_package.mkdir(parents=True)
    (fake_package / "__init__.py").write_text("raise ImportError('not here', name='mcp')")
    path = os.pathsep.join(
        [str(fake_package.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    result = run_process("gateway", "--own", cwd=tmp_path, env=os.environ | {"PYTHONPATH": path})
    assert (result.returncode, result.stdout) == (3, "")
    assert "X0165" in result.stderr and "pip install 'exthost[gateway]'" in result.stderr


@pytest.mark.more
def test_a_gateway_without_its_packages_starts_no_host(tmp_path: Path) -> None:
    write_config(tmp_path, {})
    # Python imports this module at its start. The package `mcp` then counts as not installed.
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['mcp'] = None")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    result = run_process("gateway", cwd=tmp_path, env=os.environ | {"PYTHONPATH": path})
    assert (result.returncode, result.stdout) == (3, "")
    assert "X0165" in result.stderr and "its own host" not in result.stderr
    result = run("status", cwd=tmp_path)
    assert result.returncode == 2 and "no host is running" in result.stderr


@pytest.mark.more
async def test_clients_with_a_session_are_in_the_status_of_the_host(tmp_path: Path) -> None:
    config = write_config(tmp_path, {})
    with http_gateway(config) as running:
        info = types.Implementation(name="tester", version="7")
        async with http_client(running, "handshake", client_info=info):
            # The host may handle `notifications/initialized` after it has accepted it.
            await asyncio.to_thread(
                wait_until, lambda: status(config)["clients"], "the client is in the status"
            )
            report = await asyncio.to_thread(status, config)
            assert report["clients"] == [{"name": "tester", "version": "7", "pid": None}]
            shown = await asyncio.to_thread(run, "status", cwd=tmp_path)
            assert "client: tester 7, on HTTP" in shown.stdout + shown.stderr
        await asyncio.to_thread(
            wait_until, lambda: not status(config)["clients"], "the client has left the status"
        )
