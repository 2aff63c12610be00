"""Decodes and encodes the messages of a tool call for the gateway, with the host's own JSON codec,
because that is faster than the models of the `mcp` package.

The functions that decode check only what a tool call needs. They return None for a message that is
unusual in any way, and the caller leaves that message to the `mcp` package, which validates it in
full. Replies have the same form as those of the package. The ids of other requests are checked here
as well, because the package takes a request with an unusual id for a notification.
"""

import logging
import re
from typing import Any

import mcp_types as types
from mcp.server.connection import Connection
from mcp.shared.inbound import InboundModernRoute
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data

from exthost.faces.gateway.call_session import CallingClient
from exthost.wire import jsontext

_log = logging.getLogger("exthost.faces.gateway")

# A message without these bytes is neither a tool call nor a cancellation. Searching for them is
# much cheaper than decoding every message.
CALL_MARK = b'"tools/call"'
CANCELLED_MARK = b'"notifications/cancelled"'

# The keys in the `_meta` of a request that describe its client. They exist in the stateless era of
# MCP, which has no sessions. In the handshake era a client describes itself once, in `initialize`.
ENVELOPE_KEYS = (
    types.PROTOCOL_VERSION_META_KEY,
    types.CLIENT_CAPABILITIES_META_KEY,
    types.CLIENT_INFO_META_KEY,
)

# Matches the id of a request after fields that every request has. After a nested value it does not
# match, because an id inside that value would not be the id of the request.
_LEADING_ID = re.compile(
    rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*'
    rb'"id"\s*:\s*(\d{1,15}|"[^"\\\x00-\x1f]{1,200}")\s*[,}]'
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
    # Not isinstance: a bool is an int in Python, and it is not a valid id.
    return value if type(value) is int or type(value) is str else None


# Matches the key "method", directly or after the field `jsonrpc`.
_METHOD = re.compile(rb'\s*"(?:method"|jsonrpc"\s*:\s*"[^"\\]*"\s*,\s*"method")')


def check_request_id(text: bytes) -> tuple[bytes, bytes | None]:
    """Return a message for the package and None, or the message and the reply that refuses its id.

    An id such as 7.0 is replaced by the integer: in JSON they are the same number. The package
    would take a request with such an id, or any other that is not an integer or a string, for a
    notification, and the client would wait for an answer in vain. Some clients write `"id": null`
    in notifications, so that is not an error there.
    """
    message = decode_message(text) if b'"id"' in text else None
    if message is None or not isinstance(method := message.get("method"), str):
        return text, None
    id = message.get("id")
    is_notification = "id" not in message or (id is None and method.startswith("notifications/"))
    if is_notification or parse_request_id(id) is not None:
        return text, None
    if type(id) is float and id.is_integer():
        return jsontext.encode({**message, "id": int(id)}), None
    refusal = {
        "code": types.INVALID_REQUEST,
        "message": "the id of a request must be an integer or a string",
    }
    known_id = id if type(id) is float else None
    return text, jsontext.encode({"jsonrpc": "2.0", "id": known_id, "error": refusal})


def find_leading_id(head: bytes) -> types.RequestId | None:
    """Return the id at the beginning of a request that cannot be read as a whole, or None."""
    match = _LEADING_ID.match(head)
    # Without a method it may be a response, whose id is one of the server's requests.
    if match and b'"method"' not in match[0] and not _METHOD.match(head, match.end()):
        return None
    try:
        return parse_request_id(jsontext.decode(match[1])) if match else None
    except jsontext.NotJson:  # a text that is not UTF-8
        return None


def parse_cancelled_id(message: dict[str, Any]) -> types.RequestId | None:
    """Return the id of the request that this message cancels, or None if it cancels no request."""
    if message.get("method") != "notifications/cancelled" or "id" in message:
        return None
    params = message.get("params")
    return parse_request_id(params.get("requestId")) if isinstance(params, dict) else None


def make_stateless_caller(route: InboundModernRoute) -> CallingClient:
    """Return the client that a request of the stateless era describes."""
    connection = Connection.from_envelope(
        route.protocol_version, route.client_info, route.client_capabilities
    )
    return CallingClient(
        connection.protocol_version, connection.client_params, connection.client_capabilities
    )


def encode_result(id: types.RequestId, result: dict[str, Any]) -> bytes:
    """Return the reply with a result."""
    try:
        return jsontext.encode_fast({"jsonrpc": "2.0", "id": id, "result": result})
    except (TypeError, ValueError, RecursionError, OverflowError):  # an integer beyond 64 bits, …
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
