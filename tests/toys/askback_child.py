"""The extension of the toy dialect (protocol) `askback`, which sends requests to its host.

It has one thread: after a request to the host it reads exactly one frame, which must be the answer.
Its methods do what their params ask, for example {"events": 3, "die": 1}. With the argument `lines`
it uses lines instead of Content-Length headers. It imports only the standard library, and is run
with -S -E.
"""

import json
import os
import select
import sys
from pathlib import Path
from typing import Any

LINES = "lines" in sys.argv
ASKED = 0  # the number of requests to the host, and the id of the last one
METHODS: list[str] = []  # the methods of all requests, in order
HEARD: list[dict[str, Any]] = []  # all notifications and cancellations, in order
HELD: list[Any] = []  # ids of requests that are answered when the next request comes
INPUT = bytearray()  # what was read and does not belong to a frame yet
WRONG_ANSWER = -32099  # the error code for a message that should have been an answer


class AnswerLater(Exception):
    """Raised by a method whose answer is sent when the next request comes."""


def read() -> dict[str, Any]:
    """Read one frame."""
    message: dict[str, Any]
    if LINES:
        while (end := INPUT.find(b"\n")) < 0:
            fill()
        message = json.loads(bytes(INPUT[:end]))
        del INPUT[: end + 1]
        return message
    while (end := INPUT.find(b"\r\n\r\n")) < 0:
        fill()
    length = int(INPUT[:end].partition(b":")[2])
    while len(INPUT) < end + 4 + length:
        fill()
    body = bytes(INPUT[end + 4 : end + 4 + length])
    del INPUT[: end + 4 + length]
    message = json.loads(body)
    return message


def fill() -> None:
    data = os.read(0, 65536)
    if not data:
        sys.exit(0)
    INPUT.extend(data)


def frame(**message: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    if LINES:
        return body + b"\n"
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def send(**message: Any) -> None:
    write(frame(**message))


def ask(method: str, params: Any) -> dict[str, Any]:
    """Send a request to the host. The next message must be its answer."""
    global ASKED
    ASKED += 1
    send(method=method, params=params, id=ASKED)
    received = read()
    if received.get("id") != ASKED or "method" in received:
        message = f"got {received} instead of an answer"
        return {"error": {"code": WRONG_ANSWER, "message": message}}
    return received


def event(method: str, **params: Any) -> bytes:
    return frame(method=method, params=params)


def write_and_record(data: bytes, n: int, noted: Path) -> None:
    """Write, and record the number of the event if the pipe is full for a while."""
    while data:
        while not select.select([], [1], [], 0.3)[1]:
            noted.write_text(str(n))
        data = data[os.write(1, data[:4096]) :]


def run(params: dict[str, Any]) -> Any:
    """Send events and then the reply. The file `noted` gets the event at which writing blocked."""
    pad = "x" * params.get("pad", 0)
    for n in range(params["events"]):
        data = event("run.event", n=n, pad=pad)
        if "noted" in params:
            write_and_record(data, n, Path(params["noted"]))
        else:
            write(data)
    if params.get("bad"):
        send(method="run.event", params="not an event")
    if "fail" in params:
        raise RuntimeError(params["fail"])
    if params.get("hold"):
        raise AnswerLater
    if "die" in params:
        os._exit(params["die"])
    if "ask" in params:
        return ask(params["ask"], {"in": "run"})
    return {"sent": params["events"]}


def watch(params: dict[str, Any], id: int) -> None:
    """Send events before the acknowledgement, the acknowledgement, and events after it."""
    name = params["stream"]
    for word in params.get("before", ()):
        send(method="watch.event", params={"stream": name, "event": word})
    padding = {"padding": "x" * params["padding"]} if "padding" in params else {}
    send(id=id, result={"stream": params.get("acknowledge", name)} | padding)
    emit(params | {"events": params.get("after", ())})


def emit(params: dict[str, Any]) -> None:
    words = params["events"]
    for word in range(words) if isinstance(words, int) else words:
        send(method="watch.event", params={"stream": params["stream"], "event": word})


def serve(method: str, params: Any, id: int) -> Any:
    if method == "initialize":
        config = ask("config.get", {"key": "name"})
        unknown = ask("no.such.method", None)
        refused = unknown.get("error", {}).get("code")
        learnt = {"serves": params["serves"], "refused": refused}
        return {"name": config.get("result"), "tools": ["hammer"], "learnt": learnt}
    if method == "relay":
        return ask(params["method"], params["params"])
    if method == "chat":  # the host must read the notification before it answers
        send(method="say", params="wait for it")
        return ask("slow", None)
    if method == "tool":
        return [params["name"], params["with"]]
    if method == "run":
        return run(params)
    if method == "emit":
        emit(params)
        return "emitted"
    if method == "null_error":
        send(id=None, error={"code": -32700, "message": "could not parse that"})
        return "right"
    if method == "heard":
        return HEARD
    if method == "asked":
        return METHODS[1:-1]
    return params


def main() -> None:
    while True:
        message = read()
        method, id = message.get("method", ""), message.get("id")
        params: Any = message.get("params")
        if id is None or method == "watch.cancel":
            HEARD.append({"method": method, "params": params})
        if id is None:
            continue
        METHODS.append(method)
        for late in HELD:
            send(id=late, result="late")
        HELD.clear()
        if method == "hold":
            HELD.append(id)
        elif method == "watch":
            watch(params, id)
        else:
            try:
                send(id=id, result=serve(method, params, id))
            except AnswerLater:
                HELD.append(id)
            except RuntimeError as error:
                send(id=id, error={"code": -1, "message": str(error), "data": [1]})
        if method == "shutdown":
            sys.exit(0)


main()
