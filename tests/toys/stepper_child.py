"""The extension of the toy dialect `stepper`, a protocol for tests of progress and cancellation.

    climb  reports each of its `steps`, and returns their number
    wait   never answers
    heard  returns the ids of cancelled and of waiting calls

It imports only the standard library, and is run with -S -E.
"""

import json
import sys
from typing import Any

CANCELLED: list[Any] = []
WAITING: list[Any] = []


def write(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def send_progress(call: Any, done: int, of: int) -> None:
    write(method="progress", params={"call": call, "done": done, "of": of, "at": f"step {done}"})


for line in sys.stdin:
    message = json.loads(line)
    method, params, id = message["method"], message["params"], message.get("id")
    if method == "initialize":
        write(id=id, result={"name": "stepper", "tools": ["climb", "wait", "heard"]})
    elif method == "cancelled":
        CANCELLED.append(params["id"])
    elif method == "tool" and params["name"] == "climb":
        steps = params["with"]["steps"]
        for done in range(1, steps + 1):
            send_progress(id, done, steps)
        send_progress("nobody's", 1, 1)  # of no call: the host must ignore it
        write(id=id, result={"climbed": steps})
    elif method == "tool" and params["name"] == "wait":
        WAITING.append(id)
        send_progress(id, 1, 2)
    elif method == "tool":
        write(id=id, result={"cancelled": CANCELLED, "waiting": WAITING})
