"""Converts the host's tools, results and errors to MCP values, for the clients of the gateway.

The result of an MCP server is passed on unchanged. The result of an extension that speaks another
protocol (a dialect) becomes a text block, and structured content as well if it is a JSON object.
For example, the result 3 becomes `{"content": [{"type": "text", "text": "3"}]}`. One invalid tool
must not make the whole list invalid. Therefore a schema that the protocol does not allow is
replaced by `{"type": "object"}` (the host still checks arguments against the real schema), an
output schema that a client may fail to compile is left out, and a value that JSON cannot express
becomes text.
"""

import re
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import to_json

from exthost.dialects.value_result import value_text
from exthost.errors import CallFailed, ExthostError, NotFound, UsageError
from exthost.model.names import prefixed_description
from exthost.model.offer import RegisteredTool
from exthost.model.schema import is_widely_readable
from exthost.tool_result import ToolResult

# The dialect of MCP servers. Their tools and results are MCP values already.
MCP_DIALECT = "mcp"

# The key in `_meta` of an error result for the error as data. It is not in
# structuredContent, because many clients validate that against the tool's output schema and would
# report a schema violation in place of the error.
ERROR = "exthost/error"

# The key in `_meta` of a result for the host's warnings.
WARNINGS = "exthost/warnings"

_ANY_OBJECT = {"type": "object"}
# A lone surrogate. Python strings can contain it; UTF-8, and therefore a JSON message, cannot.
_SURROGATE = re.compile("[\ud800-\udfff]")


def tool_value(
    tool: RegisteredTool, *, from_mcp_server: bool, version: str, plain_name: bool = False
) -> dict[str, Any]:
    """Return a tool in the form of this protocol version. With `from_mcp_server` the tool keeps all
    fields that its server sent. With `plain_name` its name has no prefix of the extension.

    If the full form is not valid, a form with fewer fields is returned.
    """
    description = replace_surrogates(tool.description)
    tool_description = description.removeprefix(prefixed_description(tool.extension, ""))
    minimal_tool: dict[str, Any] = {
        "name": tool.tool if plain_name else tool.name,
        "inputSchema": _ANY_OBJECT,
    }
    if tool_description:
        minimal_tool["description"] = tool_description if plain_name else description
    full_tool = {**minimal_tool, "inputSchema": _input_schema(tool.input_schema)}
    if from_mcp_server:
        # `execution` says how the tool runs as an MCP task, which the gateway does not support.
        full_tool |= {name: value for name, value in tool.extra.items() if name != "execution"}
        if _has_readable_output_schema(tool):
            full_tool["outputSchema"] = tool.output_schema
    tool_with_schema = {**minimal_tool, "inputSchema": full_tool["inputSchema"]}
    for candidate in (full_tool, tool_with_schema):
        try:
            validate_server_result("tools/list", version, _list_result(candidate))
        except (ValueError, RecursionError):  # pydantic raises subclasses of ValueError
            continue
        if is_json(candidate):
            return candidate
    return minimal_tool


def _has_readable_output_schema(tool: RegisteredTool) -> bool:
    """Return whether clients can use the tool's output schema. Some clients compile the output
    schema of every tool in a list, and one that they cannot compile costs them the whole list."""
    schema = tool.output_schema
    return isinstance(schema, Mapping) and is_widely_readable(schema)


