"""A toy dialect for tests: frames with a length of four bytes, and messages without ids.

A dialect is the protocol that an extension speaks; this one is similar to the built-in dialect
cigen. Its extension is `byorder_child.py`, and `byorder.toml` has examples of its messages.

A request is a verb, a space and JSON; `ping` is an empty frame. An answer is JSON, or an empty
frame for null, or `!` and a text for an error. Answers have the order of their requests.
"""

from collections import deque
from types import MappingProxyType
from typing import Any

from exthost.dialects.base import Dialect, Traits
from exthost.dialects.codec import Role
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.steps import Exchanges, Handshake, OneRequest, result_of
from exthost.errors import CallFailed, HandshakeFailed, ProtocolViolation, UsageError
from exthost.model.messages import Failure, Id, Incoming, Message, Noise, Reply, Request
from exthost.model.offer import Offer
from exthost.model.shutdown_steps import CloseStdin
from exthost.model.spec import Limits, Restart
from exthost.wire import jsontext
from exthost.wire.framing import Bytes
from exthost.wire.prefixed import Prefixed


class HostCodec:
    """Remembers the requests, because an answer does not name its request."""

    def __init__(self) -> None:
        self._sent_methods: deque[str] = deque()

    def request(self, method: str, params: Any, id: Id) -> bytes:
        payload = b"" if method == "ping" else method.encode() + b" " + jsontext.encode(params)
        self._sent_methods.append(method)
        return payload

    def forget_last_request(self) -> None:
        self._sent_methods.pop()

    def encode(self, message: Message) -> bytes:
        if not isinstance(message, Request):
            raise UsageError("X1304", "byorder has only requests")
        return self.request(message.method, message.params, 0)

    def decode(self, frame: Bytes) -> Incoming:
        if not self._sent_methods:
            raise ProtocolViolation("X0602", "it answered without a request")
        expected = self._sent_methods.popleft()
        data = bytes(frame)
        if not data:
            return Reply(None, None)
        if data.startswith(b"!"):
            return Failure(None, data[1:].decode("utf-8", "replace"))
        try:
            return Reply(None, jsontext.decode(data))
        except jsontext.NotJson as reason:
            raise ProtocolViolation(
                "X0602", f"its answer to {expected} cannot be read: {reason}"
            ) from None

    def reply_id_in_prefix(self, head: bytes) -> Id | None:
        return None


class GuestCodec:
    """The codec of the extension, which does not remember requests."""

    def request(self, method: str, params: Any, id: Id) -> bytes:
        raise UsageError("X1304", "a byorder extension cannot send requests")

    def forget_last_request(self) -> None:
        pass

    def encode(self, message: Message) -> bytes:
        match message:
            case Reply(result=None):
                return b""
            case Reply(result=result):
                return jsontext.encode(result)
            case Failure(message=text):
                return b"!" + text.encode()
        return self.request("", None, 0)

    def decode(self, frame: Bytes) -> Incoming:
        data = bytes(frame)
        if not data:
            return Request("ping", None)
        verb, _, rest = data.partition(b" ")
        try:
            return Request(verb.decode(), jsontext.decode(rest))
        except (UnicodeDecodeError, jsontext.NotJson):
            return Noise(data, "not a request")

    def reply_id_in_prefix(self, head: bytes) -> Id | None:
        return None


def _codec(role: Role) -> HostCodec | GuestCodec:
    return HostCodec() if role is Role.HOST else GuestCodec()


def _handshake(context: HandshakeContext) -> Handshake:
    received = yield Request("hello", {"protocol": 1})
    report = result_of(received, "hello")
    if report["protocol"] != 1:
        raise HandshakeFailed("X0505", f"it uses protocol {report['protocol']}, not 1")
    return Offer(name=report["name"])


def _make(params: Any) -> Exchanges:
    """Send two requests: `plan`, and `build` with the plan."""
    received = yield Request("plan", params)
    plan = result_of(received, "plan")
    if "fault" in plan:
        raise CallFailed("X0701", f"the plan has a fault: {plan['fault']}", data=plan)
    received = yield Request("build", plan)
    return result_of(received, "build")


def _verb(verb: str) -> OneRequest:
    return OneRequest(lambda params: (verb, params))


_VERBS = ("say", "plan", "ping", "hold", "twice", "garble", "overrun", "refuse", "die", "heard")

DIALECT = Dialect(
    name="byorder",
    framing=Prefixed,
    codec=_codec,
    handshake=_handshake,
    methods=MappingProxyType(
        {verb: _verb(verb) for verb in _VERBS}
        | {"make": _make, "shout": OneRequest(lambda text: ("say", text), str.upper)}
    ),
    has_fixed_methods=True,
    traits=Traits(
        limits=Limits(handshake=20, call=20, max_message=2**20, max_in_flight=1),
        positional=True,
        restart=Restart(strategy="on-demand"),
        shutdown_steps=(CloseStdin(wait=5),),
    ),
)
