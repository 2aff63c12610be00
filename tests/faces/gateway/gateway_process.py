"""How tests run a gateway: as the command line does, in a process of its own, with real clients;
or inside the test, where the claim is not about processes."""

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
ERAS = {"handshake": "legacy", "stateless": "auto"}  # asked for the newer era first, we have it
STATELESS = "2026-07-28"
STOP_SECONDS = 150


class Running(NamedTuple):
    """A gateway on HTTP: its address, and its token if it was generated."""

    url: str
    token: str | None


def command(config: Path, *words: str) -> list[str]:
    """Return the command of a gateway with the climber, whose dialect is installed for it."""
    toys = str(config.parent / "toys")
    head = [sys.executable, "-m", "tests.faces.gateway.with_climber", toys]
    return [*head, "gateway", "--config", str(config), *words]


def environment() -> dict[str, str]:
    """Return our variables, with the modules of the tests on the path."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}


def write_config(folder: Path, document: Mapping[str, Any]) -> Path:
    """Write this document as an exthost.toml; return its path."""
    path = folder / "exthost.toml"
    lines = [f"{key} = {_toml(value)}" for key, value in document.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        members = ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items())
        return f"{{ {members} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def extension(name: str, dialect: str, *words: str, **more: Any) -> dict[str, Any]:
    """Return an `[[extensions]]` entry that runs Python with these arguments."""
    source = {"type": "process", "command": sys.executable, "args": list(words)}
    return {"name": name, "dialect": dialect, "source": source, **more}


@asynccontextmanager
async def on_stdio(config: Path, era: str, **more: Any) -> AsyncIterator[Client]:
    program, *args = command(config, "--own")
    server = StdioServerParameters(command=program, args=args, env=environment())
    with pytest.MonkeyPatch.context() as patch:
        # A gateway on a busy machine may take longer to end than the library's 2 s, which would
        # then kill it and leave its exit to nobody.
        patch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", STOP_SECONDS)
        async with Client(server, mode=ERAS[era], **more) as client:
            yield client


# A gateway for clients that are slow because the machine is.
PATIENT = """
import sys
from exthost.faces.cli import main
from exthost.faces.http_server import server
server.HEADER_SECONDS = server.IDLE_SECONDS = 300
sys.exit(main())
"""


@contextmanager
def http_gateway(config: Path, *words: str, plain: bool = False) -> Iterator[Running]:
    """A gateway on a free port, ended with SIGTERM, which must leave nothing behind.

    It may serve several tests, so what it starts has a mark of its own: it is no leak of theirs.
    `plain`: without the climber, and patient with the heads of requests.
    """
    bare = [sys.executable, "-c", PATIENT, "gateway", "--config", str(config)]
    program = bare if plain else command(config)
    mark = f"{MARK}=gateway-{uuid.uuid4().hex}"
    with subprocess.Popen(
        [*program, "--http", "0", "--json", *words],
        env=environment() | dict([mark.split("=")]),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield Running(**json.loads(process.stdout.readline()))
        finally:
            process.terminate()
            try:
                code = process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert (code, process.stdout.read()) == (0, "")
        left = [pid for pid in all_pids() if mark.encode() in environment_of(pid)]
        assert not left, [read_process(pid) for pid in left]


@asynccontextmanager
async def on_http(running: Running, era: str, **more: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {running.token}"}
    timeout = httpx2.Timeout(60)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout) as http:
        transport = streamable_http_client(running.url, http_client=http)
        async with Client(transport, mode=ERAS[era], **more) as client:
            yield client


async def tools_of(client: Client, *names: str) -> dict[str, types.Tool]:
    """The tools of a gateway, once these are among them: on a busy machine the first list may have
    those that were ready in time, and no more."""
    async with asyncio.timeout(STOP_SECONDS):
        while True:
            listed = await client.list_tools(cache_mode="refresh")
            tools = {tool.name: tool for tool in listed.tools}
            if tools.keys() >= set(names):
                return tools
            await asyncio.sleep(0.1)


@asynccontextmanager
async def inside(document: Mapping[str, Any], **settings: Any) -> AsyncIterator[Gateway]:
    """Yield a gateway in this process; `Client(gateway.server)` is a client of it."""
    gateway = Gateway(Host.from_config(document), **settings)
    opening = gateway.open()
    try:
        yield gateway
        await asyncio.wait([opening])
    finally:
        await gateway.close()
