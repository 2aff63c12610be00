"""Checks the results of an MCP server for `exthost check`, more strictly than the host does.

The host accepts many results that break the protocol. Official clients validate each result and
refuse such a one, so the author of the server must learn of it. Only requirements of the protocol
are checked, no advice. For example, of the result of `initialize`:

    {"protocolVersion": "2025-11-25", "capabilities": [], "serverInfo": {"name": "a"}}
    in its reply to initialize: the version of serverInfo is missing and must be text
    in its reply to initialize: capabilities is [] and must be an object

The handshake era (revisions before 2026-07-28) restricts schemas and data of results to objects;
the stateless era does not.
"""

import base64
import binascii
from collections.abc import Collection, Iterator
from typing import Any

from exthost.dialects.conformance import Problem
from exthost.model.schema import schema_problem

_SHOWN_CHARACTERS = 40

_SERVER_INFO_FIX = 'add "serverInfo": {"name": "…", "version": "…"} to the result of `initialize`'
_CAPABILITIES_FIX = (
    'add "capabilities": {"tools": {}} to the result of `%s`; '
    "each member is a kind of thing that the server has, with an object"
)
_INPUT_SCHEMA_FIX = 'give each tool an inputSchema; {"type": "object"} accepts any arguments'
_OUTPUT_SCHEMA_FIX = (
    'give the schema "type": "object", and put other values into a property of that object'
)
_CONTENT_FIX = 'add "content": [{"type": "text", "text": "…"}]; it may be an empty list'
_IS_ERROR_FIX = "write true or false, without quotes, or omit isError if there was no error"
_BLOCK_FIX = (
    "the types are text, image, audio, resource_link and resource; examples are "
    '{"type": "text", "text": "…"} and {"type": "image", "data": "…", "mimeType": "image/png"}'
)
_DATA_FIX = "encode the bytes as base64, with padding (Python: base64.b64encode)"

# The members of a block that are text, by the type of the block.
_TEXT_MEMBERS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
    "resource": (),
}


def audit_result(method: str, result: Any, earlier: Collection[str]) -> Iterator[Problem]:
    """Yield the problems of a result. `earlier` are the methods of requests that were answered with
    a result before."""
    if not isinstance(result, dict):
        return
    has_handshake = "initialize" in earlier
    if method == "initialize":
        if not isinstance(result.get("protocolVersion"), str):
            reason = f"protocolVersion {_describe(result, 'protocolVersion')} and must be text"
            fix = (
                'add "protocolVersion" to the result of `initialize`: that of the request, if known'
            )
            yield Problem("handshake", f"in its reply to initialize: {reason}", fix=fix)
        yield from _audit_server_info(result)
        yield from _audit_capabilities(method, result)
    elif method == "server/discover" and isinstance(result.get("supportedVersions"), list):
        yield from _audit_capabilities(method, result)
    elif method == "tools/list":
        tools = result.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict):
                yield from _audit_tool(tool, has_handshake)
    elif method == "tools/call" and result.get("resultType", "complete") == "complete":
        yield from _audit_tool_result(result, has_handshake)


def _audit_server_info(result: dict[str, Any]) -> Iterator[Problem]:
    info = result.get("serverInfo")
    if not isinstance(info, dict):
        reason = f"serverInfo {_describe(result, 'serverInfo')} and must be an object"
    else:
        missing = [name for name in ("name", "version") if not isinstance(info.get(name), str)]
        if not missing:
            return
        reason = f"the {missing[0]} of serverInfo {_describe(info, missing[0])} and must be text"
    yield Problem("handshake", f"in its reply to initialize: {reason}", fix=_SERVER_INFO_FIX)


def _audit_capabilities(method: str, result: dict[str, Any]) -> Iterator[Problem]:
    if not isinstance(result.get("capabilities"), dict):
        reason = f"capabilities {_describe(result, 'capabilities')} and must be an object"
        fix = _CAPABILITIES_FIX % method
        yield Problem("handshake", f"in its reply to {method}: {reason}", fix=fix)


