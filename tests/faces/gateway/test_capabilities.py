"""The gateway relays the capabilities of clients to its MCP servers, and theirs to clients.

In the handshake of MCP, each side declares what it can do: `"sampling": {}` is a client that
answers requests for a text of its model.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from exthost.faces.gateway.capabilities import declared_handlers
from tests.extensions.harness import wait_until
from tests.faces.gateway.gateway_process import (
    ERAS,
    command,
    environment,
    extension,
    open_gateway,
    write_config,
)
from tests.faces.gateway.test_inside import client_of
from tests.faces.gateway.test_stdio import HANDSHAKE, encode_lines, tool_call

APPS = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}

# An MCP server whose only tool returns the capabilities that its client has declared.
SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        declared = message["params"]["capabilities"]
        reply["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {},
            "extensions": {"example.org/server": {"a": 1}}},
            "serverInfo": {"name": "s", "version": "1"}}
    elif message["method"] == "tools/list":
        reply["result"] = {"tools": [{"name": "declared", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        reply["result"] = {"content": [{"type": "text", "text": json.dumps(declared)}]}
    else:
        reply["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(reply), flush=True)
"""


@pytest.mark.more  # each row starts a gateway and a server
@pytest.mark.sampled
@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"extensions": APPS},
        {"roots": {"listChanged": True}},
        {"sampling": {}, "elicitation": {"form": {}}},
        {"sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}, "extensions": APPS},
    ],
)
def test_a_server_receives_exactly_the_capabilities_of_the_client(
    capabilities: dict[str, Any], tmp_path: Path
) -> None:
    server = extension("server", "mcp", "-S", "-E", "-c", SERVER)
    config = write_config(tmp_path, {"extensions": [server]})
    initialize, initialized = HANDSHAKE
    params = {**initialize["params"], "capabilities": capabilities}
    messages = ({**initialize, "params": params}, initialized, tool_call(1, "ext_server_declared"))
    result = subprocess.run(
        # With a host of its own, so that its server has no other client.
        command(config, "--own"),
        input=encode_lines(*messages),
        env=environment(),
        capture_output=True,
        timeout=150,
        check=False,
    )
    replies = [json.loads(line) for line in result.stdout.splitlines()]
    (reply,) = [reply for reply in replies if reply.get("id") == 1]
    assert json.loads(reply["result"]["content"][0]["text"]) == capabilities


@pytest.mark.parametrize("era", ERAS)  # of the client: with the handshake of MCP, or without
async def test_the_client_receives_the_extensions_of_the_servers(era: str) -> None:
    server = extension("server", "mcp", "-S", "-E", "-c", SERVER)
    async with open_gateway({"extensions": [server]}) as gateway:
        await wait_until(lambda: "ext_server_declared" in gateway.host.tools)
        async with client_of(gateway, era) as client:
            declared = client.server_capabilities
            assert declared is not None and declared.extensions is not None
            assert declared.extensions["example.org/server"] == {"a": 1}


def test_invalid_settings_of_a_capability_are_ignored() -> None:
    # A name that is present counts, whatever its value is. An extension of MCP needs a valid name
    # and a table of settings.
    invalid: dict[str, Any] = {
        "roots": None,
        "sampling": 3,
        "elicitation": [],
        "extensions": {"a b": {}, "c": 1},
    }
    assert [*declared_handlers(invalid)] == [
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
    ]
    assert [*declared_handlers({"extensions": []})] == []
