"""An extension of the dialect nexo (JSON-RPC on lines) that does what a test tells it to.

    nexo_child.py ['{"offer": …, "hooks": {name: answer}, "listed": …, "heard": FILE, "exit": N}']

    offer    its answer to initialize
    hooks    its answer to each hook, or "die", "hang" or "echo"
    listed   its answer to tools/list; without it, the method is unknown
    heard    a file to which it appends every line that it reads
    exit     it exits with this status before the handshake
    hang     it never answers

Tools: echo, env, cwd, id (returns the id of the request), ask (sends a request to the host), die,
refuse (fails), and whine (writes a stray line, a notification and an answer without a request).
The tools in the offer are those of the default; a tool of another name returns its arguments.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

behaviour = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
offer = behaviour.get("offer", {"tools": ["echo", "env", "cwd", "id", "ask", "die", "whine"]})


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def note(line: str) -> None:
    if "heard" in behaviour:
        with Path(behaviour["heard"]).open("a") as file:
            file.write(json.dumps(line) + "\n")


def call(name: str, arguments: Any, id: Any) -> Any:
    if name == "env":
        return dict(os.environ)
    if name == "cwd":
        return str(Path.cwd())
    if name == "id":
        return id
    if name == "ask":
        say({"method": arguments.get("method", "nobody"), "params": {}, "id": arguments["id"]})
        return json.loads(sys.stdin.readline())
    if name == "die":
        os._exit(arguments.get("code", 1))
    if name == "whine":
        print("a stray line", flush=True)
        say({"method": "progress", "params": 7})
        say({"result": "nobody asked", "id": 999999})
        return "done"
    return arguments


def hook(name: str) -> Any:
    answer = behaviour.get("hooks", {}).get(name)
    if answer == "die":
        os._exit(1)
    return answer


if "exit" in behaviour:
    print("I will not", file=sys.stderr, flush=True)
    os._exit(behaviour["exit"])
while "hang" in behaviour and sys.stdin.readline():
    pass
while True:
    line = sys.stdin.readline()
    note(line)
    if not line:
        break
    if not line.strip():
        continue
    request = json.loads(line)
    method, params, id = request["method"], request["params"], request["id"]
    if method == "initialize":
        say({"result": offer, "id": id})
    elif method == "tools/call" and params["name"] == "refuse":
        say({"error": {"code": -32000, "message": "not today", "data": [1]}, "id": id})
    elif method == "tools/call":
        say({"result": call(params["name"], params["arguments"], id), "id": id})
    elif method == "tools/list" and "listed" in behaviour:
        say({"result": behaviour["listed"], "id": id})
    elif method.startswith("hooks/") and hook(method[6:]) == "echo":
        say({"result": {"override": {"seen": params}}, "id": id})
    elif method.startswith("hooks/"):
        answer = hook(method[6:])
        if answer != "hang":
            say({"result": answer, "id": id})
    else:
        say({"error": {"code": -32601, "message": "method not found"}, "id": id})
