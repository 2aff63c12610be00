"""Decodes and encodes the messages of a tool call with the host's own JSON codec.

The functions that decode check only what a tool call needs. They return None for a message that is
unusual in any way, and the caller leaves that message to the `mcp` package, which validates it in
full. Replies have the same form as those of the package.
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
    "CALL_MARK",
    "CANCELLED_MARK",
    "ENVELOPE_KEYS",
    "decode_message",
    "encode_error",
    "encode_result",
    "make_stateless_caller",
    "parse_cancelled_id",
    "parse_request_id",
    "to_error_data",
]

_log = logging.getLogger("exthost.gateway")

# A message without these bytes is neither a tool call nor a cancellation. Searching for them is
# much cheaper than decoding every message.
CALL_MARK = b'"tools/call"'
CANCELLED_MARK = b'"notifications/cancelled"'

# The keys in the `_meta` of a request of the stateless era that describe its client.
ENVELOPE_KEYS = (
    types.PROTOCOL_VERSION_META_KEY,
    types.CLIENT_CAPABILITIES_META_KEY,
    types.CLIENT_INFO_META_KEY,
)


def decode_message(text: bytes) -> dict[str, Any] | None:
    """Return the JSON-RPC message in this text, or None if the text is not a message."""
    try:
        message = jsontext.decode_fast(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return None
    return message


def parse_request_id(value: Any) -> types.RequestId | None:
    """Return the value if it can be the id of a request, else None."""
    # Not isinstance: a bool is an int, and no id.
    return value if type(value) is int or type(value) is str else None


def parse_cancelled_id(message: dict[str, Any]) -> types.RequestId | None:
    """Return the id of the request that this message cancels, or None if it cancels no request."""
    if message.get("method") != "notifications/cancelled" or "id" in message:
        return None
    params = message.get("params")
    return parse_request_id(params.get("requestId")) if isinstance(params, dict) else None


def make_stateless_caller(route: InboundModernRoute) -> Caller:
    """Return the client that a request of the stateless era describes."""
    connection = Connection.from_envelope(
        route.protocol_version, route.client_info, route.client_capabilities
    )
    return Caller(
        connection.protocol_version, connection.client_params, connection.client_capabilities
    )


def encode_result(id: types.RequestId, result: dict[str, Any]) -> bytes:
    """Return the reply with a result."""
    try:
        return jsontext.encode_fast({"jsonrpc": "2.0", "id": id, "result": result})
    except (
        TypeError,
        ValueError,
        RecursionError,
        OverflowError,
    ):  # such as an integer beyond 64 bits
        return _encode_by_package(types.JSONRPCResponse(jsonrpc="2.0", id=id, result=result))


def encode_error(id: types.RequestId, error: types.ErrorData) -> bytes:
    """Return the reply with an error."""
    return _encode_by_package(types.JSONRPCError(jsonrpc="2.0", id=id, error=error))


def to_error_data(error: Exception, *, stateless: bool) -> types.ErrorData:
    """Return the JSON-RPC error for an exception. `stateless` is whether the client is one of the
    stateless era. An exception that the package does not translate is logged with its traceback."""
    translated = handler_exception_to_error_data(error)
    if translated is not None:
        return translated
    _log.error("tools/call failed", exc_info=error)
    if stateless:
        return types.ErrorData(code=types.INTERNAL_ERROR, message="Internal server error")
    # The package uses the code 0 in the handshake era, for compatibility with its first version.
    return types.ErrorData(code=0, message=str(error))


def _encode_by_package(message: types.JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
