"""An MCP server for tests whose tools send requests to the client.

`form` asks for the fields of a form, `sample` for a text of the client's model, and `roots` for the
folders of the client. Each tool returns the client's answer as JSON. The server uses only the
standard library.
"""

import json
import os
import sys
from typing import Any

FORM = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "days": {"type": "integer", "minimum": 1},
    },
    "required": ["city"],
}
# By tool: the method and the params of its request.
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "form": ("elicitation/create", {"message": "Where <b>to</b>?", "requestedSchema": FORM}),
    "sample": (
        "sampling/createMessage",
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "A haiku, please"}}],
            "systemPrompt": "You are a poet",
            "maxTokens": 100,
        },
    ),
    "roots": ("roots/list", {}),
}
NO_ARGUMENTS = {"type": "object", "properties": {}}


def send(**message: Any) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def ask_client(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request to the client, and return the answer: its result or its error. Notifications
    that come before the answer are ignored."""
    send(id="question", method=method, params=params)
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        if message.get("id") == "question":
            return message.get("result") or {"error": message["error"]}
    sys.exit()


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request of the client; None if there is no such method."""
    if method == "initialize":
        info = {"name": "asking", "version": "1"}
        revision = "2025-06-18"
        return {"protocolVersion": revision, "serverInfo": info, "capabilities": {"tools": {}}}
    if method == "tools/list":
        tools = [{"name": name, "inputSchema": NO_ARGUMENTS} for name in REQUESTS]
        return {"tools": tools}
    if method == "tools/call":
        text = json.dumps(ask_client(*REQUESTS[params["name"]]))
        return {"content": [{"type": "text", "text": text}]}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        result = answer(request["method"], request.get("params") or {})
        if result is None:
            send(id=request["id"], error={"code": -32601, "message": "no such method"})
        else:
            send(id=request["id"], result=result)
