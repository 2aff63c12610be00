"""Tests of log messages that MCP servers send through the gateway to its clients.

The gateway passes on a limited number per second, and a message that comes before a large result
must not damage it.
"""

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from exthost.faces.gateway.announcer import MAX_LOGS_PER_SECOND, _LogLimit
from tests.faces.gateway.gateway_process import extension, http_client, http_gateway, write_config
from tests.faces.gateway.test_inside import result_text

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

RESULT_BYTES = 3 * 2**20

# An MCP server whose tool sends a log message and then returns a result of as many bytes as its
# argument says.
SERVER = """
import json, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, result = message["method"], {}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "big", "version": "1"},
                  "capabilities": {"tools": {}, "logging": {}}}
    elif method == "tools/list":
        result = {"tools": [{"name": "big", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        send(method="notifications/message", params={"level": "error", "data": "soon"})
        result = {"content": [{"type": "text", "text": "x" * int(sys.argv[1])}]}
    send(id=message["id"], result=result)
"""


async def test_messages_beyond_the_limit_are_left_out_and_counted() -> None:
    reports: asyncio.Queue[int] = asyncio.Queue()
    limit = _LogLimit(reports.put_nowait)
    allowed = sum(limit.allows_next() for _ in range(MAX_LOGS_PER_SECOND + 50))
    assert allowed + await reports.get() == MAX_LOGS_PER_SECOND + 50
    assert allowed == MAX_LOGS_PER_SECOND
    assert limit.allows_next()


@pytest.mark.more
async def test_a_log_message_does_not_break_a_large_result(tmp_path: Path) -> None:
    log_messages: asyncio.Queue[Any] = asyncio.Queue()

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        log_messages.put_nowait(params.data)

    server = extension("big", "mcp", "-S", "-E", "-c", SERVER, str(RESULT_BYTES))
    config = write_config(tmp_path, {"extensions": [server]})
    with http_gateway(config) as running:
        async with http_client(running, "handshake", logging_callback=on_log) as client:
            result = await client.call_tool("ext_big_big", {})
            assert len(result_text(result)) == RESULT_BYTES
            assert await log_messages.get() == "soon"
