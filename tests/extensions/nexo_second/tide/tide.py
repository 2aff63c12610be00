"""An extension for tests that speaks the second version of nexo's protocol (JSON-RPC on lines).

It asserts that the requests of the host have the form which that version requires. It uses only the
standard library.
"""

import json
import os
import sys
from typing import Any

TOOLS = {
    "tide_next": "The next tide",
    "tide_fail": "Fails",
    "tide_exit": "Exits with a status",
    "tide_config": "The config",
    "tide_recall": "Asks the host for memories",
}
SCHEMA = {"type": "object"}
config: Any = None


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value: str) -> Any:
    return {"content": [{"type": "text", "text": value}], "is_error": False}


def recall(params: Any) -> Any:
    """Send a request to the host, with an id that the host does not use, and return its answer."""
    write({"id": 900, "method": "memory.recall", "params": params})
    for line in sys.stdin:
        answer = json.loads(line)
        if answer.get("id") == 900:
            return {"recalled": answer.get("result"), "refused": answer.get("error")}
    return None


def handle(method: str, params: Any) -> Any:
    global config
    if method == "initialize":
        print("not JSON, which the host skips", flush=True)
        write({"method": "broker.publish", "params": {"topic": "tide.up", "event": {}}})
        assert list(params) == ["nexo_version"], params
        tools = [{"name": n, "description": d, "input_schema": SCHEMA} for n, d in TOOLS.items()]
        plugin = {"id": "tide", "version": "1.2.0"}
        return {"manifest": {"plugin": plugin}, "server_version": "1.2.0", "tools": tools}
    if method == "plugin.configure":
        config = params["value"]
        return {}
    if method == "hook.on_hook":
        assert params["plugin_id"] == "tide" and params["hook_name"] == "before_tool_call"
        if "storm" in str(params["event"]["arguments"]):
            return {"abort": True, "reason": "a storm"}
        return None
    if method == "tide.send":
        return text(f"sent to {params['args']['to']}")
    if method == "shutdown":
        sys.stderr.write(f"shutdown: {params['reason']}\n")
        return {"ok": True}
    assert method == "tool.invoke", method
    assert params["plugin_id"] == "tide", params
    name, args = params["tool_name"], params["args"]
    if name == "tide_next":
        return text(
            f"high at {args['port']} for {params['agent_id']}, {os.environ['TIDE_STATION']}"
        )
    if name == "tide_fail":
        return {"content": [{"type": "text", "text": "no gauge"}], "is_error": True}
    if name == "tide_exit":
        os._exit(args["status"])
    if name == "tide_config":
        return config
    if name == "tide_recall":
        return recall({"agent_id": params["agent_id"], "query": "tides", "limit": 3})
    raise LookupError(name)


for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = {"result": handle(request["method"], request.get("params"))}
    except LookupError as error:
        # The codes of nexo's protocol for an unknown tool and for an error of a tool.
        answer = {"error": {"code": -33401, "message": f"no tool {error}"}}
    except Exception as error:
        answer = {"error": {"code": -33403, "message": repr(error)}}
    write({"id": request["id"], **answer})
    if request["method"] == "shutdown":
        sys.exit(0)
