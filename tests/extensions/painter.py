"""An MCP server for tests of agents: its tools return a picture, fail, hang or crash.

It uses the standard library only, and is run with `python -S -E`, so that it starts quickly. The
tool `hang` writes its request to the file in the first argument, if there is one, and so does its
cancellation.
"""

import base64
import json
import os
import sys
import zlib
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object", "properties": {}}
SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
PAIR = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


def chunk(kind: bytes, data: bytes) -> bytes:
    """Return a chunk of a PNG."""
    check = zlib.crc32(kind + data).to_bytes(4, "big")
    return len(data).to_bytes(4, "big") + kind + data + check


# An image of one red pixel.
PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", b"\0\0\0\1\0\0\0\1\x08\2\0\0\0")
    + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    + chunk(b"IEND", b"")
)


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def paint(arguments: Any) -> Any:
    image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
    return {"content": [text(f"painted {arguments['text']}"), image]}


def fail(arguments: Any) -> Any:
    return {"content": [text("the brush is dry")], "isError": True}


def add(arguments: Any) -> Any:
    total = arguments["a"] + arguments["b"]
    return {"content": [text(str(total))], "structuredContent": {"sum": total}}


def hang(arguments: Any) -> Any:
    return None  # no reply is sent


def crash(arguments: Any) -> Any:
    print("the easel broke", file=sys.stderr, flush=True)
    os._exit(3)


def tool(name: str, schema: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"{name.title()}", "inputSchema": schema, **more}


TOOLS = [
    tool("paint", TEXT),
    tool("fail", NOTHING),
    tool("add", PAIR, outputSchema=SUM),
    tool("hang", NOTHING),
    tool("crash", NOTHING),
]


def write(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def record(line: str) -> None:
    """Append a message to the file in the first argument."""
    if len(sys.argv) > 1:
        with open(sys.argv[1], "a", encoding="utf-8") as file:  # noqa: PTH123 - starts faster
            file.write(line)


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        params, id = request.get("params") or {}, request.get("id")
        match request.get("method"):
            case "initialize":
                server_info = {"name": "painter", "version": "1"}
                version = params["protocolVersion"]
                offered = {"protocolVersion": version, "capabilities": {"tools": {}}}
                write(id=id, result=offered | {"serverInfo": server_info})
            case "tools/list":
                write(id=id, result={"tools": TOOLS})
            case "tools/call":
                if params["name"] == "hang":
                    record(line)
                token = (params.get("_meta") or {}).get("progressToken")
                if token is not None and params["name"] == "add":
                    steps = {"progressToken": token, "progress": 1, "total": 2}
                    write(method="notifications/progress", params=steps)
                result = globals()[params["name"]](params.get("arguments") or {})
                if result is not None:
                    write(id=id, result=result)
            case "notifications/cancelled":
                record(line)
            case _ if id is not None:
                write(id=id, error={"code": -32601, "message": "no such method"})


if __name__ == "__main__":
    main()
