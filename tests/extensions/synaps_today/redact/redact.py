"""A plugin of synaps in its protocol 1, for tests: it hides a password in tool outputs.

Its hook `after_tool_call` replaces the output of other extensions' tools. It uses only the standard
library.
"""

import json
import sys
from typing import Any

SCHEMA = {"type": "object"}
TOOLS = [{"name": name, "description": name, "input_schema": SCHEMA} for name in ("leak", "fail")]


def hook(event: dict[str, Any]) -> dict[str, Any]:
    if event["kind"] == "on_session_start":
        return {"action": "inject", "content": f"Session {event['session_id']}: hide secrets."}
    if event["kind"] == "before_message":
        return {"action": "inject", "content": f"seen in {event['session_id']}"}
    output = event["tool_output"]
    if "hunter2" in output:
        return {"action": "replace", "output": output.replace("hunter2", "*******")}
    if "grow" in output:  # more than the MiB that the host accepts: 600 Ki characters of two bytes
        return {"action": "replace", "output": "é" * (600 * 1024)}
    return {"action": "continue"}


def handle(method: str, params: Any) -> Any:
    if method == "initialize":
        return {"protocol_version": 1, "capabilities": {"tools": TOOLS}}
    if method == "hook.handle":
        return hook(params)
    if method == "tool.call" and params["name"] == "leak":
        return {"content": params["input"]["text"]}
    if method == "tool.call":
        if params["name"] != "fail":
            raise LookupError(f"no tool {params['name']}")
        raise RuntimeError("the password hunter2 is wrong")
    if method in ("shutdown", "info.get"):
        return None
    raise LookupError(f"no method {method}")


while header := sys.stdin.buffer.readline():
    sys.stdin.buffer.readline()
    request = json.loads(sys.stdin.buffer.read(int(header.split(b":")[1])))
    try:
        answer = {"result": handle(request["method"], request["params"])}
    except Exception as error:
        answer = {"error": {"code": -32000, "message": str(error)}}
    body = json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()
    if request["method"] == "shutdown":
        break
