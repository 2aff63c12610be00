"""Encodes and decodes the messages of cigen, which are protobuf.

The protocol has six requests, each with its result (`EXCHANGES`). Messages carry neither ids nor
method names, so the bytes do not show which message they are: the codecs remember the order of the
messages. A plugin is cigen's name for an extension.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from exthost_sdk.proto import plugin_pb2 as messages
from google.protobuf.message import Message as Proto

from exthost.dialects.cigen.proto.mapping import decode_message, find_mistyped_field, to_message
from exthost.dialects.codec import Role
from exthost.errors import Evidence, ProtocolViolation, UsageError
from exthost.model.messages import Id, Incoming, Message, Reply, Request
from exthost.wire.framing import EVIDENCE_BYTES, Bytes


class MessagePair(NamedTuple):
    """The message classes of a request and its result."""

    request: type[Proto]
    result: type[Proto]


# Method → classes. The method names are exthost's; the messages do not contain them.
EXCHANGES: Mapping[str, MessagePair] = {
    "hello": MessagePair(messages.Hello, messages.PluginInfo),
    "plan": MessagePair(messages.PlanRequest, messages.PlanResult),
    "generate": MessagePair(messages.GenerateRequest, messages.GenerateResult),
    "detect": MessagePair(messages.DetectRequest, messages.DetectResult),
    "validate": MessagePair(messages.ValidateRequest, messages.ValidateResult),
    "preflight": MessagePair(messages.PreflightRequest, messages.PreflightResult),
}


_CALLABLE_METHODS = tuple(name for name in EXCHANGES if name != "hello")


class CigenHostCodec:
    """The codec of the host. It remembers the methods of its requests that have no reply yet,
    because the type of a result follows only from the method of its request."""

    __slots__ = ("_methods",)

    def __init__(self) -> None:
        self._methods: deque[str] = deque()

    def request(self, method: str, params: Any, id: Id) -> bytes:
        message = to_message(EXCHANGES[method].request, params)
        payload = message.SerializeToString(deterministic=True)
        self._methods.append(method)
        return payload

    def forget_last_request(self) -> None:
        self._methods.pop()

    def encode(self, message: Message) -> bytes:
        if isinstance(message, Request) and message.method in EXCHANGES:
            return self.request(message.method, message.params, 0)
        raise UsageError(
            "X1304",
            "a cigen host sends only its six requests",
            help=f"call one of {', '.join(_CALLABLE_METHODS)}",
        )

    def decode(self, frame: Bytes) -> Incoming:
        if not self._methods:
            raise ProtocolViolation(
                "X0621",
                "it answered without a request",
                help="a plugin answers each message with exactly one",
                evidence=Evidence(bytes=bytes(frame[:EVIDENCE_BYTES]).hex(" ", 4)),
            )
        method = self._methods.popleft()
        check = _check_plan if method == "plan" else None
        return Reply(None, decode_message(EXCHANGES[method].result, frame, check=check))

    def reply_id_in_prefix(self, head: bytes) -> Id | None:
        return None


def _check_plan(result: Proto) -> None:
    """Raise ProtocolViolation if this is not a PlanResult. A plugin that expects no Plan decodes a
    PlanRequest as a GenerateRequest, and its GenerateResult decodes as a PlanResult."""
    if field := find_mistyped_field(result):
        raise ProtocolViolation(
            "X0622",
            f"its answer to the plan is not a PlanResult: {field} has another type",
            help="if it expects no plan before it generates: options = { plan = false } in its "
            "entry, or --option plan=false for a command",
        )


class CigenGuestCodec:
    """The codec of a plugin, for the SDK, for test extensions and for test vectors. After Hello it
    expects Plan and Generate alternately, as existing plugins do, unless `expect` names another
    method."""

    __slots__ = ("_current", "_next")

    def __init__(self) -> None:
        self._next = self._current = "hello"

    def expect(self, method: str) -> None:
        self._next = method

    def request(self, method: str, params: Any, id: Id) -> bytes:
        raise UsageError("X1304", "a cigen plugin sends no requests, and refuses with a diagnostic")

    def forget_last_request(self) -> None:
        pass

    def encode(self, message: Message) -> bytes:
        if isinstance(message, Reply):
            result = to_message(EXCHANGES[self._current].result, message.result)
            return result.SerializeToString(deterministic=True)
        return self.request("", None, 0)  # raises the error for any other message

    def decode(self, frame: Bytes) -> Incoming:
        self._current = self._next
        self._next = "generate" if self._current == "plan" else "plan"
        return Request(self._current, decode_message(EXCHANGES[self._current].request, frame))

    def reply_id_in_prefix(self, head: bytes) -> Id | None:
        return None


def codec(role: Role) -> CigenHostCodec | CigenGuestCodec:
    return CigenHostCodec() if role is Role.HOST else CigenGuestCodec()
