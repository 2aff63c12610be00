"""Every client sees through the gateway what it sees without it: lists, results and errors.

The clients are other projects' programs; those that are not installed are skipped (`make node`
brings those of npm).
"""

import asyncio
import json
import os
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from tests.gateway.running import ROOT, environment, tools_of, write_config

TOOLS = Path(os.environ.get("EXTHOST_TEST_TOOLS", sys.prefix))
PACKAGES = TOOLS / "node/node_modules"
SDK = PACKAGES / "@modelcontextprotocol/sdk"
INSPECTOR = PACKAGES / ".bin/mcp-inspector"
CHILD = [sys.executable, "-S", "-E", str(ROOT / "tests" / "extensions" / "mcp_child.py")]
CLIENT_SECONDS = 100

# A result, a structured one, one against its own schema, and an error reply.
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"a": [1, "ü"]}),
    ("typed", {"as": {"sum": 3}}),
    ("typed", {"isError": True}),
]


async def run(*words: str) -> Any:
    """What a program prints, as JSON."""
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    try:
        async with asyncio.timeout(CLIENT_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, errors.decode()[-2000:]
    return json.loads(output)


async def python_sdk(command: list[str]) -> Any:
    server = StdioServerParameters(command=command[0], args=command[1:], env=environment())
    results: list[Any] = []
    async with Client(server, mode="legacy", cache=None) as client:
        tools = await tools_of(client, *(name for name, _ in CALLS))
        for name, arguments in CALLS:
            try:
                results.append((await client.call_tool(name, arguments)).model_dump(mode="json"))
            except (MCPError, RuntimeError) as error:
                results.append(str(error))
        resources = (await client.list_resources()).model_dump(mode="json")["resources"]
        prompts = (await client.list_prompts()).model_dump(mode="json")["prompts"]
    shown = [tool.model_dump(mode="json") for tool in tools.values()]
    return {"tools": shown, "results": results, "resources": resources, "prompts": prompts}


async def node_sdk(command: list[str]) -> Any:
    node = shutil.which("node")
    if node is None or not SDK.exists():
        pytest.skip("no Node SDK: `make node` brings it")
    server = json.dumps({"command": command[0], "args": command[1:]})
    script = str(Path(__file__).with_name("node_client.mjs"))
    return await run(node, script, str(SDK), server, json.dumps(CALLS))


async def inspector(command: list[str]) -> Any:
    if not INSPECTOR.exists():
        pytest.skip("no Inspector: npm install @modelcontextprotocol/inspector brings it")
    listed = await run(str(INSPECTOR), "--cli", *command, "--method", "tools/list")
    called = [
        str(INSPECTOR), "--cli", *command, "--method", "tools/call", "--tool-name", "echo",
        "--tool-arg", "a=1",
    ]  # fmt: skip
    return {"tools": listed["tools"], "results": [await run(*called)]}


async def fastmcp(command: list[str]) -> Any:
    module = pytest.importorskip("fastmcp", reason="FastMCP is not installed")
    server = {"command": command[0], "args": command[1:], "env": environment()}
    async with module.Client({"mcpServers": {"one": server}}) as client:
        tools = [tool.model_dump(mode="json") for tool in await client.list_tools()]
        result = await client.call_tool("echo", {"a": 1})
    return {"tools": tools, "results": [str(result.content)]}


CLIENTS: dict[str, Callable[[list[str]], Awaitable[Any]]] = {
    "python": python_sdk,
    "node": node_sdk,
    "inspector": inspector,
    "fastmcp": fastmcp,
}


@pytest.mark.more
@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_sees_the_same_with_and_without_the_gateway(
    name: str, tmp_path: Path
) -> None:
    server = {"command": CHILD[0], "args": CHILD[1:]}
    config = write_config(tmp_path, {"mcp_servers": {"child": server}})
    words = [sys.executable, "-m", "exthost", "gateway", "--plain-names", "--config", str(config)]
    gateway = tmp_path / "gateway"  # the Inspector takes some options for its own
    gateway.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    gateway.chmod(0o755)
    direct = await CLIENTS[name](CHILD)
    through = await CLIENTS[name]([str(gateway)])
    assert direct["tools"] and through["results"] == direct["results"]
    for member in ("tools", "prompts", "resources"):
        # The child's lists have pages, of which these clients read the first; the gateway's have
        # everything on one.
        shown, known = by_name(through.get(member, [])), by_name(direct.get(member, []))
        assert {item: shown.get(item) for item in known} == known


def by_name(tools: list[Any]) -> dict[str, Any]:
    return {tool["name"]: tool for tool in tools}
