#!/usr/bin/env python3
"""A nexo extension: JSON-RPC 2.0, one object a line. No dependencies.

By hand:  echo '{"jsonrpc":"2.0","method":"tools/list","params":{},"id":1}' | python3 weather.py
"""

import json
import sys
from typing import Any

TOOL = {
    "name": "get_weather",
    "description": "The weather in a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def get_weather(arguments: Any) -> Any:
    # `_meta` is from the host, never from the caller: it may be relied on.
    agent = arguments.get("_meta", {}).get("agent_id")
    return {"city": arguments["city"], "sky": "clear", "asked_by": agent}


def before_tool_call(event: Any) -> Any:
    if event["arguments"].get("city") == "Atlantis":
        return {"abort": True, "reason": "Atlantis has sunk"}
    return None


METHODS = {
    "initialize": lambda _: {
        "server_version": "1.0.0",
        "tools": [TOOL],
        "hooks": ["before_tool_call"],
    },
    "tools/list": lambda _: {"tools": [TOOL]},
    "tools/call": lambda params: get_weather(params["arguments"]),
    "hooks/before_tool_call": before_tool_call,
}

for line in sys.stdin:
    if not line.strip():
        break  # the empty message: the host says goodbye
    request = json.loads(line)
    method = METHODS.get(request["method"])
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    if method is None:
        reply["error"] = {"code": -32601, "message": f"method not found: {request['method']}"}
    else:
        try:
            reply["result"] = method(request["params"])
        except Exception as error:
            reply["error"] = {"code": -32000, "message": repr(error)}
    print(json.dumps(reply), flush=True)
