#!/usr/bin/env python3
"""A roder extension in plain Python: each service once. No dependencies.

Its services are in the manifest beside it, which it echoes when it is started.
"""

import json
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

MANIFEST = Path(__file__).parent / "roder-extension.toml"
CANCELLED: dict[str, threading.Event] = {}  # of each task that runs: set when it is to end
OUTPUT = threading.Lock()


def send(**message: Any) -> None:
    with OUTPUT:  # tasks write from threads of their own
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def checksum(data: Any) -> Any:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def initialize(params: Any) -> Any:
    data = MANIFEST.read_bytes()
    return {
        "protocolVersion": "0.2.0",
        "extensionId": params["extensionId"],
        "services": tomllib.loads(data.decode())["provides"],
        "manifestChecksum": checksum(data),
    }


def call_tool(params: Any) -> Any:
    words = len(params["arguments"]["text"].split())
    return {"content": f"{words} words", "isError": False, "data": {"words": words}}


def stream_turn(params: Any) -> Any:
    """Say the last thing the user said, word by word. Events may come before the reply."""
    said = [item["UserMessage"]["text"] for item in params["request"]["transcript"]]
    events: list[Any] = [{"MessageDelta": {"text": f"{word} "}} for word in said[-1].split()]
    events.append({"Completed": {"stop_reason": "end_turn", "provider_response_id": None}})
    for event in events:
        send(method="inference/event", params={"streamId": params["streamId"], "event": event})
    return {"streamId": params["streamId"]}


def dispatch(params: Any) -> Any:
    result = {"final_message": params["request"]["prompt"].upper(), "exit_reason": "completed"}
    for event in (
        {"type": "status", "status": "thinking"},
        {"type": "completed", "result": result},
    ):
        send(method="subagents/event", params={"dispatchId": params["dispatchId"], "event": event})
    return {"dispatchId": params["dispatchId"]}


def execute(params: Any) -> Any:
    """Tick until there were enough ticks, or until it is cancelled."""
    name = params["executionId"]
    CANCELLED[name] = threading.Event()
    threading.Thread(target=tick, args=(name, params["input"]), daemon=True).start()
    return {"executionId": name}


def tick(name: Any, wanted: Any) -> Any:
    for n in range(wanted["ticks"]):
        event: Any = {"type": "output", "stream": "stdout", "chunk": f"tick {n}\n"}
        send(method="tasks/event", params={"executionId": name, "event": event})
        if CANCELLED[name].wait(wanted.get("seconds", 0.01)):
            return
    event = {"type": "completed", "result": {"exit_code": 0, "payload": {"ticks": n + 1}}}
    send(method="tasks/event", params={"executionId": name, "event": event})


def cancel(params: Any) -> Any:
    CANCELLED.pop(params["executionId"]).set()
    print(f"cancelled: {params.get('reason')}", file=sys.stderr, flush=True)


def handle_event(params: Any) -> Any:
    print(f"dear diary: {params['envelope']['kind']}", file=sys.stderr, flush=True)


METHODS: dict[str, Any] = {
    "extension/initialize": initialize,
    "tools/call": call_tool,
    "inference/listModels": lambda _: {"models": [{"id": "parrot-1", "name": "Parrot"}]},
    "inference/streamTurn": stream_turn,
    "subagents/definitions": lambda _: {
        "definitions": [{"agent_type": "shouter", "description": "Says it louder"}]
    },
    "subagents/dispatch": dispatch,
    "subagents/cancel": lambda _: None,
    "tasks/spec": lambda _: {
        "spec": {"kind": "ticker", "description": "Ticks", "input_schema": {}}
    },
    "tasks/execute": execute,
    "tasks/cancel": cancel,
    "events/handle": handle_event,
    "extension/shutdown": lambda _: None,
}

for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    try:
        result = METHODS[method](message.get("params"))
    except Exception as error:
        if id is not None:
            send(id=id, error={"code": -32000, "message": f"{type(error).__name__}: {error}"})
        continue
    if id is not None:
        send(id=id, result=result)
    if method == "extension/shutdown":
        break
