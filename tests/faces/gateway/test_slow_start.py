"""Requests to the gateway for resources and prompts wait for an MCP server that is still starting.

The gateway does not know yet which resources such a server has. So a request for an unknown
resource waits until all servers have started, and is then sent to the server that has it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError

from exthost.faces.gateway.server import Gateway
from tests.extensions.harness import wait_until
from tests.faces.gateway.gateway_process import extension, open_gateway
from tests.faces.gateway.test_inside import client_of

# The limit of a wait for an event that always comes. It only bounds a test that hangs.
LONG_SECONDS = 150.0
# The first list of a client does not wait for servers that are starting.
NO_WAIT: dict[str, Any] = {"gateway": {"first_list": "0s"}}

# An MCP server with the resource NAME:a and the prompt NAME. It starts when the file exists.
SERVER = """
import json, os, sys, time
name, file = sys.argv[1:]
while not os.path.exists(file):
    time.sleep(0.02)
subscribed = []
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params") or {}
    uri, result = name + ":a", None
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "serverInfo": {"name": name, "version": "1"},
                  "capabilities": {"resources": {"subscribe": True}, "prompts": {}}}
    elif method == "resources/list":
        result = {"resources": [{"uri": uri, "name": "a"}]}
    elif method == "prompts/list":
        result = {"prompts": [{"name": name}]}
    elif method == "resources/read" and params["uri"] == uri:
        result = {"contents": [{"uri": uri, "text": " ".join(subscribed)}]}
    elif method == "resources/subscribe":
        subscribed.append(params["uri"])
        result = {}
    elif method == "prompts/get" and params["name"] == name:
        result = {"messages": [{"role": "user", "content": {"type": "text", "text": name}}]}
    elif method == "completion/complete":
        result = {"completion": {"values": [name]}}
    reply = {"result": result} if result is not None else {
        "error": {"code": -32002, "message": name + " has no such thing"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
"""


def server(name: str, file: Path) -> dict[str, Any]:
    """Return the config of a server that starts when the file exists."""
    return extension(name, "mcp", "-S", "-E", "-c", SERVER, name, str(file))


def is_ready(gateway: Gateway, name: str) -> bool:
    return any(ext.id == name and ext.state == "ready" for ext in gateway.host.extensions)


async def read_resource(client: Client) -> str:
    (contents,) = (await client.read_resource("late:a")).contents
    assert isinstance(contents, types.TextResourceContents)
    return contents.text


async def get_prompt(client: Client) -> str:
    (message,) = (await client.get_prompt("ext_late_late")).messages
    assert isinstance(message.content, types.TextContent)
    return message.content.text


async def complete(client: Client) -> str:
    ref = types.PromptReference(name="ext_late_late")
    return (await client.complete(ref, {"name": "x", "value": ""})).completion.values[0]


async def subscribe(client: Client) -> str:
    params = types.SubscribeRequestParams(uri="late:a")
    request = types.SubscribeRequest(params=params)  # not deprecated, unlike the client's method
    await client.session.send_request(request, types.EmptyResult)
    return await read_resource(client)


@pytest.mark.parametrize(
    ("send_request", "expected"),
    [(read_resource, ""), (get_prompt, "late"), (complete, "late"), (subscribe, "late:a")],
)
async def test_a_request_waits_for_the_server_of_the_resource_or_prompt(
    send_request: Callable[[Client], Awaitable[str]],
    expected: str,
    tmp_path: Path,
) -> None:
    servers = [server("early", tmp_path), server("late", tmp_path / "go")]
    async with (
        open_gateway({**NO_WAIT, "extensions": servers}) as gateway,
        client_of(gateway) as client,
    ):
        await wait_until(lambda: is_ready(gateway, "early"))
        request = asyncio.ensure_future(send_request(client))
        # The gateway has received the request above when the early server has answered this one.
        assert (await client.read_resource("early:a")).contents
        (tmp_path / "go").touch()
        async with asyncio.timeout(LONG_SECONDS):
            assert await request == expected


async def test_an_error_of_the_server_of_a_resource_is_answered_without_waiting_for_others(
    tmp_path: Path,
) -> None:
    # This server lists its resource, but cannot read it.
    program = SERVER.replace('"resources/read" and', '"resources/read" and not')
    early = extension("early", "mcp", "-S", "-E", "-c", program, "early", str(tmp_path))
    servers = [early, server("late", tmp_path / "go")]
    async with open_gateway({**NO_WAIT, "extensions": servers}) as gateway:
        await wait_until(lambda: is_ready(gateway, "early"))
        async with client_of(gateway) as client, asyncio.timeout(LONG_SECONDS):
            with pytest.raises(MCPError, match="early has no such thing"):
                await client.read_resource("early:a")
            assert gateway.host["late"].state == "starting"
        (tmp_path / "go").touch()
