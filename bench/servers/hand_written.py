"""An MCP server as one writes it by hand: a line in, a line out, no schema and no checks."""

import json
import sys
from typing import Any

TOOL = {"name": "echo", "description": "Echo", "inputSchema": {"type": "object"}}
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "hand-written", "version": "1"},
}


def answer(method: str, params: Any) -> Any:
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    return HELLO if method == "initialize" else {"tools": [TOOL]}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params"))
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()
