"""The `_meta` of a client's request, translated for the server that gets the request.

A client of the stateless era sends revision, capabilities and name in the `_meta` of each request;
a client of the handshake era sends them once. A server reads them where its own era has them.
Everything else in `_meta`, such as a trace context, is passed on unchanged. Pure.
"""

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server.session import ServerSession
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from exthost.http_server.trace_context import trace_context

__all__ = ["is_stateless", "log_level", "relayed_meta", "sent_trace_context", "wire"]

_ENVELOPE = frozenset(
    {
        types.PROTOCOL_VERSION_META_KEY,
        types.CLIENT_CAPABILITIES_META_KEY,
        types.CLIENT_INFO_META_KEY,
        types.LOG_LEVEL_META_KEY,
    }
)


def is_stateless(version: str) -> bool:
    """Return whether this revision has no handshake."""
    return version in MODERN_PROTOCOL_VERSIONS


def relayed_meta(
    params: Mapping[str, Any], session: ServerSession, *, server_is_stateless: bool
) -> dict[str, Any]:
    """Return the `_meta` of the relayed request, without the progress token of the client."""
    sent = params.get("_meta")
    own = dict(sent) if isinstance(sent, Mapping) else {}
    own.pop("progressToken", None)
    own.pop(types.PROTOCOL_VERSION_META_KEY, None)
    if not server_is_stateless:
        return {key: value for key, value in own.items() if key not in _ENVELOPE}
    if types.CLIENT_CAPABILITIES_META_KEY not in own:
        declared = session.client_capabilities
        own[types.CLIENT_CAPABILITIES_META_KEY] = {} if declared is None else wire(declared)
    client = session.client_params
    if types.CLIENT_INFO_META_KEY not in own and client is not None:
        own[types.CLIENT_INFO_META_KEY] = wire(client.client_info)
    return own


def sent_trace_context(request: Any, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the W3C Trace Context of a request: that of its `_meta`, else that of its HTTP
    headers."""
    sent = params.get("_meta")
    headers = getattr(request, "headers", None)
    return (trace_context(sent) if isinstance(sent, Mapping) else {}) or (
        trace_context(headers) if isinstance(headers, Mapping) else {}
    )


def log_level(params: Mapping[str, Any]) -> str | None:
    """Return the lowest level of log messages that a stateless request wants."""
    sent = params.get("_meta")
    level = sent.get(types.LOG_LEVEL_META_KEY) if isinstance(sent, Mapping) else None
    return level if isinstance(level, str) else None


def wire(model: Any) -> dict[str, Any]:
    """Return a value of the protocol as it is written."""
    written: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return written
