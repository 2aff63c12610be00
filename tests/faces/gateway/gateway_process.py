"""Helpers that run a gateway for a test, and clients of it.

The gateway is an MCP server in front of the extensions of a config.

`open_gateway` runs the gateway in the test process, for tests that are not about processes.
`stdio_client` starts `exthost gateway` and yields a client on its pipes; `http_gateway` starts one
on a free port, and `http_client` yields a client of it. `write_config` and `extension` write the
config.
"""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client import stdio
from mcp.client.streamable_http import streamable_http_client

from exthost.faces.gateway.server import Gateway
from exthost.host.host import Host
from tests.extensions.proc import MARK, all_pids, environment_of, read_process

ROOT = Path(__file__).parents[3]
# The two eras of MCP, older versions with a handshake and newer versions without one, and the mode
# of the client library for each. In mode "auto", it tries the newer era first, which the gateway
# has.
ERAS = {"handshake": "legacy", "stateless": "auto"}
STATELESS = "2026-07-28"  # the first version of the stateless era
STOP_SECONDS = 150  # enough for a gateway to end on a busy machine


class RunningGateway(NamedTuple):
    """A gateway on HTTP: its address, and its token if it was generated."""

    url: str
    token: str | None


def command(config: Path, *arguments: str) -> list[str]:
    """Return the command of a gateway with the toy extension `climber` (see with_climber.py)."""
    toys = str(config.parent / "toys")
    head = [sys.executable, "-m", "tests.faces.gateway.with_climber", toys]
    return [*head, "gateway", "--config", str(config), *arguments]


def environment() -> dict[str, str]:
    """Return the environment of a child that can import exthost and the tests."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}


def write_config(folder: Path, document: Mapping[str, Any]) -> Path:
    """Write this document as an exthost.toml; return its path."""
    path = folder / "exthost.toml"
    lines = [f"{key} = {_toml(value)}" for key, value in document.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def _toml(value: Any) -> str:
    """Return a value in the notation of TOML."""
    if isinstance(value, dict):
        members = ", ".join(f"{json.dumps(key)} = {_toml(member)}" for key, member in value.items())
        return f"{{ {members} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def extension(name: str, dialect: str, *arguments: str, **more: Any) -> dict[str, Any]:
    """Return an `[[extensions]]` entry that runs Python with these arguments."""
    source = {"type": "process", "command": sys.executable, "args": list(arguments)}
    return {"name": name, "dialect": dialect, "source": source, **more}


@asynccontextmanager
async def stdio_client(config: Path, era: str, **more: Any) -> AsyncIterator[Client]:
    """Start a gateway; yield a client that is connected to its stdin and stdout. `more` are further
    arguments of `Client`."""
    # With --own, the gateway does not join a host that runs.
    program, *args = command(config, "--own")
    server = StdioServerParameters(command=program, args=args, env=environment())
    with pytest.MonkeyPatch.context() as patch:
        # The library kills a server that takes longer than 2 s to end, and does not wait for it. A
        # gateway on a busy machine can take longer.
        patch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", STOP_SECONDS)
        async with Client(server, mode=ERAS[era], **more) as client:
            yield client


# The command line with long limits for the headers of requests, for clients on a busy machine.
PATIENT = """
import sys
from exthost.faces.cli import main
from exthost.faces.http_server import server
server.HEADER_SECONDS = server.ARRIVAL_SECONDS = server.IDLE_SECONDS = 300
sys.exit(main())
"""


@contextmanager
def http_gateway(config: Path, *arguments: str, plain: bool = False) -> Iterator[RunningGateway]:
    """Yield a gateway on a free port; end it with SIGTERM. None of its processes may remain.

    It can serve several tests, so its processes have another value of the marker variable, and the
    leak check of conftest.py does not see them. With `plain`, it has no `climber`, and long limits
    for headers. The first line that it prints is a JSON object with its url and its token.
    """
    without_climber = [sys.executable, "-c", PATIENT, "gateway", "--config", str(config)]
    program = without_climber if plain else command(config)
    mark = f"{MARK}=gateway-{uuid.uuid4().hex}"
    with subprocess.Popen(
        [*program, "--http", "0", "--json", *arguments],
        env=environment() | dict([mark.split("=")]),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield RunningGateway(**json.loads(process.stdout.readline()))
        finally:
            process.terminate()
            try:
                code = process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert (code, process.stdout.read()) == (0, "")
        remaining = [pid for pid in all_pids() if mark.encode() in environment_of(pid)]
        assert not remaining, [read_process(pid) for pid in remaining]


@asynccontextmanager
async def http_client(running: RunningGateway, era: str, **more: Any) -> AsyncIterator[Client]:
    """Yield a client of a gateway on HTTP."""
    headers = {"Authorization": f"Bearer {running.token}"}
    timeout = httpx2.Timeout(60)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout) as http:
        transport = streamable_http_client(running.url, http_client=http)
        async with Client(transport, mode=ERAS[era], **more) as client:
            yield client


async def tools_of(client: Client, *names: str) -> dict[str, types.Tool]:
    """Return the tools of a gateway when the tools with these names are among them. On a busy
    machine, the first list can lack tools of extensions that are not ready yet."""
    async with asyncio.timeout(STOP_SECONDS):
        while True:
            response = await client.list_tools(cache_mode="refresh")
            tools = {tool.name: tool for tool in response.tools}
            if tools.keys() >= set(names):
                return tools
            await asyncio.sleep(0.1)


@asynccontextmanager
async def open_gateway(document: Mapping[str, Any], **settings: Any) -> AsyncIterator[Gateway]:
    """Yield a gateway in this process for a host with this config; `Client(gateway.server)` is a
    client of it. `settings` are further arguments of `Gateway`."""
    gateway = Gateway(Host.from_config(document), **settings)
    opening = gateway.open()
    try:
        yield gateway
        await asyncio.wait([opening])
    finally:
        await gateway.close()
