"""An MCP server in one page, standard library only. Speaks the handshake revisions."""

import json
import sys
from typing import Any

TOOLS = [
    {
        "name": "count",
        "description": "Count words",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {"words": {"type": "integer"}},
            "required": ["words"],
        },
    }
]


def answer(method: Any, params: Any) -> Any:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "text", "version": "1.0"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params["name"] == "count":
        words = len(params["arguments"]["text"].split())
        text = [{"type": "text", "text": str(words)}]
        return {"content": text, "structuredContent": {"words": words}}
    if method == "ping":
        return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue  # a notification
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        result = answer(message["method"], message.get("params", {}))
    except (KeyError, AttributeError) as error:
        reply["error"] = {"code": -32602, "message": f"missing or of the wrong type: {error}"}
    else:
        if result is None:
            reply["error"] = {"code": -32601, "message": f"unknown: {message['method']}"}
        else:
            reply["result"] = result
    print(json.dumps(reply), flush=True)
