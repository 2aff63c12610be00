"""The HTTP headers in which the bridge from a host to a remote MCP server repeats parts of a
message, as MCP requires: its version, its method, and the name of the tool, prompt or resource.

For example, a `tools/call` of the tool "add" has the headers `Mcp-Method: tools/call` and, in the
stateless era, `Mcp-Name: add`. A proxy can then route messages without reading them.

MCP has two eras. In the older versions, the handshake era, client and server negotiate a version
with `initialize`, and every later message has that version in a header. In the newer versions, the
stateless era, there is no handshake: each request names its version itself, and its headers repeat
the version, the name of the tool, prompt or resource, and the arguments that the schema of a tool
marks with `x-mcp-header`. In both eras, a header of every request has its method.
"""

from collections.abc import Mapping
from typing import Any

from mcp.shared import inbound
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)


class RequestHeaders:
    """Returns the headers of outgoing messages. It sees the replies, because they have the
    negotiated version and the schemas."""

    def __init__(self) -> None:
        self._version = ""
        # The `initialize` and `tools/list` requests without a reply: their methods by id. A reply
        # does not name its method, and `process_reply` reads the replies to these two.
        self._awaited: dict[RequestId | None, str] = {}
        # The arguments that have a header, by the name of the tool: the path of each in the
        # schema, and the name that the schema gives its header in `x-mcp-header`.
        self._arguments: dict[str, dict[tuple[str, ...], str]] = {}

    def for_request(self, request: JSONRPCRequest) -> dict[str, str]:
        """Return the headers of a request."""
        method = request.method
        params: Mapping[str, Any] = request.params or {}
        if method in ("initialize", "tools/list"):
            self._awaited[request.id] = method
        meta = params.get("_meta")
        version = meta.get(PROTOCOL_VERSION_META_KEY) if isinstance(meta, dict) else None
        # Encoded, as names are: any text can be called as a method.
        method_header = {inbound.MCP_METHOD_HEADER: inbound.encode_header_value(method)}
        if not isinstance(version, str):  # the handshake era
            version_headers = {} if method == "initialize" else self.negotiated_version()
            return {**version_headers, **method_header}
        headers = {
            inbound.MCP_PROTOCOL_VERSION_HEADER: inbound.encode_header_value(version),
            **method_header,
        }
        name_field = inbound.NAME_BEARING_METHODS.get(method)  # such as "name" or "uri"
        name = None if name_field is None else params.get(name_field)
        if isinstance(name, str):
            headers[inbound.MCP_NAME_HEADER] = inbound.encode_header_value(name)
            arguments = params.get("arguments")
            if method == "tools/call" and isinstance(arguments, dict):
                marked = self._arguments.get(name, {})
                headers.update(inbound.mcp_param_headers(marked, arguments))
        return headers

    def negotiated_version(self) -> dict[str, str]:
        """Return the header with the version that was negotiated, if any. A notification or a reply
        has no other headers."""
        if not self._version:
            return {}
        return {inbound.MCP_PROTOCOL_VERSION_HEADER: inbound.encode_header_value(self._version)}

    def process_reply(self, reply: JSONRPCResponse | JSONRPCError) -> list[str]:
        """Remember the version and the schemas in a reply, for later headers. Remove tools from the
        reply whose marks for headers are not valid, as MCP requires; return the reason for each."""
        method = self._awaited.pop(reply.id, "")
        if isinstance(reply, JSONRPCError):
            return []
        if method == "initialize":
            version = reply.result.get("protocolVersion")
            self._version = version if isinstance(version, str) else ""
        tools = reply.result.get("tools") if method == "tools/list" else None
        if not isinstance(tools, list):
            return []
        usable, reasons = [], []
        for tool in tools:
            fields = tool if isinstance(tool, dict) else {}
            name, schema = fields.get("name"), fields.get("inputSchema")
            if (error := inbound.find_invalid_x_mcp_header(schema)) is not None:
                reasons.append(f"the tool {str(name)[:100]!r} cannot be called: {error[:300]}")
                continue
            usable.append(tool)
            if isinstance(name, str):
                self._arguments[name] = inbound.x_mcp_header_map(schema)
        tools[:] = usable
        return reasons