def _audit_tool(tool: dict[str, Any], has_handshake: bool) -> Iterator[Problem]:
    # A schema that is not an object, or whose type is not "object", is a problem in every dialect.
    if tool.get("inputSchema") in (None, {}):
        state = _describe(tool, "inputSchema")
        reason = f'inputSchema of {tool.get("name")!r} {state} and must be of "type": "object"'
        yield Problem("input-schema", reason, fix=_INPUT_SCHEMA_FIX)
    schema = tool.get("outputSchema")
    if not has_handshake or not isinstance(schema, dict) or schema.get("type") == "object":
        return
    if not schema_problem(schema):  # an invalid schema is a problem in every dialect
        state = f"it is {schema['type']!r}" if "type" in schema else "there is none"
        reason = f'outputSchema of {tool.get("name")!r} must have "type": "object", and {state}'
        yield Problem("output-schema", reason, fix=_OUTPUT_SCHEMA_FIX)


def _audit_tool_result(result: dict[str, Any], has_handshake: bool) -> Iterator[Problem]:
    if not isinstance(result.get("isError", False), bool):
        reason = f"isError {_describe(result, 'isError')} and must be true or false"
        yield Problem("result", f"in the result of a tool: {reason}", fix=_IS_ERROR_FIX)
    data = result.get("structuredContent")
    if has_handshake and data is not None and not isinstance(data, dict):
        reason = f"structuredContent {_describe(result, 'structuredContent')} and must be an object"
        yield Problem("result", f"in the result of a tool: {reason}", fix=_OUTPUT_SCHEMA_FIX)
    content = result.get("content")
    if not isinstance(content, list):
        reason = f"content {_describe(result, 'content')} and must be a list"
        yield Problem("result", f"in the result of a tool: {reason}", fix=_CONTENT_FIX)
        return
    for position, block in enumerate(content):
        for reason, fix in _audit_block(block):
            yield Problem("result", f"in block {position} of the content: {reason}", fix=fix)


def _audit_block(block: Any) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a block, and how to fix it."""
    if not isinstance(block, dict):
        yield f"it is {_shorten(block)} and must be an object", _BLOCK_FIX
        return
    type_name = block.get("type")
    if not isinstance(type_name, str) or type_name not in _TEXT_MEMBERS:
        yield f"type {_describe(block, 'type')} and must be a type of MCP", _BLOCK_FIX
        return
    for name in _TEXT_MEMBERS[type_name]:
        if not isinstance(block.get(name), str):
            yield f"({type_name}) {name} {_describe(block, name)} and must be text", _BLOCK_FIX
    if type_name in ("image", "audio") and not _is_base64_or_no_text(block.get("data")):
        yield f"({type_name}) data is not base64: {_shorten(block['data'])}", _DATA_FIX
    if type_name == "resource":
        yield from _audit_resource(block.get("resource"))


def _audit_resource(resource: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(resource, dict):
        yield f"(resource) resource is not an object: {_shorten(resource)}", _BLOCK_FIX
        return
    if not isinstance(resource.get("uri"), str):
        yield f"(resource) uri {_describe(resource, 'uri')} and must be text", _BLOCK_FIX
    if not any(isinstance(resource.get(name), str) for name in ("text", "blob")):
        yield "(resource) there is neither text nor blob", _BLOCK_FIX
    elif not _is_base64_or_no_text(resource.get("blob")):
        yield f"(resource) blob is not base64: {_shorten(resource['blob'])}", _DATA_FIX


def _is_base64_or_no_text(value: Any) -> bool:
    """Return whether a value is base64. A value that is not text counts as base64, because another
    check reports it."""
    if not isinstance(value, str):
        return True
    try:
        # Decoders of other languages skip white space.
        base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _describe(fields: dict[str, Any], name: str) -> str:
    return f"is {_shorten(fields[name])}" if name in fields else "is missing"


def _shorten(value: Any) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
