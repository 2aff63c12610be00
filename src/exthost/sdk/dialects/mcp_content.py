"""The results of MCP tools and resources: content blocks and structured content.

A tool whose return type is annotated has an output schema and structured content, save one that
returns text. In the handshake era structured content must be an object, so any other value is
wrapped in `{"result": …}`, as other servers do.
"""

import base64
from typing import Any

from exthost.sdk.registry import Resource
from exthost.sdk.types.function import Function
from exthost.sdk.types.json_text import encode, encode_text
from exthost.sdk.types.schema import Schema


class Shape:
    """How the results of one function are written."""

    def __init__(self, function: Function) -> None:
        self.function = function
        schema = None if function.returns in (str, None, type(None)) else function.output_schema
        if function.is_generator:
            schema = {"type": "array"}
        self.is_wrapped = schema is not None and schema.get("type") != "object"
        self.output_schema = _wrap(schema) if self.is_wrapped and schema is not None else schema
        if schema == {}:  # Any: nothing is promised
            self.output_schema, self.is_wrapped = None, False


def _wrap(schema: Schema) -> Schema:
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    return {
        "type": "object",
        "properties": {"result": inner},
        "required": ["result"],
        **definitions,
    }


def tool(name: str, shape: Shape) -> dict[str, Any]:
    """Return the entry of a tool in `tools/list`."""
    function = shape.function
    entry = {
        "name": name,
        "description": function.description,
        "inputSchema": function.input_schema,
    }
    return entry if shape.output_schema is None else entry | {"outputSchema": shape.output_schema}


def reply(id: Any, shape: Shape, value: Any, more: str) -> bytes:
    """Return the response with the result of a tool. `more` are members of the result, as text."""
    number = id if type(id) is int else encode_text(id)
    head = f'{{"jsonrpc":"2.0","id":{number},"result":{{{more}"content":['
    if type(value) is str and shape.output_schema is None:
        text = f'{head}{{"type":"text","text":{encode_text(value)}}}]}}}}'
        try:
            return text.encode()
        except UnicodeEncodeError:  # half a surrogate pair, which only an escape can carry
            pass
    if value is None and shape.output_schema is None:
        return f"{head}]}}}}".encode()
    written = encode(value).decode()
    block = f'{{"type":"text","text":{encode(value if type(value) is str else written).decode()}}}'
    if shape.is_wrapped:
        structured = f',"structuredContent":{{"result":{written}}}'
    elif shape.output_schema is not None or written.startswith("{"):
        structured = f',"structuredContent":{written}'
    else:
        structured = ""
    return f"{head}{block}]{structured}}}}}".encode()


def resource(source: Resource, key: str) -> dict[str, Any]:
    """Return the entry of a resource, or of a template, in a list."""
    entry = {key: source.uri, "name": source.name, "description": source.description}
    return entry | ({"mimeType": source.mime_type} if source.mime_type else {})


def resource_contents(source: Resource, uri: str, value: Any) -> dict[str, Any]:
    """Return the result of `resources/read`."""
    contents: dict[str, Any] = {"uri": uri}
    if source.mime_type:
        contents["mimeType"] = source.mime_type
    if isinstance(value, bytes):
        contents["blob"] = base64.b64encode(value).decode()
    else:
        contents["text"] = value if type(value) is str else encode_text(value)
    return {"contents": [contents]}
