"""An MCP server with everything that the page can show. Standard library only.

Tools: a table, a picture, progress, an error, a crash, and text that would be markup or a script
if a page let it.
"""

import base64
import json
import math
import os
import struct
import sys
import zlib
from typing import Any

ATTACK = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"

STEPS = {"type": "object", "properties": {"steps": {"type": "integer", "minimum": 1, "default": 4}}}
FORECAST = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where", "default": "Lima"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 5},
        "unit": {"enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "wind": {"type": "boolean", "description": "Also how strong the wind is"},
        "place": {
            "type": "object",
            "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
        },
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
WORDS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = {
    "forecast": ("The weather of the next days, as a table", FORECAST),
    "chart": ("A picture of a wave", NOTHING),
    "count": ("Counts, and reports progress", STEPS),
    "echo": ("Returns its text", WORDS),
    "fail": ("Fails, and says why", NOTHING),
    "crash": ("Ends its process", NOTHING),
    "attack": (f"Its text is an attack: {ATTACK}", NOTHING),
}


def send(**message: Any) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def chart(width: int = 320, height: int = 120) -> str:
    """Return a wave as a PNG."""
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            wave = height / 2 + math.sin(x / 22) * height / 3
            near = max(0.0, 1 - abs(y - wave) / 3)
            rows += bytes((int(245 - 200 * near), int(247 - 150 * near), int(252 - 40 * near)))

    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(rows))) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def call(params: Any) -> dict[str, Any]:
    name, given = params["name"], params.get("arguments") or {}
    if name == "forecast":
        sky = ("clear", "cloudy", "rain")
        days = [
            {"day": day + 1, "sky": sky[day % 3], "low": 14 + day % 4, "high": 21 + day % 5}
            for day in range(given.get("days", 3))
        ]
        data = {"forecast": days}
        return text(json.dumps(data)) | {"structuredContent": data}
    if name == "chart":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": chart()}]}
    if name == "count":
        token = params.get("_meta", {}).get("progressToken")
        steps = given.get("steps", 4)
        for step in range(1, steps + 1):
            behaviour = {
                "progressToken": token,
                "progress": step,
                "total": steps,
                "message": f"#{step}",
            }
            send(method="notifications/progress", params=behaviour)
        return text(f"counted to {steps}")
    if name == "echo":
        return text(given["text"])
    if name == "fail":
        sys.stderr.write("fail: the sensor is not connected\n")
        sys.stderr.flush()
        return text("the sensor is not connected") | {"isError": True}
    if name == "crash":
        sys.stderr.write("crash: out of cheese\n")
        sys.stderr.flush()
        os._exit(3)
    return text(ATTACK)


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        method, id = asked.get("method"), asked.get("id")
        if method == "initialize":
            about = {"name": "showcase", "version": "1.0"}
            version = asked["params"]["protocolVersion"]
            result: Any = {"protocolVersion": version, "capabilities": {"tools": {}}}
            send(id=id, result=result | {"serverInfo": about})
        elif method == "tools/list":
            tools = [
                {"name": name, "description": description, "inputSchema": schema}
                for name, (description, schema) in TOOLS.items()
            ]
            send(id=id, result={"tools": tools})
        elif method == "tools/call":
            send(id=id, result=call(asked["params"]))
        elif id is not None:
            send(id=id, error={"code": -32601, "message": "no such method"})


if __name__ == "__main__":
    main()
