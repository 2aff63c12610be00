#!/usr/bin/env python3
"""A synaps plugin in plain Python: tools, memory, config, hooks and a command. No dependencies.

One loop. When it asks the host something it simply reads the next message: the host promises
that this is the answer, as long as it is asked one thing at a time.
"""

import json
import sys
import time
from typing import Any

STDIN, STDOUT = sys.stdin.buffer, sys.stdout.buffer
asked = 0
plugin: dict[str, Any] = {"id": "notes", "config": {}}


def read() -> Any:
    length = 0
    while True:
        line = STDIN.readline()
        if not line:
            sys.exit(0)
        line = line.strip()
        if not line:
            break
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            length = int(value)
    return json.loads(STDIN.read(length))


def send(message: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    STDOUT.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    STDOUT.flush()


def ask(method: Any, params: Any) -> Any:
    global asked
    asked += 1
    send({"method": method, "params": params, "id": asked})
    answer = read()
    if "error" in answer:
        raise RuntimeError(answer["error"]["message"])
    return answer["result"]


def notify(method: str, **params: Any) -> None:
    send({"method": method, "params": params})


def tool(name: Any, description: Any, **properties: Any) -> Any:
    return {
        "name": name,
        "description": description,
        "input_schema": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
        },
    }


def initialize(params: Any) -> Any:
    plugin.update(id=params["plugin_id"], config=params["config"])
    ask("memory.append", {"namespace": plugin["id"], "content": "started", "tags": ["life"]})
    ask("config.set", {"key": "last_start", "value": str(int(time.time()))})
    ask("config.subscribe", {"keys": ["greeting"]})
    return {
        "protocol_version": 1,
        "capabilities": {
            "tools": [
                tool("add_note", "Remember a note", text={"type": "string"}),
                tool("find_notes", "Notes that contain a text", text={"type": "string"}),
            ]
        },
    }


def add_note(arguments: Any) -> Any:
    greeting = plugin["config"].get("greeting", "note")
    content = f"{greeting}: {arguments['text']}"
    return ask("memory.append", {"namespace": plugin["id"], "content": content, "tags": ["note"]})


def find_notes(arguments: Any) -> Any:
    found = ask(
        "memory.query",
        {
            "namespace": plugin["id"],
            "tag_prefix": "note",
            "content_contains": arguments["text"],
            "limit": int(plugin["config"].get("limit", 5)),
        },
    )
    return [record["content"] for record in found["records"]]


def hook(event: Any) -> Any:
    if event["kind"] != "before_tool_call":
        return {"action": "continue"}
    if "top secret" in json.dumps(event["tool_input"]):
        return {"action": "block", "reason": "that is private"}
    return {"action": "confirm", "message": f"{event['tool_name']} sees a secret: continue?"}


def export(params: Any) -> Any:
    """A command: output and progress as it goes, then the result."""
    request = params["request_id"]

    def say(content: Any) -> Any:
        event = {"kind": "text", "content": content}
        notify("command.output", request_id=request, event=event)

    notify("task.start", id="export", label="Exporting", kind="generic")
    steps = int(params["args"][0]) if params["args"] else 4
    for step in range(1, steps + 1):
        notify("task.update", id="export", current=step, total=steps)
    say(f"exported {steps} notes")
    notify("task.done", id="export")
    return {"exported": steps}


def answer(method: Any, params: Any) -> Any:
    if method == "initialize":
        return initialize(params)
    if method == "tool.call":
        return {"add_note": add_note, "find_notes": find_notes}[params["name"]](params["input"])
    if method == "hook.handle":
        return hook(params)
    if method == "command.invoke" and params["command"] == "export":
        return export(params)
    if method == "info.get":
        return {"build": {"backend": "python"}, "capabilities": [], "models": []}
    if method == "shutdown":
        return None
    raise LookupError(f"method not found: {method}")


while True:
    message = read()
    if message.get("id") is None:
        if message.get("method") == "config.changed":
            plugin["config"][message["params"]["key"]] = message["params"]["value"]
        continue
    try:
        send({"id": message["id"], "result": answer(message["method"], message["params"])})
    except Exception as error:
        send({"id": message["id"], "error": {"code": -32000, "message": str(error)}})
    if message["method"] == "shutdown":
        break
