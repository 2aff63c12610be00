"""MCP clients of other projects get the same values with and without the gateway.

The gateway is an MCP server in front of other MCP servers. Each client calls a server directly and
then through the gateway. CLIENTS has a function for each client, which returns what the client got.
A client that is not installed is skipped (`make node`, `make fastmcp` and `make go-client` install
them).
"""

import asyncio
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from exthost.host.control.client import ask
from exthost.host.control.protocol import ControlRequest
from tests.extensions.harness import wait_until
from tests.faces.gateway.gateway_process import ROOT, environment, tools_of, write_config
from tests.faces.relay.relay_process import joined, server_pids

TOOLS = Path(os.environ.get("EXTHOST_TEST_TOOLS", sys.prefix))
PACKAGES = TOOLS / "node/node_modules"
SDKS = {
    "node": PACKAGES / "@modelcontextprotocol/sdk",
    "node 2": PACKAGES / "@modelcontextprotocol/client",
}
INSPECTOR = PACKAGES / ".bin/mcp-inspector"
NODE = PACKAGES / "node/bin/node"  # the Inspector needs a new version
FASTMCP = TOOLS / "fastmcp/bin/python"
GO_CLIENT = TOOLS / "go_clients/mcp_client"
CHILD = [sys.executable, "-S", "-E", str(ROOT / "tests" / "extensions" / "mcp_child.py")]
# The limit of a client that always ends. It only bounds a test that hangs.
CLIENT_SECONDS = 100

# Names of tools, and their arguments.
Calls: TypeAlias = list[tuple[str, dict[str, Any]]]
# They have a result, a structured result, and an error result.
CALLS: Calls = [
    ("echo", {"a": [1, "ü"]}),
    ("typed", {"as": {"sum": 3}}),
    ("typed", {"isError": True}),
]


async def run(*arguments: str, **variables: str) -> Any:
    """Run a program; return the JSON that it prints."""
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment() | variables,
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


# The tools of `fastmcp_server.py`.
FASTMCP_CALLS: Calls = [
    ("add", {"a": 1, "b": 2}),
    ("fail", {}),
    ("picture", {}),
]


async def python_sdk(command: list[str], calls: Calls = CALLS) -> Any:
    """Return what the official client for Python gets from a server."""
    server = StdioServerParameters(command=command[0], args=command[1:], env=environment())
    results: list[Any] = []
    async with Client(server, mode="legacy", cache=None) as client:
        tools = await tools_of(client, *(name for name, _ in calls))
        for name, arguments in calls:
            try:
                results.append((await client.call_tool(name, arguments)).model_dump(mode="json"))
            except (MCPError, RuntimeError) as error:
                results.append(str(error))
        resources = (await client.list_resources()).model_dump(mode="json")["resources"]
        prompts = (await client.list_prompts()).model_dump(mode="json")["prompts"]
    tool_values = [tool.model_dump(mode="json") for tool in tools.values()]
    return {"tools": tool_values, "results": results, "resources": resources, "prompts": prompts}


async def node_sdk(name: str, command: list[str]) -> Any:
    """Return what an official client for Node gets from a server."""
    node = str(NODE) if NODE.exists() else shutil.which("node")
    if node is None or not SDKS[name].exists():
        pytest.skip(f"{SDKS[name]} is missing: `make node` installs it")
    server = json.dumps({"command": command[0], "args": command[1:]})
    script = str(Path(__file__).with_name("node_client.mjs"))
    return await run(node, script, str(SDKS[name]), server, json.dumps(CALLS))


async def inspector(command: list[str]) -> Any:
    """Return what the MCP Inspector gets from a server."""
    if not INSPECTOR.exists() or not NODE.exists():
        pytest.skip("the Inspector is missing: `make node` installs it")
    with tempfile.TemporaryDirectory() as home:  # the Inspector writes a list of servers there
        arguments = [str(NODE), str(INSPECTOR.resolve()), "--cli", *command]
        arguments += ["--connect-timeout", f"{CLIENT_SECONDS * 1000}", "--method"]
        tools = await run(*arguments, "tools/list", HOME=home)
        call = ("tools/call", "--tool-name", "echo", "--tool-arg", "a=1")
        result = await run(*arguments, *call, HOME=home)
    return {"tools": tools["tools"], "results": [result]}


async def fastmcp(command: list[str]) -> Any:
    """Return what the client of FastMCP gets from a server."""
    require_fastmcp()
    script = str(Path(__file__).with_name("fastmcp_client.py"))
    return await run(str(FASTMCP), script, json.dumps(command), json.dumps(CALLS))


async def go_sdk(command: list[str]) -> Any:
    """Return what the official client for Go gets from a server."""
    if not GO_CLIENT.exists():
        pytest.skip("the client in Go is missing: `make go-client` builds it")
    report = await run(str(GO_CLIENT), json.dumps(command), json.dumps(CALLS))
    for result in report["results"]:
        # These depend on the era of the session, which the gateway can change.
        result.pop("_meta", None)
        result.pop("resultType", None)
    return report


