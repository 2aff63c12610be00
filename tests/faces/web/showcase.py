"""An MCP server for tests of a host's web page: its tools return everything that the page can show.

It has tools that return a table, a picture, progress, an error, and text with markup and a script
that a page must not run; another tool crashes. The schema of `order` has everything for which the
page has a form field. The server uses only the standard library.
"""

import base64
import json
import math
import os
import struct
import sys
import zlib
from typing import Any

# Markup that would change the title of the page if it was not shown as text.
ATTACK = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"

STEPS = {"type": "object", "properties": {"steps": {"type": "integer", "minimum": 1, "default": 4}}}
FORECAST = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where", "default": "Lima"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 5},
        "unit": {"enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "wind": {"type": "boolean", "description": "Include the wind"},
        "place": {
            "type": "object",
            "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
        },
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
}
ORDER = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "pattern": "^[A-Z]{3}-\\d+$", "description": "Of the shop"},
        "due": {"type": "string", "format": "date"},
        "amount": {"type": "number", "minimum": 0.5, "maximum": 100},
        "customer": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 2},
                "email": {"type": "string", "format": "email"},
            },
            "required": ["name"],
        },
        "items": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "sku": {"type": "string"},
                    "count": {"type": "integer", "minimum": 1},
                },
                "required": ["sku", "count"],
            },
        },
        "payment": {
            "oneOf": [
                {
                    "title": "card",
                    "type": "object",
                    "properties": {"kind": {"const": "card"}, "number": {"type": "string"}},
                    "required": ["kind", "number"],
                },
                {
                    "title": "invoice",
                    "type": "object",
                    "properties": {"kind": {"const": "invoice"}, "days": {"type": "integer"}},
                    "required": ["kind"],
                },
            ]
        },
    },
    "required": ["code", "customer", "items"],
}
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = {
    "forecast": ("The weather of the next days, as a table", FORECAST),
    "chart": ("A picture of a wave", NO_ARGUMENTS),
    "count": ("Counts, and reports progress", STEPS),
    "order": ("Takes an order with nested objects", ORDER),
    "echo": ("Returns its text", TEXT),
    "fail": ("Fails with a reason", NO_ARGUMENTS),
    "crash": ("Ends its process", NO_ARGUMENTS),
    "attack": (f"Its text is an attack: {ATTACK}", NO_ARGUMENTS),
}


CAPABILITIES: dict[str, Any] = {
    "tools": {},
    "resources": {},
    "prompts": {},
    "logging": {},
    "completions": {},
}
# The results of requests for lists.
LISTS = {
    "resources/list": {"resources": [{"uri": "note://1", "name": "first note"}]},
    "resources/templates/list": {
        "resourceTemplates": [{"uriTemplate": "note://{id}", "name": "note"}]
    },
    "prompts/list": {
        "prompts": [
            {"name": "review", "arguments": [{"name": "language", "required": True}]},
        ]
    },
}


def send(**message: Any) -> None:
    """Write a message to stdout."""
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def text_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def chart(width: int = 320, height: int = 120) -> str:
    """Return the picture of a wave as a PNG in base64."""
    rows = bytearray()
    for y in range(height):
        rows.append(0)  # each row begins with its filter; 0 is none
        for x in range(width):
            wave = height / 2 + math.sin(x / 22) * height / 3
            weight = max(0.0, 1 - abs(y - wave) / 3)
            rows += bytes(
                (int(245 - 200 * weight), int(247 - 150 * weight), int(252 - 40 * weight))
            )

    def chunk(kind: bytes, data: bytes) -> bytes:
        content = kind + data
        return struct.pack(">I", len(data)) + content + struct.pack(">I", zlib.crc32(content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(rows))) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def call(params: Any) -> dict[str, Any]:
    """Run a tool; return its result."""
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "forecast":
        sky = ("clear", "cloudy", "rain")
        days = [
            {"day": day + 1, "sky": sky[day % 3], "low": 14 + day % 4, "high": 21 + day % 5}
            for day in range(arguments.get("days", 3))
        ]
        data = {"forecast": days}
        return text_result(json.dumps(data)) | {"structuredContent": data}
    if name == "chart":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": chart()}]}
    if name == "count":
        token = params.get("_meta", {}).get("progressToken")
        steps = arguments.get("steps", 4)
        for step in range(1, steps + 1):
            progress = {
                "progressToken": token,
                "progress": step,
                "total": steps,
                "message": f"#{step}",
            }
            send(method="notifications/progress", params=progress)
        return text_result(f"counted to {steps}")
    if name == "order":
        return text_result(json.dumps(arguments)) | {"structuredContent": arguments}
    if name == "echo":
        return text_result(arguments["text"])
    if name == "fail":
        sys.stderr.write("fail: the sensor is not connected\n")
        sys.stderr.flush()
        return text_result("the sensor is not connected") | {"isError": True}
    if name == "crash":
        sys.stderr.write("crash: out of cheese\n")
        sys.stderr.flush()
        os._exit(3)
    return text_result(ATTACK)


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        method, id = request.get("method"), request.get("id")
        if method == "initialize":
            server_info = {"name": "showcase", "version": "1.0"}
            version = request["params"]["protocolVersion"]
            result: Any = {"protocolVersion": version, "capabilities": CAPABILITIES}
            send(id=id, result=result | {"serverInfo": server_info})
        elif method == "tools/list":
            tools = [
                {"name": name, "description": description, "inputSchema": schema}
                for name, (description, schema) in TOOLS.items()
            ]
            send(id=id, result={"tools": tools})
        elif method in LISTS:
            send(id=id, result=LISTS[method])
        elif method == "resources/read":
            uri = request["params"]["uri"]
            send(id=id, result={"contents": [{"uri": uri, "text": f"the text of {uri}"}]})
        elif method == "prompts/get":
            language = request["params"]["arguments"].get("language")
            content = {"type": "text", "text": f"Review this {language} code"}
            send(id=id, result={"messages": [{"role": "user", "content": content}]})
        elif method == "completion/complete":
            typed = request["params"]["argument"]["value"]
            values = [name for name in ("python", "pascal", "rust") if name.startswith(typed)]
            send(id=id, result={"completion": {"values": values}})
        elif method == "logging/setLevel":
            sys.stderr.write(f"level {request['params']['level']}\n")
            sys.stderr.flush()
            send(id=id, result={})
        elif method == "tools/call":
            send(id=id, result=call(request["params"]))
        elif id is not None:
            send(id=id, error={"code": -32601, "message": "no such method"})


if __name__ == "__main__":
    main()
