"""Every client sees through the gateway what it sees without it: lists, results and errors.

The clients are other projects' programs; those that are not installed are skipped (`make node` and
`make fastmcp` bring them).
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
from tests.faces.gateway.gateway_process import ROOT, environment, tools_of, write_config
from tests.faces.relay.relay_process import joined, server_pids

TOOLS = Path(os.environ.get("EXTHOST_TEST_TOOLS", sys.prefix))
PACKAGES = TOOLS / "node/node_modules"
SDKS = {
    "node": PACKAGES / "@modelcontextprotocol/sdk",
    "node 2": PACKAGES / "@modelcontextprotocol/client",
}
INSPECTOR = PACKAGES / ".bin/mcp-inspector"
NODE = PACKAGES / "node/bin/node"  # the Inspector wants a newer one than most machines have
FASTMCP = TOOLS / "fastmcp/bin/python"
CHILD = [sys.executable, "-S", "-E", str(ROOT / "tests" / "extensions" / "mcp_child.py")]
CLIENT_SECONDS = 100

# A result, a structured one, one against its own schema, and an error reply.
Calls: TypeAlias = list[tuple[str, dict[str, Any]]]
CALLS: Calls = [
    ("echo", {"a": [1, "ü"]}),
    ("typed", {"as": {"sum": 3}}),
    ("typed", {"isError": True}),
]


async def run(*words: str, **variables: str) -> Any:
    """What a program prints, as JSON."""
    process = await asyncio.create_subprocess_exec(
        *words,
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
    shown = [tool.model_dump(mode="json") for tool in tools.values()]
    return {"tools": shown, "results": results, "resources": resources, "prompts": prompts}


async def node_sdk(name: str, command: list[str]) -> Any:
    node = str(NODE) if NODE.exists() else shutil.which("node")
    if node is None or not SDKS[name].exists():
        pytest.skip(f"{SDKS[name]} is not there: `make node` brings it")
    server = json.dumps({"command": command[0], "args": command[1:]})
    script = str(Path(__file__).with_name("node_client.mjs"))
    return await run(node, script, str(SDKS[name]), server, json.dumps(CALLS))


async def inspector(command: list[str]) -> Any:
    if not INSPECTOR.exists() or not NODE.exists():
        pytest.skip("no Inspector: `make node` brings it")
    with tempfile.TemporaryDirectory() as home:  # it keeps a list of servers there
        words = [str(NODE), str(INSPECTOR.resolve()), "--cli", *command]
        words += ["--connect-timeout", f"{CLIENT_SECONDS * 1000}", "--method"]
        listed = await run(*words, "tools/list", HOME=home)
        call = ("tools/call", "--tool-name", "echo", "--tool-arg", "a=1")
        called = await run(*words, *call, HOME=home)
    return {"tools": listed["tools"], "results": [called]}


async def fastmcp(command: list[str]) -> Any:
    require_fastmcp()
    script = str(Path(__file__).with_name("fastmcp_client.py"))
    return await run(str(FASTMCP), script, json.dumps(command), json.dumps(CALLS))


def require_fastmcp() -> None:
    if not FASTMCP.exists():
        pytest.skip("FastMCP is not installed: `make fastmcp` brings it")


CLIENTS: dict[str, Callable[[list[str]], Awaitable[Any]]] = {
    "python": python_sdk,
    "node": partial(node_sdk, "node"),
    "node 2": partial(node_sdk, "node 2"),
    "inspector": inspector,
    "fastmcp": fastmcp,
}


@pytest.mark.more
@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_sees_the_same_with_and_without_the_gateway(
    name: str, tmp_path: Path
) -> None:
    direct = await CLIENTS[name](CHILD)
    through = await CLIENTS[name](gateway_before(CHILD, tmp_path))
    assert direct["tools"] and through["results"] == direct["results"]
    for member in ("tools", "prompts", "resources"):
        # The child's lists have pages, of which these clients read the first; the gateway's have
        # everything on one.
        shown, known = by_name(through.get(member, [])), by_name(direct.get(member, []))
        assert {item: shown.get(item) for item in known} == known


def gateway_before(server: list[str], folder: Path) -> list[str]:
    """The command of a gateway with this server, as one word: the Inspector takes some options of
    a command for its own."""
    return relay_before({"child": server}, folder)


def relay_before(servers: dict[str, list[str]], folder: Path) -> list[str]:
    """The same with several servers, whose host ends with its last client."""
    entries = {name: {"command": words[0], "args": words[1:]} for name, words in servers.items()}
    config = write_config(folder, {"gateway": {"linger": "0s"}, "mcp_servers": entries})
    words = [sys.executable, "-m", "exthost", "gateway", "--plain-names", "--config", str(config)]
    gateway = folder / "gateway"
    gateway.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    gateway.chmod(0o755)
    return [str(gateway)]


@pytest.mark.more
async def test_a_server_of_fastmcp_is_seen_the_same_with_and_without_the_gateway(
    tmp_path: Path,
) -> None:
    require_fastmcp()
    server = [str(FASTMCP), str(Path(__file__).with_name("fastmcp_server.py"))]
    direct = await python_sdk(server, FASTMCP_CALLS)
    through = await python_sdk(gateway_before(server, tmp_path), FASTMCP_CALLS)
    assert len(direct["tools"]) == 3 and direct["resources"] and direct["prompts"]
    assert through == direct


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
    """Each client sees and calls what it does alone; one server is restarted under them."""
    small = [sys.executable, "-S", "-E", "-c", SMALL_SERVER]
    servers = {"child": CHILD, "second": [*small, "second"], "third": [*small, "third"]}
    command = relay_before(servers, tmp_path)
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
        assert len(server_pids(config)) == 3


def is_installed(name: str) -> bool:
    """Return whether the program of a client is here."""
    if name in SDKS:
        return SDKS[name].exists() and (NODE.exists() or shutil.which("node") is not None)
    if name == "inspector":
        return INSPECTOR.exists() and NODE.exists()
    return name != "fastmcp" or FASTMCP.exists()
