"""The tools, results and errors of the host as values of MCP.

The result of an MCP server is passed on unchanged. The result of another dialect becomes its text,
and structured content if it is an object. One extension must not spoil the list of all: a schema
that the protocol does not allow is shown as "any object" (the host still checks arguments against
the real one), and a value that JSON cannot express becomes text.
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
from exthost.names import prefixed_description
from exthost.offer import RegisteredTool
from exthost.tool_result import ToolResult

# The dialect whose tools and results are values of MCP already.
NATIVE = "mcp"

# Where an error result has what is known about the error, as data. Not in structuredContent: many
# clients hold that to the schema of the tool, and would show a complaint in place of the error.
ERROR = "exthost/error"

# The key of the warnings of the host in a result.
WARNINGS = "exthost/warnings"

_ANYTHING = {"type": "object"}
_SURROGATE = re.compile("[\ud800-\udfff]")


def tool(
    tool: RegisteredTool, *, native: bool, version: str, plain_name: bool = False
) -> dict[str, Any]:
    """Return a tool as a client of this protocol version reads it. A `native` one keeps everything
    that its server says about it. `plain_name`: without the name of its extension."""
    described = clean(tool.description)
    own = described.removeprefix(prefixed_description(tool.extension, ""))
    plain: dict[str, Any] = {
        "name": tool.tool if plain_name else tool.name,
        "inputSchema": _ANYTHING,
    }
    if own:
        plain["description"] = own if plain_name else described
    whole = {**plain, "inputSchema": _input_schema(tool.input_schema)}
    if native:
        whole |= {name: value for name, value in tool.extra.items() if name != "execution"}
        if tool.output_schema is not None:
            whole["outputSchema"] = tool.output_schema
    for candidate in (whole, {**plain, "inputSchema": whole["inputSchema"]}):
        try:
            validate_server_result("tools/list", version, _listed(candidate))
        except (ValueError, RecursionError):  # pydantic's own are ValueErrors
            continue
        if is_json(candidate):
            return candidate
    return plain


def _listed(tool: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def _input_schema(schema: Any) -> Any:
    """Return the schema with type "object": arguments are always an object in MCP."""
    if not isinstance(schema, Mapping):
        return _ANYTHING
    return schema if "type" in schema else {**schema, "type": "object"}


def result(result: ToolResult, *, native: bool, version: str) -> dict[str, Any]:
    """Return a tool's result as a client of this protocol version reads it. Raises
    ProtocolViolation for one that cannot be written as JSON."""
    answer = _result(result, native=native, version=version)
    if result.warnings:
        meta = answer.get("_meta")
        warnings = [clean(warning) for warning in result.warnings]
        answer["_meta"] = {**(meta if isinstance(meta, Mapping) else {}), WARNINGS: warnings}
    return answer


def _result(result: ToolResult, *, native: bool, version: str) -> dict[str, Any]:
    raw = result.raw
    if native and is_plain(raw):
        return {"resultType": "complete", **raw}
    passed_on = _as_it_came(raw, version) if native else None
    if passed_on is not None and is_json(passed_on):
        return passed_on
    # A native result is here because it is not valid: a client then reads all of it, as JSON.
    text = value_text(raw) if native else result.text
    plain = _content(clean(text)) | {"isError": result.is_error}
    structured = {**plain, "structuredContent": raw}
    return structured if isinstance(raw, dict) and is_json(structured) else plain


def is_plain(result: Any) -> bool:
    """Return whether this is a result of nothing but text, as most are. It is valid in every
    revision; to validate it by the package's model costs more than the rest of a call."""
    if not isinstance(result, dict):
        return False
    content = result.get("content")
    if not isinstance(content, list) or not isinstance(result.get("isError", False), bool):
        return False
    members = len(result) - ("isError" in result) - (result.get("resultType") == "complete")
    return members == 1 and all(map(_is_text_block, content))


def _is_text_block(block: Any) -> bool:
    if type(block) is not dict or len(block) != 2 or block.get("type") != "text":
        return False
    text = block.get("text")
    return isinstance(text, str) and (text.isascii() or _SURROGATE.search(text) is None)


def _as_it_came(result: Any, version: str) -> dict[str, Any] | None:
    """Return the result of an MCP server unchanged, if it is valid."""
    if not isinstance(result, dict):
        return None
    answer = {"resultType": "complete", **result}
    if "structuredContent" in answer:
        answer.setdefault("content", [])  # some leave it out then
    try:
        types.CallToolResult.model_validate(answer)
    except ValidationError:
        return None
    if version not in MODERN_PROTOCOL_VERSIONS and not isinstance(
        answer.get("structuredContent"), dict
    ):
        answer.pop("structuredContent", None)  # anything but an object is newer than this client
    return answer


def error(error: ExthostError) -> dict[str, Any]:
    """Return a failed call as a result, which the model may read.

    The evidence is left out: the stderr of a child is for the operator. Help is included only if a
    client can follow it: a client can correct its arguments, and no configuration.
    """
    about = f"{error.extension}: " if error.extension else ""
    lines = [f"{about}{error.message} [{error.code}]"]
    if error.help and isinstance(error, UsageError | NotFound):
        lines.append(f"help: {error.help}")
    answer = _content(clean("\n".join(lines))) | {"isError": True}
    whole = {**answer, "_meta": {ERROR: about_error(error)}}
    return whole if is_json(whole) else answer


def about_error(error: ExthostError) -> dict[str, Any]:
    """Return an error as data: its code, whose fault it is, and what to do."""
    block: dict[str, Any] = {
        "code": error.code,
        "kind": error.kind,
        "extension": error.extension,
        "message": clean(error.message),
        "help": clean(error.help),
    }
    if isinstance(error, CallFailed):
        block["answer"] = {
            "code": error.error_code,
            "message": clean(error.error_message),
            "data": error.data,
        }
    return block


def _content(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "resultType": "complete"}


def is_json(value: Any) -> bool:
    """Return whether a value can be written as JSON, a few levels deep in a message."""
    try:
        to_json([[[value]]])
    except (ValueError, RecursionError):
        return False
    return True


def clean(text: str) -> str:
    """Return the value without lone surrogates, which a child may send and JSON encoders refuse."""
    return _SURROGATE.sub("\ufffd", text)