def _list_result(tool: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def _input_schema(schema: Any) -> Any:
    """Return the schema with the type "object" added if it has none, because MCP requires it."""
    if not isinstance(schema, Mapping):
        return _ANY_OBJECT
    return schema if "type" in schema else {**schema, "type": "object"}


def result_value(result: ToolResult, *, from_mcp_server: bool, version: str) -> dict[str, Any]:
    """Return a tool's result in the form of this protocol version, with the host's warnings. Raises
    ProtocolViolation for a result that cannot be written as JSON."""
    mcp_result = _convert_result(result, from_mcp_server=from_mcp_server, version=version)
    if result.warnings:
        meta = mcp_result.get("_meta")
        warnings = [replace_surrogates(warning) for warning in result.warnings]
        mcp_result["_meta"] = {**(meta if isinstance(meta, Mapping) else {}), WARNINGS: warnings}
    return mcp_result


def _convert_result(result: ToolResult, *, from_mcp_server: bool, version: str) -> dict[str, Any]:
    """Return a result as MCP has it, without the host's warnings."""
    raw = result.raw
    if from_mcp_server and is_text_result(raw):
        return {"resultType": "complete", **raw}
    server_result = _validate_unchanged(raw, version) if from_mcp_server else None
    if server_result is not None and is_json(server_result):
        return server_result
    # This point is reached by an MCP server's result only if the result is not valid. The client
    # gets the whole result as JSON text.
    text = value_text(raw) if from_mcp_server else result.text
    text_result = _text_content(replace_surrogates(text)) | {"isError": result.is_error}
    structured_result = {**text_result, "structuredContent": raw}
    return (
        structured_result if isinstance(raw, dict) and is_json(structured_result) else text_result
    )


def is_text_result(result: Any) -> bool:
    """Return whether a result consists of text blocks only, as most results do. Such a result is
    valid in every revision and needs no validation by the model of the `mcp` package, which would
    cost more than the rest of the call."""
    if not isinstance(result, dict):
        return False
    content = result.get("content")
    if not isinstance(content, list) or not isinstance(result.get("isError", False), bool):
        return False
    # No field may be left besides `content` and these two, which are valid as they are.
    field_count = len(result) - ("isError" in result) - (result.get("resultType") == "complete")
    return field_count == 1 and all(map(_is_text_block, content))


def _is_text_block(block: Any) -> bool:
    if type(block) is not dict or len(block) != 2 or block.get("type") != "text":
        return False
    text = block.get("text")
    return isinstance(text, str) and (text.isascii() or _SURROGATE.search(text) is None)


def _validate_unchanged(result: Any, version: str) -> dict[str, Any] | None:
    """Return the result of an MCP server, or None if it is not valid."""
    if not isinstance(result, dict):
        return None
    mcp_result = {"resultType": "complete", **result}
    if "structuredContent" in mcp_result:
        mcp_result.setdefault("content", [])  # some servers leave `content` out in this case
    try:
        types.CallToolResult.model_validate(mcp_result)
    except ValidationError:
        return None
    if version not in MODERN_PROTOCOL_VERSIONS and not isinstance(
        mcp_result.get("structuredContent"), dict
    ):
        mcp_result.pop("structuredContent", None)  # older revisions allow only an object here
    return mcp_result


def error_result(error: ExthostError) -> dict[str, Any]:
    """Return a failed call as a tool result, so that a model can read the error.

    The error's evidence (command line, exit status, last stderr lines) is left out, because it is
    meant for the operator. Its help is included only where the client can follow it: a client can
    correct its arguments, but not the configuration of the host. Its notes are the host's warnings.
    """
    subject = f"{error.extension}: " if error.extension else ""
    lines = [f"{subject}{error.message} [{error.code}]"]
    if error.help and isinstance(error, UsageError | NotFound):
        lines.append(f"help: {error.help}")
    text_result = _text_content(replace_surrogates("\n".join(lines))) | {"isError": True}
    meta: dict[str, Any] = {ERROR: error_details(error)}
    if notes := getattr(error, "__notes__", None):
        meta[WARNINGS] = [replace_surrogates(note) for note in notes]
    full_result = {**text_result, "_meta": meta}
    return full_result if is_json(full_result) else text_result


def error_details(error: ExthostError) -> dict[str, Any]:
    """Return an error as data: its code, its kind, its message and its help."""
    details: dict[str, Any] = {
        "code": error.code,
        "kind": error.kind,
        "extension": error.extension,
        "message": replace_surrogates(error.message),
        "help": replace_surrogates(error.help),
    }
    if isinstance(error, CallFailed):
        details["answer"] = {
            "code": error.error_code,
            "message": replace_surrogates(error.error_message),
            "data": error.data,
        }
    return details


def _text_content(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "resultType": "complete"}


def is_json(value: Any) -> bool:
    """Return whether a value can be written as JSON as part of a message."""
    # The value is nested as deep as in a message, because the encoder limits the depth.
    try:
        to_json([[[value]]])
    except (ValueError, RecursionError):
        return False
    return True


def replace_surrogates(text: str) -> str:
    """Return the text with U+FFFD in place of each lone surrogate. An extension may send lone
    surrogates, and JSON encoders refuse them."""
    return _SURROGATE.sub("\ufffd", text)
