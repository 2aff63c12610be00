"""An extension of the dialect roder (JSON-RPC on lines) that does what a test tells it to.

    roder_child.py MANIFEST [key=value …]

The arguments replace members of its handshake reply; the values are JSON. With the argument `hang`
or `die` it hangs or exits in the handshake. Each method of `Tools` is a tool.

The reply to some requests (STREAMS) is a stream of events. Such a request has a `script`, a list of
steps: ["ack"], ["ack", OTHER], ["refuse"], ["event", EVENT], ["event", EVENT, STREAM], ["die",
CODE], ["raw", TEXT]. After the step ["wait"], the script continues when the tool `go` is called.

It uses the standard library only, and is run with `python -S -E`, so that it starts quickly.
"""

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

MANIFEST = Path(sys.argv[1])
REPLACED_MEMBERS = dict(word.split("=", 1) for word in sys.argv[2:] if "=" in word)
RECEIVED: list[Any] = []  # the messages other than tool calls
WAITING_SCRIPTS: list[Any] = []  # what follows a step ["wait"], until `go` is called

# By method: the member of its params with the name of the stream, the method of its events, and the
# member of its params with the script.
STREAMS = {
    "inference/streamTurn": ("streamId", "inference/event", "request"),
    "subagents/dispatch": ("dispatchId", "subagents/event", "request"),
    "tasks/execute": ("executionId", "tasks/event", "input"),
}


def send(**message: Any) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def checksum(data: bytes) -> str:
    """Return the checksum of a manifest in the handshake, FNV-1a with 64 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def initialize(params: Any) -> Any:
    if "hang" in sys.argv:
        sys.stdin.read()
    if "die" in sys.argv:
        os._exit(4)
    data = MANIFEST.read_bytes()
    manifest = tomllib.loads(data.decode())
    echo = {
        "protocolVersion": "0.2.0",
        "extensionId": manifest["id"],
        "services": manifest["provides"],
        "manifestChecksum": checksum(data),
    }
    return echo | {key: json.loads(value) for key, value in REPLACED_MEMBERS.items()}


class Tools:
    """Each method is a tool of the manifest that the tests write."""

    def echo(self, params: Any) -> Any:
        return text(params)

    def heard(self, params: Any) -> Any:
        return text(RECEIVED)

    def environment(self, params: Any) -> Any:
        return text({"env": dict(os.environ), "cwd": str(Path.cwd()), "args": sys.argv})

    def emit(self, params: Any) -> Any:
        for message in params["arguments"]["messages"]:
            send(**message)
        return text("emitted")

    def raw(self, params: Any) -> Any:
        os.write(1, params["arguments"]["text"].encode())
        return text("written")

    def go(self, params: Any) -> Any:
        waiting, WAITING_SCRIPTS[:] = list(WAITING_SCRIPTS), []
        for id, method, stream_params, script in waiting:
            play(id, method, stream_params, script)
        return text("gone")

    def fail(self, params: Any) -> Any:
        return {"content": "as you wish", "isError": True}

    def malformed(self, params: Any) -> Any:
        return {"content": 7}

    def refuse(self, params: Any) -> Any:
        raise RuntimeError("not today")

    def die(self, params: Any) -> Any:
        print("dying, as I was told", file=sys.stderr, flush=True)
        os._exit(params["arguments"]["code"])


def text(value: Any) -> Any:
    """Return a result of a tool with this value as text and as data."""
    return {"content": json.dumps(value), "isError": False, "data": value}


def play(id: int, method: str, params: Any, script: list[Any]) -> None:
    """Do the steps of a script."""
    key, event_method, _ = STREAMS[method]
    for n, (verb, *rest) in enumerate(script):
        if verb == "ack":
            send(id=id, result={key: rest[0] if rest else params[key]})
        elif verb == "refuse":
            send(id=id, error={"code": -1, "message": "no such model"})
        elif verb == "event":
            name = rest[1] if len(rest) > 1 else params[key]
            send(method=event_method, params={key: name, "event": rest[0]})
        elif verb == "die":
            os._exit(rest[0])
        elif verb == "raw":
            os.write(1, rest[0].encode())
        elif verb == "wait":
            WAITING_SCRIPTS.append((id, method, params, script[n + 1 :]))
            return


def answer(method: str, params: Any) -> Any:
    if method == "extension/initialize":
        return initialize(params)
    if method == "tools/call":
        return getattr(Tools(), params["toolName"])(params)
    if method == "inference/listModels":
        return json.loads(
            REPLACED_MEMBERS.get("models", '{"models": [{"id": "m", "name": "M", "x": 1}]}')
        )
    if method == "subagents/definitions":
        return {"definitions": [{"agent_type": "a", "description": "d", "max_turns": 3}]}
    if method == "tasks/spec":
        return {"spec": {"kind": "k", "description": "d", "input_schema": {"type": "object"}}}
    return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        id, method, params = message.get("id"), message.get("method"), message.get("params")
        if method is None:
            RECEIVED.append(message)
            continue
        if method != "tools/call":
            RECEIVED.append({"method": method, "params": params})
        if method in STREAMS:
            play(id, method, params, params[STREAMS[method][2]]["script"])
            continue
        if method == "tools/call" and params["toolName"] == "hang":
            continue
        if id is None:
            continue
        try:
            send(id=id, result=answer(method, params))
        except RuntimeError as error:
            send(id=id, error={"code": -32000, "message": str(error)})
        if method == "extension/shutdown":
            return


main()
