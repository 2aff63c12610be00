"""A Python equivalent of echo.c, for machines without a C compiler. It is slower, and the table
says so.

    python echo.py             a morphir extension that echoes
    python echo.py --schema    the same, and its tool has a schema for its arguments
    python echo.py --mcp       an MCP server with one tool, which returns the text of its arguments
    python echo.py --nexo      a nexo extension with the same tool, and with two hooks, which it
                               answers with null
    python echo.py --raw       sends every byte back

Runs as a script in a bare interpreter, so it imports nothing of exthost.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

READ_BYTES = 65536
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOL = {"name": "echo", "description": "Returns its params"}
OFFER = json.dumps([TOOL]).encode()
CHECKED_OFFER = json.dumps([{**TOOL, "params_schema": SCHEMA}]).encode()
MCP_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "python", "version": "1"},
}
NEXO_HELLO = {
    "server_version": "1",
    "hooks": ["before_tool_call", "after_tool_call"],
    "tools": [{"name": "echo", "description": "", "input_schema": SCHEMA}],
}


def send(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def answer(line: bytes, offer: bytes = OFFER) -> bytes:
    """Return the reply to one request in the member order of exthost, in which params is last."""
    head, found, params = line.partition(b'"params":')
    if not found:
        sys.stderr.write(f"echo: not a request: {line[:80]!r}\n")
        return b""
    request = json.loads(head + b'"params":0}')
    match request["method"]:
        case "initialize":
            result = b"{}"
        case "capabilities":
            result = offer
        case "big":
            result = b'"' + b"x" * int(params.rstrip()[:-1]) + b'"'
        case _:
            result = params.rstrip()[:-1]
    return b'{"id":%d,"result":%b}\n' % (request["id"], result)


def answer_checked(line: bytes) -> bytes:
    """Return the reply of the extension whose tool has a schema."""
    return answer(line, CHECKED_OFFER)


def echo_result(request: dict[str, Any]) -> dict[str, Any]:
    """Return a result of MCP with the text of the arguments."""
    return {"content": [{"type": "text", "text": request["params"]["arguments"]["text"]}]}


def answer_mcp(line: bytes) -> bytes:
    """Return the reply to one JSON-RPC request of an MCP client; empty for a notification."""
    request = json.loads(line)
    if "id" not in request:
        return b""
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    match request["method"]:
        case "tools/call":
            reply["result"] = echo_result(request)
        case "initialize":
            reply["result"] = MCP_HELLO
        case "tools/list":
            reply["result"] = {"tools": [{"name": "echo", "inputSchema": SCHEMA}]}
        case _:
            reply["error"] = {"code": -32601, "message": "unknown"}
    return json.dumps(reply, separators=(",", ":")).encode() + b"\n"


def answer_nexo(line: bytes) -> bytes:
    """Return the reply to one request of a nexo host; empty for a notification."""
    request = json.loads(line)
    if "id" not in request:
        return b""
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"], "result": None}
    match request["method"]:
        case "tools/call":
            reply["result"] = echo_result(request)
        case "initialize":
            reply["result"] = NEXO_HELLO
    return json.dumps(reply, separators=(",", ":")).encode() + b"\n"


def serve_lines(answer: Callable[[bytes], bytes]) -> None:
    buffer = bytearray()
    searched = 0
    while data := os.read(0, READ_BYTES):
        buffer += data
        replies = []
        start = 0
        while (stop := buffer.find(b"\n", searched)) >= 0:
            replies.append(answer(bytes(buffer[start:stop])))
            start = searched = stop + 1
        del buffer[:start]
        searched = len(buffer)
        send(b"".join(replies))


def serve_bytes() -> None:
    while data := os.read(0, READ_BYTES):
        send(data)


MODES = {"--schema": answer_checked, "--mcp": answer_mcp, "--nexo": answer_nexo}

if __name__ == "__main__":
    try:
        mode = "".join(sys.argv[1:])
        if mode == "--raw":
            serve_bytes()
        else:
            serve_lines(MODES.get(mode, answer))
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)
