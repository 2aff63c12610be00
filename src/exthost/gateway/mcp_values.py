"""Our tools, results and errors in the words of MCP.

What an MCP server answered goes on as it came; a result of another dialect becomes its text, and
structured content if it is an object. One extension must
not spoil the answer of all: a schema that the protocol has no room for is shown as "any object"
(arguments are checked by the host against the real one all the same), and what JSON cannot say is
said as text.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types as types
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import to_json

from exthost.dialects.value_result import value_text
from exthost.errors import CallFailed, ExthostError
from exthost.offer import RegisteredTool
from exthost.tool_result import ToolResult

# The dialect whose results and tools are in these words already.
NATIVE = "mcp"

# What a native tool says of itself beyond its name, description and schemas.
_NATIVE_MEMBERS = ("title", "annotations", "icons", "_meta")

# Where a result has what the host has to say about its call.
WARNINGS = "exthost/warnings"

_ANYTHING = {"type": "object"}
_SURROGATE = re.compile("[\ud800-\udfff]")


def tools(offered: Iterable[tuple[RegisteredTool, bool]], version: str) -> list[types.Tool]:
    """These tools as a client of this protocol version reads them. With each comes whether it is
    native: then its results keep the output schema that it declares."""
    return [_tool(tool, native, version) for tool, native in offered]


def _tool(tool: RegisteredTool, native: bool, version: str) -> types.Tool:
    plain = {
        "name": tool.name,
        "description": clean(tool.description),
        "inputSchema": _ANYTHING,
    }
    whole = {**plain, "inputSchema": _input_schema(tool.input_schema)}
    if native:
        whole |= {name: tool.extra[name] for name in _NATIVE_MEMBERS if name in tool.extra}
        if tool.output_schema is not None:
            whole["outputSchema"] = tool.output_schema
    for said in (whole, {**plain, "inputSchema": whole["inputSchema"]}):
        try:
            shown = types.Tool.model_validate(said)
            listed = types.ListToolsResult(tools=[shown]).model_dump(
                by_alias=True, mode="json", exclude_none=True
            )
            validate_server_result("tools/list", version, listed)
        except (ValueError, RecursionError):  # pydantic's own are ValueErrors
            continue
        if _sayable(listed):
            return shown
    return types.Tool.model_validate(plain)


def _input_schema(schema: Any) -> Any:
    """Arguments are always an object in MCP; a schema that leaves that open is told so."""
    if not isinstance(schema, Mapping):
        return _ANYTHING
    return schema if "type" in schema else {**schema, "type": "object"}


def result(result: ToolResult, *, native: bool, version: str) -> dict[str, Any]:
    """Return a tool's result as a client of this protocol version reads it. Raises
    ProtocolViolation for one that cannot be written as JSON."""
    said = _result(result, native=native, version=version)
    if result.warnings:
        meta = said.get("_meta")
        warnings = [clean(warning) for warning in result.warnings]
        said["_meta"] = {**(meta if isinstance(meta, Mapping) else {}), WARNINGS: warnings}
    return said


def _result(result: ToolResult, *, native: bool, version: str) -> dict[str, Any]:
    raw = result.raw
    passed_on = _as_it_came(raw, version) if native else None
    if passed_on is not None and _sayable(passed_on):
        return passed_on
    # A native result is here because it is not valid: a client then reads all of it, as JSON.
    text = value_text(raw) if native else result.text
    plain = _content(clean(text)) | {"isError": result.is_error}
    structured = {**plain, "structuredContent": raw}
    return structured if isinstance(raw, dict) and _sayable(structured) else plain


def _as_it_came(result: Any, version: str) -> dict[str, Any] | None:
    """An MCP server's result, if it is one."""
    if not isinstance(result, dict):
        return None
    said = {"resultType": "complete", **result}
    if "structuredContent" in said:
        said.setdefault("content", [])  # some leave it out then
    try:
        types.CallToolResult.model_validate(said)
    except ValidationError:
        return None
    if version not in MODERN_PROTOCOL_VERSIONS and not isinstance(
        said.get("structuredContent"), dict
    ):
        said.pop("structuredContent", None)  # anything but an object is newer than this client
    return said


def error(error: ExthostError) -> dict[str, Any]:
    """A call that failed, as a result that says so: the model may read it and try again.

    Without the evidence: what a child wrote to its stderr is the operator's to read.
    """
    about = f"{error.extension}: " if error.extension else ""
    lines = [f"{about}{error.message} [{error.code}]"]
    if error.help:
        lines.append(f"help: {error.help}")
    said = _content(clean("\n".join(lines)))
    said |= {"isError": True, "structuredContent": {"error": about_error(error)}}
    if not _sayable(said):
        del said["structuredContent"]
    return said


def about_error(error: ExthostError) -> dict[str, Any]:
    """An error as data: which one, whose, and what to do."""
    told: dict[str, Any] = {
        "code": error.code,
        "kind": error.kind,
        "extension": error.extension,
        "message": clean(error.message),
        "help": clean(error.help),
    }
    if isinstance(error, CallFailed):
        told["answer"] = {
            "code": error.error_code,
            "message": clean(error.error_message),
            "data": error.data,
        }
    return told


def _content(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "resultType": "complete"}


def _sayable(said: Any) -> bool:
    """Whether this can be written as JSON where it goes, a few levels down in a message."""
    try:
        to_json([[[said]]])
    except (ValueError, RecursionError):
        return False
    return True


def clean(text: str) -> str:
    """Without lone surrogates, which a child may send and nobody can encode."""
    return _SURROGATE.sub("\ufffd", text)
