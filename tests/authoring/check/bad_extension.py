"""An extension with one fault, for tests of `exthost check`.

    bad_extension.py DIALECT FAULT [FILE]

DIALECT is the protocol that it speaks. It needs only the standard library. With the fault "none" it
has two tools, `shout` and `count`, and passes every check. Each other fault changes one thing; the
table in `test_planted_faults.py` says which rule it breaks. FILE is used by faults that depend on
earlier starts.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DIALECT, FAULT = sys.argv[1:3]
FILE = Path(sys.argv[3] if len(sys.argv) > 3 else "none")
IN, OUT = 0, 1
requests = 0

Message = dict[str, Any]

SCHEMA: Message = {
    "invalid-input-schema": {"type": "objekt"},
    "list-schema": {"type": "array"},
}.get(FAULT, {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
OUTPUT = {"type": "objet"} if FAULT == "invalid-output-schema" else {"type": "object"}


# -- writing -----------------------------------------------------------------------------------


def encode_payload(message: Message) -> bytes:
    if FAULT == "in-a-list":
        return json.dumps([message]).encode()
    if FAULT == "python-notation":
        return repr(message).encode()
    if FAULT == "pretty":
        return json.dumps(message, indent=2).encode()
    if FAULT == "latin-1":
        return json.dumps({**message, "note": "é"}, ensure_ascii=False).encode("latin-1")
    if FAULT == "nan":
        return json.dumps({**message, "note": float("nan")}).encode()
    return json.dumps(message, ensure_ascii=FAULT != "characters").encode()


def write(message: Message) -> None:
    """Write a message in the frame of the dialect, or in a wrong one."""
    data = encode_payload(message)
    if DIALECT == "synaps":
        length = len(data)
        if FAULT == "length-too-long":
            length += 3
        if FAULT == "length-too-short":
            length -= 3
        if FAULT == "huge-length":
            length = 10**9
        data = b"Content-Length: %d\r\n\r\n" % length + data
    elif FAULT == "headers":
        data = b"Content-Length: %d\r\n\r\n" % len(data) + data
    elif FAULT != "no-newline":
        data += b"\n"
    if FAULT == "mark-each":
        data = b"\xef\xbb\xbf" + data
    if FAULT == "utf-16":
        data = data.decode().encode("utf-16-le")
    os.write(OUT, data)


def reply(id: Any, **outcome: Any) -> None:
    """Answer a request with a result or an error."""
    if FAULT == "slow":
        time.sleep(0.08)
    message = (
        {"id": id, **outcome} if DIALECT == "morphir" else {"jsonrpc": "2.0", "id": id, **outcome}
    )
    if FAULT == "wrong-id":
        message["id"] = id + 100
    if FAULT == "text-id":
        message["id"] = str(id)
    if FAULT == "no-id":
        del message["id"]
    if FAULT == "no-version":
        del message["jsonrpc"]
    if FAULT == "misspelt" and "result" in message:
        message["reslt"] = message.pop("result")
    if FAULT == "only-null-error" and "error" in message:
        message["error"] = None
    if FAULT == "method-in-reply":
        message["method"] = "initialize"
    if FAULT == "only-results":
        message = {"text": "HI"}
    if FAULT == "asks" and id == 1:
        write({"id": 1, "method": "log", "params": {}})
    if FAULT == "null-error" and "result" in message:
        message["error"] = None
    if FAULT == "result-and-error":
        message = {"result": None, **message, "error": message.get("error") or "no"}
    write(message)
    if FAULT == "twice":
        write(message)


def fail(id: Any, text: str, code: int = -32602) -> None:
    if DIALECT == "morphir":
        error: Any = {"text": text} if FAULT == "error-form" else text
    else:
        error = {"code": "E_FAIL" if FAULT == "error-form" else code, "message": text}
    reply(id, error=error)


# -- answering ---------------------------------------------------------------------------------


def tools() -> list[Message]:
    """Return the tools as the dialect lists them."""
    key = {"morphir": "params_schema", "mcp": "inputSchema"}.get(DIALECT, "input_schema")
    shout: Message = {"name": "shout", "description": "Upper case", key: SCHEMA}
    if DIALECT == "mcp":
        shout["outputSchema"] = {**OUTPUT, "properties": {"n": {"type": "integer"}}}
    if DIALECT == "morphir" and FAULT == "invalid-output-schema":
        shout["return_schema"] = OUTPUT
    if FAULT == "list-output-schema":
        shout["outputSchema"] = {"type": "array"}
    count: Message = {"name": "count", "description": "Count", key: {"type": "object"}}
    if FAULT == "no-schema":
        del count[key]
    if FAULT == "null-schema":
        count[key] = None
    if FAULT == "same-name":
        count["name"] = "shout"
    if FAULT == "spaced-name":
        count["name"] = "a b/c"
    if FAULT == "no-description":
        count["description"] = ""
    if FAULT == "offers-nothing":
        return []
    if FAULT == "forgets" and count_starts() > 1:
        return [shout]
    return [shout, count]


def count_starts() -> int:
    return len(FILE.read_text())


def call_tool(id: Any, name: str, arguments: Message) -> None:
    if FAULT == "hangs":
        return None
    if FAULT == "blocks-in-call" and arguments.get("text"):
        time.sleep(60)
    if FAULT == "deep-error":  # as Node prints an uncaught exception
        stack = [f"    at frame {number}" for number in range(15)]
        sys.exit("\n".join(["Error: no such city", *stack, "", "Node.js v20"]))
    if FAULT == "dies-in-call":
        raise ValueError("no such city")
    if FAULT == "wrong-id-in-call":
        id += 100
    if name not in ("shout", "count") and FAULT != "any-tool":
        return fail(id, f"there is no tool {name}")
    if FAULT == "any-arguments":
        text = "?"
    elif FAULT == "dies-of-arguments":
        text = arguments["text"]
    elif name == "shout" and "text" not in arguments:
        return fail(id, "text is missing")
    else:
        text = arguments.get("text", "")
    if FAULT == "orphan-of-call":
        null = subprocess.DEVNULL
        subprocess.Popen(["sleep", "31"], stdin=null, stdout=null, stderr=null)
    if FAULT == "no-token":
        progress = {"method": "notifications/progress", "params": {"progress": 1}}
        write({"jsonrpc": "2.0", **progress})
    if FAULT == "null-id-notification":
        params = {"id": id, "progress": 1}
        write({"jsonrpc": "2.0", "id": None, "method": "tools/progress", "params": params})
    if DIALECT != "mcp":
        return reply(id, result=text.upper())
    content: list[Message] = [{"type": "text", "text": text.upper()}]
    data: Message = {"n": "many"} if FAULT == "result-against-schema" else {"n": 1}
    if FAULT == "no-content":
        return reply(id, result=[text])
    result: Message = {"content": content, "structuredContent": data}
    if FAULT == "unknown-block":
        content[0]["type"] = "txt"
    if FAULT == "no-mime-type":
        content[0] = {"type": "image", "data": "aGk="}
    if FAULT == "no-base64":
        content[0] = {"type": "image", "data": "hi!", "mimeType": "image/png"}
    if FAULT == "text-is-error":
        result["isError"] = "false"
    if FAULT == "only-structured":
        del result["content"]
    return reply(id, result=result)


def quit_after(number: int) -> None:
    """Exit at the request after this many requests."""
    global requests
    requests += 1
    if requests > number:
        sys.exit(0)


def answer(message: Message) -> None:
    """Answer a message of the host, if it is a request."""
    method, id = message["method"], message.get("id")
    params: Any = message.get("params")
    if id is None:
        if FAULT == "dies-of-cancel" and method == "notifications/cancelled":
            sys.exit("what is cancelled?")
        if FAULT == "answers-notifications":
            return fail(None, f"unknown: {method}", -32601)
        if FAULT == "result-for-notifications":
            return reply(None, result={})
        return None
    if FAULT == "silent":
        return None
    if FAULT.startswith("quits-"):
        quit_after(int(FAULT.removeprefix("quits-")))
    if method == "initialize":
        version = "1999-01-01" if FAULT == "old-revision" else "2025-11-25"
        if FAULT == "refuses":
            return fail(id, "no")
        results: Message = {
            "morphir": {},
            "nexo": {"server_version": "1.0", "tools": tools()},
            "synaps": {"protocol_version": 1, "capabilities": {"tools": tools()}},
            "mcp": {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bad", "version": "1.0"},
            },
        }
        if FAULT == "no-capabilities":
            del results["mcp"]["capabilities"]
        if FAULT == "unknown-hook":
            results["nexo"]["hooks"] = ["on_tool"]
        if FAULT == "no-protocol-version":
            del results["mcp"]["protocolVersion"]
        if FAULT == "no-server-info":
            del results["mcp"]["serverInfo"]
        reply(id, result=results[DIALECT])
        if FAULT == "exits-after-one":
            sys.exit(0)
        return None
    if method == "capabilities" and DIALECT == "morphir":
        return reply(id, result={} if FAULT == "no-list" else tools())
    if method == "tools/list":
        next_page = {"nextCursor": "2"} if FAULT == "endless-list" else {}
        return reply(id, result={"tools": tools(), **next_page})
    if method == "ping":
        return reply(id, result={})
    if method in ("tools/call", "tool.call"):
        return call_tool(id, params["name"], params.get("arguments", params.get("input")))
    if DIALECT == "morphir" and method in ("shout", "count"):
        return call_tool(id, method, params)
    if method == "shutdown":
        if FAULT != "no-shutdown":
            reply(id, result=None)
        return None
    if FAULT == "ignores-unknown":
        return None
    if FAULT == "dies-of-unknown" and method != "server/discover":
        sys.exit("what is that?")
    if FAULT == "knows-everything":
        return reply(id, result={})
    return fail(id, f"unknown: {method}", -32601)


# -- reading -----------------------------------------------------------------------------------


def messages() -> Iterator[Message]:
    """Yield each message when all of its bytes have arrived."""
    pending = b""
    while data := os.read(IN, 65536):
        if FAULT == "one-read-one-message":
            try:
                yield json.loads(data)
            except ValueError:
                pass
            continue
        pending += data
        while (frame_and_rest := split_frame(pending)) is not None:
            frame, pending = frame_and_rest
            if FAULT == "first-of-a-read":
                pending = b""
            if FAULT == "small-buffer" and len(frame) > 65536:
                continue
            if frame.strip():
                yield json.loads(frame)


def split_frame(pending: bytes) -> tuple[bytes, bytes] | None:
    """Return the first frame and the rest of these bytes, None if the frame is not complete."""
    if DIALECT != "synaps":
        line, newline, rest = pending.partition(b"\n")
        return (line, rest) if newline else None
    head, blank, rest = pending.partition(b"\r\n\r\n")
    if not blank:
        return None
    length = int(head.partition(b":")[2])
    return (rest[:length], rest[length:]) if len(rest) >= length else None


def main() -> None:
    if FAULT == "slow-start":
        time.sleep(60)
    if FAULT == "dies-at-start":
        raise RuntimeError("no database")
    if FAULT == "prints":
        os.write(OUT, b"starting up!\n")
    if FAULT == "mark":
        os.write(OUT, b"\xef\xbb\xbf")
    if FAULT == "utf-16":
        os.write(OUT, b"\xff\xfe")
    if FAULT == "ignores-sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if FAULT == "forgets":
        with FILE.open("a") as file:
            file.write("x")
    if FAULT == "lock":
        if FILE.exists():
            sys.exit(f"{FILE} is there: is another one running?")
        FILE.touch()
    if FAULT == "orphan":
        subprocess.Popen(["sleep", "30"])
    if FAULT == "quiet-orphan":  # in a new session and without the pipes
        null = subprocess.DEVNULL
        orphan = subprocess.Popen(
            ["sleep", "30"], stdin=null, stdout=null, stderr=null, start_new_session=True
        )
        FILE.write_text(str(orphan.pid))
    if FAULT == "ends-its-child":
        ended_child = subprocess.Popen(["sleep", "30"])
    has_received = False
    for message in messages():
        has_received = True
        answer(message)
    if FAULT == "lock":
        FILE.unlink()
    if FAULT == "ends-its-child":
        ended_child.terminate()
    if FAULT == "ignores-end" or (FAULT == "ignores-early-end" and not has_received):
        time.sleep(60)
    sys.exit(3 if FAULT == "bad-status" else 0)


main()
