"""The base class of the endpoints that speak JSON-RPC 2.0: messages, error codes and dispatch.

An endpoint is the extension's side of one dialect (protocol): it gets the messages of the host and
calls the author's handlers. A request has an id, a method and params; a notification has no id and
no reply:

    {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
    {"jsonrpc": "2.0", "id": 1, "result": {}}
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from exthost_sdk.endpoints.endpoint import Endpoint, Identity, can_be_id
from exthost_sdk.errors import ToolError, describe
from exthost_sdk.serving.failure_report import report
from exthost_sdk.serving.server import Server
from exthost_sdk.types.function import Function
from exthost_sdk.types.json_text import decode, encode
from exthost_sdk.wire.framing import FrameSplitter, LineFraming, with_newline

# The error codes. The first three are those of JSON-RPC; the last is in the range that it leaves to
# applications.
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HANDLER_FAILED = -32000

# How much of a text of the host an error repeats.
_SHOWN = 2000

Method = Callable[[Any, Any], bytes | None]
"""Handles a request or a notification: (id, params). The id of a notification is None. Returns the
frame of the reply, or None if there is none yet or none at all."""


class BadParams(Exception):
    """The params of a request are not what its method requires."""


def get_field(params: Any, name: str, expected: type, default: Any = ...) -> Any:
    """Return a field of the params. Raises BadParams if it is of another type, or if it is missing
    and there is no default. `...` stands for no default, because None can be one."""
    value = params.get(name, default) if type(params) is dict else default
    if type(value) is not expected and value is not default:
        raise BadParams(f"{name} must be {_TYPE_NAMES.get(expected, expected.__name__)}")
    if value is ...:
        raise BadParams(f"{name} is missing")
    return value


_TYPE_NAMES = {str: "text", dict: "an object", list: "a list", int: "a whole number"}


class JsonRpcEndpoint(Endpoint):
    """Dispatches messages by their method. The class of a dialect fills in `methods`."""

    framing: ClassVar[type[FrameSplitter]] = LineFraming
    max_bytes: ClassVar[int] = 64 * 2**20  # of a message: a host reads no larger one
    frame: Callable[[bytes], bytes] = staticmethod(with_newline)  # message → frame

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        self.methods: Mapping[str, Method] = {}

    def receive(self, frame: bytes) -> bytes | None:
        try:
            message = decode(frame)
        except (ValueError, RecursionError) as error:
            print(f"exthost.sdk: the host sent a line that is not JSON: {error}", file=sys.stderr)
            return None
        if type(message) is dict:
            return self._receive_message(message)
        if type(message) is not list:
            print("exthost.sdk: the host sent JSON that is not an object", file=sys.stderr)
            return None
        # A batch: JSON-RPC allows several messages in one frame. Each gets a reply of its own.
        replies = [self._receive_message(part) for part in message if type(part) is dict]
        return b"".join(reply for reply in replies if reply is not None) or None

    def _receive_message(self, message: dict[str, Any]) -> bytes | None:
        """Return the reply to a request; None for a notification or for a response, which has
        none."""
        id = message.get("id")
        method = message.get("method")
        if method is None:  # the host's response to a request of the extension
            self.server.requests.resolve(message)
            return None
        if not can_be_id(id):
            print("exthost.sdk: the host sent a request with an invalid id", file=sys.stderr)
            return None
        handle = self.methods.get(method) if type(method) is str else None
        try:
            if handle is not None:
                return handle(id, message.get("params"))
            return self.receive_unknown(id, method, message.get("params"))
        except BadParams as error:
            return self._short_error(id, INVALID_PARAMS, method, str(error))
        except Exception as error:
            report(error)
            return self._short_error(id, INTERNAL_ERROR, method, describe(error))

    def _short_error(self, id: Any, code: int, method: Any, reason: str) -> bytes | None:
        """Return the frame of an error that is not too large for the host, whatever it has sent."""
        return self.error(id, code, f"{method!s:.{_SHOWN}}: {reason:.{_SHOWN}}")

    def receive_unknown(self, id: Any, method: Any, params: Any) -> bytes | None:
        """Return the reply to a method that is not in `methods`."""
        return self.error(id, METHOD_NOT_FOUND, f"method not found: {method!s:.{_SHOWN}}")

    # -- messages ----------------------------------------------------------------------------

    def result(self, id: Any, value: Any) -> bytes | None:
        """Return the frame of a result; None if `id` is None, since a notification has no reply."""
        return None if id is None else self.encode_result(id, value)

    def encode_result(self, id: Any, value: Any) -> bytes:
        """Return the frame of a result; no bytes if `id` is None. The encoders of handlers must
        return bytes."""
        if id is None:
            return b""
        return self.frame_within_limit(encode({"jsonrpc": "2.0", "id": id, "result": value}))

    def frame_within_limit(self, payload: bytes, kind: str = "result") -> bytes:
        """Return the frame of a message. Raises ToolError if it is too large for the host. `kind`
        is its name in the error."""
        if len(payload) > self.max_bytes:
            raise ToolError(
                f"the {kind} has {len(payload)} bytes, and the {self.name} dialect allows "
                f"{self.max_bytes}"
            )
        return self.frame(payload)

    def error(self, id: Any, code: int, message: str, data: Any = None) -> bytes | None:
        """Return the frame of an error; None if `id` is None, since a notification has no reply."""
        return None if id is None else self.encode_error(id, code, message, data)

    def encode_error(self, id: Any, code: int, message: str, data: Any = None) -> bytes:
        """Return the frame of an error; no bytes if `id` is None."""
        if id is None:
            return b""
        error: dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        payload = encode({"jsonrpc": "2.0", "id": id, "error": error})
        return self.frame_within_limit(payload, "error")

    def notification(self, method: str, params: Any) -> bytes:
        payload = encode({"jsonrpc": "2.0", "method": method, "params": params})
        return self.frame_within_limit(payload, f"message {method}")

    def request(self, number: int, method: str, params: Any) -> bytes:
        payload = encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return self.frame_within_limit(payload, f"request {method}")

    # -- replies of handlers -----------------------------------------------------------------

    def encode_value_reply(self, id: Any, function: Function, value: Any) -> bytes:
        """Return the response for a handler whose result is sent as it is."""
        return self.encode_result(id, value)

    def encode_error_reply(self, id: Any, function: Function, error: BaseException) -> bytes:
        """Return the error response for the exception of a handler."""
        if isinstance(error, ToolError):
            return self.encode_error(id, error.code, describe(error), error.data)
        return self.encode_error(id, HANDLER_FAILED, describe(error))
