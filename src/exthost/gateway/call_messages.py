"""The messages of a tool call, read and written with the host's own codec. Pure, save for the log.

What is read is checked so far that it can be served; a message that is unusual in any way is None,
and the package judges it. Replies are as the package writes them.
"""

import logging
from typing import Any

import mcp_types as types
from mcp.server.connection import Connection
from mcp.shared.inbound import InboundModernRoute
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data

from exthost.gateway.call_session import Caller
from exthost.wire import jsontext

__all__ = [
    "CALL",
    "CANCELLED",
    "ENVELOPE",
    "cancelled_id",
    "decode_message",
    "encode_error",
    "encode_result",
    "error_data",
    "request_id",
    "stateless_caller",
]

_log = logging.getLogger("exthost.gateway")

# The bytes of a message that may be a tool call, or the cancellation of one.
CALL = b'"tools/call"'
CANCELLED = b'"notifications/cancelled"'

# What a request of the stateless era says about its client.
ENVELOPE = (
    types.PROTOCOL_VERSION_META_KEY,
    types.CLIENT_CAPABILITIES_META_KEY,
    types.CLIENT_INFO_META_KEY,
)


def decode_message(text: bytes) -> dict[str, Any] | None:
    """Return a message of JSON-RPC."""
    try:
        message = jsontext.decode_fast(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return None
    return message


def request_id(value: Any) -> types.RequestId | None:
    """Return the id of a request."""
    return value if type(value) is int or type(value) is str else None


def cancelled_id(message: dict[str, Any]) -> types.RequestId | None:
    """Return the id of the request that this message cancels."""
    if message.get("method") != "notifications/cancelled" or "id" in message:
        return None
    params = message.get("params")
    return request_id(params.get("requestId")) if isinstance(params, dict) else None


def stateless_caller(route: InboundModernRoute) -> Caller:
    """Return the client of a request of the stateless era."""
    described = Connection.from_envelope(
        route.protocol_version, route.client_info, route.client_capabilities
    )
    return Caller(
        described.protocol_version, described.client_params, described.client_capabilities
    )


def encode_result(id: types.RequestId, result: dict[str, Any]) -> bytes:
    """Return the reply with a result."""
    try:
        return jsontext.encode_fast({"jsonrpc": "2.0", "id": id, "result": result})
    except (TypeError, ValueError, RecursionError, OverflowError):  # such as a very large number
        return _dump(types.JSONRPCResponse(jsonrpc="2.0", id=id, result=result))


def encode_error(id: types.RequestId, error: types.ErrorData) -> bytes:
    """Return the reply with an error."""
    return _dump(types.JSONRPCError(jsonrpc="2.0", id=id, error=error))


def error_data(error: Exception, *, stateless: bool) -> types.ErrorData:
    """Return an exception as the error of a reply."""
    known = handler_exception_to_error_data(error)
    if known is not None:
        return known
    _log.error("tools/call failed", exc_info=error)
    if stateless:
        return types.ErrorData(code=types.INTERNAL_ERROR, message="Internal server error")
    return types.ErrorData(code=0, message=str(error))


def _dump(message: types.JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
