"""A toy dialect for tests: Content-Length frames, and JSON-RPC in both directions.

A dialect is the protocol that an extension speaks; this one is similar to the built-in dialects
synaps and roder. Its extension, `askback_child.py`, "asks back": during a call it sends requests to
the host and reads the answer next. It has a single thread, so only one call is in flight.

There are two kinds of streams, calls that are answered with events: the events of `run` belong to
the call in flight and end with its reply; `watch` is acknowledged, and its events have the name of
the stream until the last one.
"""

from types import MappingProxyType
from typing import Any

from exthost.dialects.base import Dialect, Traits
from exthost.dialects.codec import Role
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.meanings import Log
from exthost.dialects.steps import Handshake, OneRequest, Outgoing, result_of
from exthost.dialects.streams import StreamEvent, StreamKind
from exthost.model.messages import (
    Failure,
    Id,
    Incoming,
    Message,
    Noise,
    Notification,
    Reply,
    Request,
)
from exthost.model.offer import Offer, Tool
from exthost.model.shutdown_steps import CloseStdin, Say
from exthost.model.spec import Limits
from exthost.wire import jsontext
from exthost.wire.framing import Bytes
from exthost.wire.headers import Headers


class Codec:
    """JSON-RPC 2.0, the same in both roles."""

    def request(self, method: str, params: Any, id: Id) -> bytes:
        return jsontext.encode({"jsonrpc": "2.0", "method": method, "params": params, "id": id})

    def forget_last_request(self) -> None:
        pass

    def encode(self, message: Message) -> bytes:
        fields: dict[str, Any] = {"jsonrpc": "2.0"}
        match message:
            case Request(method, params, id):
                fields |= {"method": method, "params": params, "id": id}
            case Notification(method, params):
                fields |= {"method": method, "params": params}
            case Reply(id, result):
                fields |= {"result": result, "id": id}
            case Failure(id, text, code, data):
                fields |= {"error": {"code": code, "message": text, "data": data}, "id": id}
        return jsontext.encode(fields)

    def decode(self, frame: Bytes) -> Incoming:
        try:
            fields = jsontext.decode(frame)
        except jsontext.NotJson as reason:
            return Noise(bytes(frame), str(reason))
        if not isinstance(fields, dict):
            return Noise(bytes(frame), "not a JSON object")
        id, method, params = fields.get("id"), fields.get("method"), fields.get("params")
        if isinstance(method, str):
            return Notification(method, params) if id is None else Request(method, params, id)
        error = fields.get("error")
        if isinstance(error, dict):
            # An id of null is allowed: it answers a request that could not be read.
            return Failure(id, str(error.get("message")), error.get("code"), error.get("data"))
        if type(id) is not int:
            return Noise(bytes(frame), "neither a method nor an id")
        return Reply(id, fields.get("result"))

    def reply_id_in_prefix(self, head: bytes) -> Id | None:
        return jsontext.leading_id(head)


def _codec(role: Role) -> Codec:
    return Codec()


def _handshake(context: HandshakeContext) -> Handshake:
    received = yield Request("initialize", {"serves": sorted(context.handles)})
    report = result_of(received, "initialize")
    yield Notification("initialized", None)
    tools = tuple(Tool(name) for name in report["tools"])
    return Offer(name=report["name"], tools=tools, extra={"learnt": report.get("learnt")})


def _run_event(method: str, params: Any) -> StreamEvent | None:
    return StreamEvent(params["n"]) if isinstance(params, dict) and "n" in params else None


def _cancel_run(params: Any, reason: str) -> Outgoing:
    return Notification("run.cancel", {"why": reason})


def _watch_event(method: str, params: Any) -> StreamEvent | None:
    return StreamEvent(params["event"], terminal=params["event"] in ("done", "failed"))


def _acknowledged(params: Any, result: Any) -> bool:
    return bool(result == {"stream": params["stream"]})


def _cancel_watch(params: Any, reason: str) -> Outgoing:
    return Request("watch.cancel", {"stream": params["stream"], "why": reason})


DIALECT = Dialect(
    name="askback",
    framing=Headers,
    codec=_codec,
    handshake=_handshake,
    operations=MappingProxyType(
        {
            "call_tool": OneRequest(
                lambda call: ("tool", {"name": call.name, "with": call.arguments})
            )
        }
    ),
    streams=MappingProxyType(
        {
            "run": StreamKind(
                notifications=MappingProxyType({"run.event": None}),
                decode=_run_event,
                cancel=_cancel_run,
            ),
            "watch": StreamKind(
                notifications=MappingProxyType({"watch.event": "stream"}),
                decode=_watch_event,
                key="stream",
                ends="terminal",
                acknowledged=_acknowledged,
                cancel=_cancel_watch,
            ),
        }
    ),
    notifications=MappingProxyType({"say": lambda params: Log(20, str(params))}),
    cancel_message=lambda request, reason: Notification("cancelled", {"id": request.id}),
    traits=Traits(
        limits=Limits(handshake=20, call=20, max_message=4 * 2**20, max_in_flight=1),
        first_id=1,
        shutdown_steps=(Say(Request("shutdown"), wait=5), CloseStdin(wait=5)),
    ),
)