def require_fastmcp() -> None:
    if not FASTMCP.exists():
        pytest.skip("FastMCP is not installed: `make fastmcp` installs it")


CLIENTS: dict[str, Callable[[list[str]], Awaitable[Any]]] = {
    "python": python_sdk,
    "node": partial(node_sdk, "node"),
    "node 2": partial(node_sdk, "node 2"),
    "inspector": inspector,
    "fastmcp": fastmcp,
    "go": go_sdk,
}


@pytest.mark.more
@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_gets_the_same_values_with_and_without_the_gateway(
    name: str, tmp_path: Path
) -> None:
    direct = await CLIENTS[name](CHILD)
    with_gateway = await CLIENTS[name](gateway_command({"child": CHILD}, tmp_path))
    assert direct["tools"] and with_gateway["results"] == direct["results"]
    for member in ("tools", "prompts", "resources"):
        # The lists of the child have several pages, and these clients read only the first. The
        # lists of the gateway have one page with everything.
        expected = by_name(direct.get(member, []))
        actual = by_name(with_gateway.get(member, []))
        assert {name: actual.get(name) for name in expected} == expected


def gateway_command(servers: dict[str, list[str]], folder: Path) -> list[str]:
    """Return the command of a gateway with these servers. Its host ends with the last client.

    The command is a script without arguments, because the Inspector would read some of the
    arguments as its own options.
    """
    entries = {name: {"command": argv[0], "args": argv[1:]} for name, argv in servers.items()}
    config = write_config(folder, {"gateway": {"linger": "0s"}, "mcp_servers": entries})
    arguments = [sys.executable, "-m", "exthost", "gateway", "--plain-names"]
    arguments += ["--config", str(config)]
    gateway = folder / "gateway"
    gateway.write_text(f"#!/bin/sh\nexec {shlex.join(arguments)}\n")
    gateway.chmod(0o755)
    return [str(gateway)]


@pytest.mark.more
async def test_a_fastmcp_server_returns_the_same_values_with_and_without_the_gateway(
    tmp_path: Path,
) -> None:
    require_fastmcp()
    server = [str(FASTMCP), str(Path(__file__).with_name("fastmcp_server.py"))]
    direct = await python_sdk(server, FASTMCP_CALLS)
    with_gateway = await python_sdk(gateway_command({"child": server}, tmp_path), FASTMCP_CALLS)
    assert len(direct["tools"]) == 3 and direct["resources"] and direct["prompts"]
    assert with_gateway == direct


def by_name(tools: list[Any]) -> dict[str, Any]:
    return {tool["name"]: tool for tool in tools}


# A server with one tool, which has its name.
SMALL_SERVER = """
import json, sys
name = sys.argv[1]
for line in sys.stdin:
    message = json.loads(line)
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                       "serverInfo": {"name": name, "version": "1"}},
        "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": name}]},
    }
    if "id" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] in results:
            reply["result"] = results[message["method"]]
        else:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        print(json.dumps(reply), flush=True)
"""


@pytest.mark.more
async def test_clients_of_several_makes_share_three_servers(tmp_path: Path) -> None:
    """Each client gets the same results as alone, although a server is restarted meanwhile."""
    small = [sys.executable, "-S", "-E", "-c", SMALL_SERVER]
    servers = {"child": CHILD, "second": [*small, "second"], "third": [*small, "third"]}
    command = gateway_command(servers, tmp_path)
    config = tmp_path / "exthost.toml"
    names = [name for name in CLIENTS if is_installed(name)]
    alone = {name: (await CLIENTS[name](CHILD))["results"] for name in names}
    with joined(config, "--plain-names") as steady:  # so that the host stays between the clients
        assert steady.text("second") == "second"
        running = asyncio.gather(*(CLIENTS[name](command) for name in names))
        restart = ControlRequest("restart", "third")
        await asyncio.to_thread(ask, str(config), restart, timeout=CLIENT_SECONDS)
        together = dict(zip(names, await running, strict=True))
        assert {name: seen["results"] for name, seen in together.items()} == alone
        for seen in together.values():
            assert {"echo", "second", "third"} <= by_name(seen["tools"]).keys()
        assert steady.text("third") == "third"
        await wait_until(lambda: len(server_pids(config)) == 3)  # the old process ends


def is_installed(name: str) -> bool:
    """Return whether the program of a client is here."""
    if name in SDKS:
        return SDKS[name].exists() and (NODE.exists() or shutil.which("node") is not None)
    if name == "inspector":
        return INSPECTOR.exists() and NODE.exists()
    programs = {"fastmcp": FASTMCP, "go": GO_CLIENT}
    return name not in programs or programs[name].exists()
