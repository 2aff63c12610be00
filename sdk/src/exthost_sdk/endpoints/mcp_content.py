"""Encodes the results of MCP tools and resources: content blocks and structured content.

A tool whose return type is annotated, and is not text, has an output schema and structured content.
In the handshake era (the versions of MCP until 2025-11-25) structured content must be an object, so
any other value is wrapped in `{"result": …}`, as other servers do. A tool that returns the list [1,
2], and is annotated so, has this result:

    {"content": [{"type": "text", "text": "[1,2]"}], "structuredContent": {"result": [1, 2]}}
"""

import base64
from collections.abc import Sequence
from typing import Any

from exthost_sdk.answers import PromptMessage
from exthost_sdk.content import BinaryContent, Content, has_content
from exthost_sdk.registry import Resource
from exthost_sdk.types.function import Function
from exthost_sdk.types.json_text import encode, encode_text, to_text
from exthost_sdk.types.schema import Schema

# The annotations of a tool: their names in the SDK → those in MCP.
_ANNOTATIONS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


class ResultFormat:
    """How the results of one function are encoded.

    `output_schema` is None if the function promises no structured content. `is_wrapped`: structured
    content is an object whose only field, `result`, is the value.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        schema = None if function.returns in (str, None, type(None)) else function.output_schema
        if function.is_generator:
            schema = {"type": "array"}
        self.is_wrapped = schema is not None and schema.get("type") != "object"
        self.output_schema = _wrap(schema) if self.is_wrapped and schema is not None else schema
        if schema == {}:  # the annotation is Any, which promises nothing about the result
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


def encode_tool(name: str, format: ResultFormat) -> dict[str, Any]:
    """Return the entry of a tool in `tools/list`."""
    function = format.function
    entry: dict[str, Any] = {
        "name": name,
        "description": function.description,
        "inputSchema": function.input_schema,
    }
    if format.output_schema is not None:
        entry["outputSchema"] = format.output_schema
    if function.hints:
        entry["annotations"] = {_ANNOTATIONS[name]: hint for name, hint in function.hints.items()}
    return entry


def encode_reply(id: Any, format: ResultFormat, value: Any, fields: str) -> bytes:
    """Return the response with the result of a tool. `fields` are further fields of the result as
    JSON text, each with a comma after it; "" for none. The response is put together as text, since
    that is faster than encoding nested objects."""
    # The result is {"jsonrpc":"2.0","id":1,"result":{"content":[…],"structuredContent":…}}. In the
    # f-strings below, each brace of the JSON text is written twice.
    id_text = id if type(id) is int else encode_text(id)
    head = f'{{"jsonrpc":"2.0","id":{id_text},"result":{{{fields}"content":['
    if type(value) is str and format.output_schema is None:
        text = f'{head}{{"type":"text","text":{encode_text(value)}}}]}}}}'
        try:
            return text.encode()
        except UnicodeEncodeError:  # half a surrogate pair: `encode` below writes it as an escape
            pass
    json_value = encode(value).decode()
    # What JSON writes as a text, such as an enum or a date, is its own text block: see `to_text`.
    text_value = json_value if json_value.startswith('"') else encode(json_value).decode()
    block = f'{{"type":"text","text":{text_value}}}'
    if has_content(value):  # with a schema, its text is the structured content
        parts = value if isinstance(value, list | tuple) else [value]
        block = ",".join(encode(encode_block(part)).decode() for part in parts)
    if format.is_wrapped:
        structured = f',"structuredContent":{{"result":{json_value}}}'
    elif format.output_schema is not None or json_value.startswith("{"):
        structured = f',"structuredContent":{json_value}'
    else:
        structured = ""
    return f"{head}{block}]{structured}}}}}".encode()


def encode_block(part: Any) -> dict[str, Any]:
    """Return the content block of content, or of any other value as text."""
    if isinstance(part, Content):
        return part.as_block()
    return {"type": "text", "text": to_text(part)}


def encode_prompt(name: str, function: Function) -> dict[str, Any]:
    """Return the entry of a prompt in `prompts/list`."""
    required = function.input_schema.get("required", ())
    arguments = [
        {"name": argument, "required": argument in required}
        | ({"description": schema["description"]} if "description" in schema else {})
        for argument, schema in function.input_schema["properties"].items()
    ]
    return {"name": name, "description": function.description, "arguments": arguments}


def list_messages(value: Any) -> list[PromptMessage]:
    """Return the messages that a prompt has returned: one, or a list, each a PromptMessage, or
    text or content of the user."""
    is_list = isinstance(value, list | tuple) and not isinstance(value, PromptMessage)
    return [
        part if isinstance(part, PromptMessage) else PromptMessage("user", part)
        for part in (value if is_list else [value])
    ]


def encode_messages(messages: Sequence[PromptMessage]) -> list[dict[str, Any]]:
    """Return messages as those of `prompts/get` and `sampling/createMessage`."""
    return [
        {"role": message.role, "content": encode_block(message.content)} for message in messages
    ]


def encode_resource(source: Resource, key: str) -> dict[str, Any]:
    """Return the entry of a resource or a template in a list. `key` is the field for its URI."""
    entry = {key: source.uri, "name": source.name, "description": source.description}
    return entry | ({"mimeType": source.mime_type} if source.mime_type else {})


def encode_contents(source: Resource, uri: str, value: Any) -> dict[str, Any]:
    """Return the result of `resources/read`."""
    contents: dict[str, Any] = {"uri": uri}
    media_type = source.mime_type
    if isinstance(value, BinaryContent):
        value, media_type = value.data, media_type or value.media_type
    if media_type:
        contents["mimeType"] = media_type
    if isinstance(value, bytes):
        contents["blob"] = base64.b64encode(value).decode()
    else:
        contents["text"] = to_text(value)
    return {"contents": [contents]}
