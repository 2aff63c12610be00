"""Translates the `_meta` field of requests and results between the clients of the gateway and the
MCP servers behind it.

`_meta` has data about a message, such as `{"progressToken": 1}`.

A client of the stateless era of MCP (without sessions) sends its revision, capabilities and name in
the `_meta` of each request. A client of the handshake era (with sessions) sends them once, in
`initialize`. A stateless server gets them in `_meta`; a server of the handshake era got the host's
own in `initialize`, and they are removed. Everything else in `_meta`, such as a trace context, is
passed on unchanged. A stateless server sends its name in the `_meta` of each result; it is removed.
"""

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server.session import ServerSession
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from exthost.faces.http_server.trace_context import trace_context

# The keys with which a stateless request describes its client.
_CLIENT_KEYS = frozenset(
    {
        types.PROTOCOL_VERSION_META_KEY,
        types.CLIENT_CAPABILITIES_META_KEY,
        types.CLIENT_INFO_META_KEY,
        types.LOG_LEVEL_META_KEY,
    }
)


def is_stateless(version: str) -> bool:
    """Return whether this protocol revision is one of the stateless era."""
    return version in MODERN_PROTOCOL_VERSIONS


def relayed_meta(
    params: Mapping[str, Any], session: ServerSession, *, server_is_stateless: bool
) -> dict[str, Any]:
    """Return the `_meta` of the relayed request. It has no progress token and no protocol revision,
    because the host adds the token and the revision of its own connection to the server."""
    meta = params.get("_meta")
    new_meta = dict(meta) if isinstance(meta, Mapping) else {}
    new_meta.pop("progressToken", None)
    new_meta.pop(types.PROTOCOL_VERSION_META_KEY, None)
    if not server_is_stateless:
        return {key: value for key, value in new_meta.items() if key not in _CLIENT_KEYS}
    if types.CLIENT_CAPABILITIES_META_KEY not in new_meta:
        capabilities = session.client_capabilities
        new_meta[types.CLIENT_CAPABILITIES_META_KEY] = (
            {} if capabilities is None else to_json_object(capabilities)
        )
    client = session.client_params
    if types.CLIENT_INFO_META_KEY not in new_meta and client is not None:
        new_meta[types.CLIENT_INFO_META_KEY] = to_json_object(client.client_info)
    return new_meta


def without_server_info(result: Any) -> Any:
    """Return a result without the name of the stateless server that sent it: to the client, the
    gateway is the server. The `mcp` package adds the gateway's name for stateless clients."""
    meta = result.get("_meta") if isinstance(result, dict) else None
    if not isinstance(meta, Mapping) or types.SERVER_INFO_META_KEY not in meta:
        return result
    new_meta = {key: value for key, value in meta.items() if key != types.SERVER_INFO_META_KEY}
    new_result = {key: value for key, value in result.items() if key != "_meta"}
    return {**new_result, "_meta": new_meta} if new_meta else new_result


def sent_trace_context(request: Any, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the W3C Trace Context in the `_meta` of a request, or else in its HTTP headers."""
    meta = params.get("_meta")
    context = trace_context(meta) if isinstance(meta, Mapping) else {}
    if context:
        return context
    headers = getattr(request, "headers", None)
    return trace_context(headers) if isinstance(headers, Mapping) else {}


def log_level(params: Mapping[str, Any]) -> str | None:
    """Return the least severe level of log messages that a stateless request asks for; None if it
    asks for no log messages."""
    meta = params.get("_meta")
    level = meta.get(types.LOG_LEVEL_META_KEY) if isinstance(meta, Mapping) else None
    return level if isinstance(level, str) else None


def to_json_object(model: Any) -> dict[str, Any]:
    """Return a model of the `mcp` package as the JSON object that is sent."""
    json_object: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return json_object
