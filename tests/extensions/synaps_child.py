"""A plugin of the dialect synaps (JSON-RPC with Content-Length) whose behaviour a test chooses.

    synaps_child.py ['{"offer": …, "hooks": {kind: answer}, "init": [[method, params], …], …}']

    offer         its answer to initialize
    init          requests that it sends to the host before it answers initialize
    hooks         its answer to each hook, or "die", "hang", "flood" or "echo"
    heard         a file to which it appends every message that it reads
    linger        present: it does not exit after shutdown or at the end of stdin
    fork          a file for the pid of a grandchild, which it starts
    events        notifications that commands and providers send
    result        the result of commands and providers
    fails         the error message of commands and providers
    methods       the results of other methods
    die           it exits after the events, as soon as this file exists
    die first     it exits before the events or before a hook, if this file does not exist yet
    again         a file, and the offer that it makes if this file exists
    ready         a file that its handshake waits for
    crash         present: it exits in every handshake
    crash second  two files: it exits in the handshake if only the first one exists
    pids          a file to which it appends its pid

After it has sent a request, it uses the next message as the answer, without a check.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

behaviour = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
TOOLS = (
    *("echo", "env", "cwd", "id", "ask", "die", "nap", "raw", "flood", "started", "then", "big"),
    "echo_length",
)
STDIN, STDOUT = sys.stdin.buffer, sys.stdout.buffer
started: Any = None
answers: list[Any] = []  # the answers to the requests of `init`
requests_sent = 0


def offered() -> Any:
    schema = {"type": "object"}
    tools = [{"name": name, "description": name, "input_schema": schema} for name in TOOLS]
    return {"protocol_version": 1, "capabilities": {"tools": tools}}


def read() -> Any:
    """Return the next message; exit at the end of stdin."""
    length = 0
    while True:
        line = STDIN.readline()
        if not line:
            while "linger" in behaviour:
                time.sleep(1)
            os._exit(0)
        if not line.strip():
            break
        length = int(line.split(b":")[1])
    message = json.loads(STDIN.read(length))
    if "heard" in behaviour:
        with Path(behaviour["heard"]).open("a") as file:
            file.write(json.dumps(message) + "\n")
    return message


def send(message: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    STDOUT.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    STDOUT.flush()


def ask(method: str, params: Any) -> Any:
    """Send a request to the host; return the next message."""
    global requests_sent
    requests_sent += 1
    send({"method": method, "params": params, "id": requests_sent})
    return read()


def wait_for(file: str) -> None:
    """Wait until the test has created this file."""
    while not Path(file).exists():
        time.sleep(0.005)


def call(name: str, input: Any, id: int) -> Any:
    if name == "env":
        return dict(os.environ)
    if name == "cwd":
        return str(Path.cwd())
    if name == "id":
        return id
    if name == "started":
        return {"params": started, "answers": answers, "argv": sys.argv}
    if name == "ask":
        return ask(input["method"], input.get("params", {}))
    if name == "then":  # as `ask`, after a while
        time.sleep(input["seconds"])
        return ask(input["method"], input.get("params", {}))
    if name == "die":
        once = input.get("once")
        if once is None or not Path(once).exists():
            if once is not None:
                Path(once).touch()
            print("I die", file=sys.stderr, flush=True)
            os._exit(input.get("code", 3))
        return "alive"
    if name == "nap":
        wait_for(input["until"])
    if name == "echo_length":
        return {"length": len(input["params"]["image"])}
    if name == "raw":
        STDOUT.write(input["text"].encode("latin-1"))
        STDOUT.flush()
        time.sleep(input.get("seconds", 0))
    if name == "big":  # a frame of exactly this size
        frame = '{"method":"x","params":"%s"}'
        frame %= "y" * (input["bytes"] - len(frame % ""))
        STDOUT.write(b"Content-Length: %d\r\n\r\n%s" % (len(frame), frame.encode()))
    if name == "flood":
        for n in range(input["times"]):
            send({"method": input.get("method", "task.log"), "params": {"id": "x", "line": str(n)}})
    return input


def die_first() -> None:
    """Exit if the behaviour has `die first` and its file does not exist; create the file before."""
    once = behaviour.get("die first")
    if once is not None and not Path(once).exists():
        Path(once).touch()
        os._exit(3)


def hook(kind: str, params: Any) -> Any:
    die_first()
    answer = behaviour.get("hooks", {}).get(kind, {"action": "continue"})
    if answer == "die":
        os._exit(1)
    if answer == "echo":  # the params as the reason of a refusal, where the test can read them
        return {"action": "block", "reason": json.dumps(params)}
    while answer == "flood":
        send({"jsonrpc": "2.0", "method": "noise", "params": "x" * 10_000})
    while answer == "hang":
        time.sleep(1)
    return answer


def invoke(params: Any) -> Any:
    """Send the events of a command or a provider, and return its result."""
    die_first()
    for method, output in behaviour.get("events", []):
        if output.get("request_id") == "mine":  # stands for the id of this request
            output = {**output, "request_id": params["request_id"]}
        send({"method": method, "params": output})
    if "die" in behaviour:
        wait_for(behaviour["die"])
        os._exit(3)
    if behaviour.get("fails"):
        raise RuntimeError(behaviour["fails"])
    return behaviour.get("result", {"content": []})


def answer(message: Any) -> Any:
    global started
    method, params = message["method"], message["params"]
    if method == "initialize":
        if "crash" in behaviour:
            os._exit(4)
        if "crash second" in behaviour:
            first, second = map(Path, behaviour["crash second"])
            if first.exists() and not second.exists():
                second.touch()
                os._exit(4)
        if "ready" in behaviour:
            wait_for(behaviour["ready"])
        started = params
        for init_method, init_params in behaviour.get("init", []):
            answers.append(ask(init_method, init_params))
        if "again" in behaviour and Path(behaviour["again"][0]).exists():
            return behaviour["again"][1]
        return behaviour.get("offer", offered())
    if method == "tool.call":
        return call(params["name"], params["input"], message["id"])
    if method == "hook.handle":
        return hook(params["kind"], params)
    if method in ("command.invoke", "provider.stream", "provider.complete"):
        return invoke(params)
    return behaviour.get("methods", {}).get(method, {"method": method, "params": params})


if "pids" in behaviour:
    with Path(behaviour["pids"]).open("a") as file:
        file.write(f"{os.getpid()}\n")
if "fork" in behaviour:
    grandchild = subprocess.Popen([sys.executable, "-S", "-E", "-c", "import time; time.sleep(60)"])
    Path(behaviour["fork"]).write_text(str(grandchild.pid))
while True:
    message = read()
    if message.get("id") is None or "method" not in message:
        continue
    try:
        send({"id": message["id"], "result": answer(message)})
    except Exception as error:
        # A test checks that `data` reaches the caller.
        send({"id": message["id"], "error": {"code": -32000, "message": str(error), "data": [1]}})
