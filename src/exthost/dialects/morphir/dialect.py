"""morphir: one JSON object per line, without `jsonrpc`; errors are plain strings.

The host sends requests: `{"id", "method", "params"}`, always with params. The extension sends
replies, `{"id", "result"}` or `{"id", "error": "text"}`, and notifications, `{"method", "params"}`;
the protocol defines one notification, `log`. The host sends no notifications. An extension sends no
requests: a request that arrives is ignored. Therefore a program that only repeats its
input, such as `cat`, cannot complete the handshake.

The handshake and the operations are generators: they yield a message and are resumed with its reply
(`dialects.steps`).
"""

import logging
from collections.abc import Mapping
from typing import Any

from exthost.dialects import steps
from exthost.dialects.base import Dialect, Traits
from exthost.dialects.calls import tool_as_method
from exthost.dialects.codec import Role
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.json_codec import decoder, noise
from exthost.dialects.meanings import Log
from exthost.errors import CallFailed, Evidence, HandshakeFailed, UsageError
from exthost.model.messages import Failure, Id, Incoming, Message, Notification, Reply, Request
from exthost.model.offer import Offer, OfferWarnings, Tool
from exthost.model.shutdown_steps import CloseStdin, Terminate
from exthost.model.spec import Limits, Restart
from exthost.wire import jsontext
from exthost.wire.framing import Bytes
from exthost.wire.jsontext import encode_fast
from exthost.wire.lines import Lines

_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "fatal": logging.CRITICAL,
}


class MorphirHostCodec:
    """The codec of the host: encodes requests, and decodes replies and notifications."""

    __slots__ = ()

    # `decode` calls `read` for every message but the simplest reply, which has these two members:
    # an id and a result.
    decode = decoder(members=2)
    decode_replies = staticmethod(jsontext.reply_decoder())
    may_be_reply = staticmethod(jsontext.may_be_reply)

    def request(self, method: str, params: Any, id: Id) -> bytes:
        fields = {"id": id, "method": method, "params": params}
        try:
            return encode_fast(fields)
        except jsontext.ENCODE_ERRORS:  # the other encoder handles it, or raises with the reason
            return jsontext.encode(fields)

    def forget_last_request(self) -> None:
        pass

    def encode(self, message: Message) -> bytes:
        if type(message) is Request and message.id is not None:
            return self.request(message.method, message.params, message.id)
        raise UsageError(
            "X1304",
            "morphir knows only requests from the host: it has no notifications",
            help="use call() with a method that the extension offers",
        )

    def read(self, fields: dict[str, Any], frame: Bytes) -> Incoming:
        if "method" not in fields:
            number = fields.get("id")
            if type(number) is not int or number < 0:
                return noise(frame, "neither a method nor the id of a request")
            error = fields.get("error")
            if error is None:
                return Reply(number, fields.get("result"))
            return Failure(number, error if type(error) is str else jsontext.display_text(error))
        method = fields["method"]
        if type(method) is str and fields.get("id") is None:
            return Notification(method, fields.get("params"))
        return noise(frame, "a request: morphir extensions cannot send requests to the host")

    def reply_id_in_prefix(self, head: bytes) -> Id | None:
        return jsontext.leading_id(head)


class MorphirGuestCodec:
    """The codec of an extension, for the SDK, for test extensions and for test vectors."""

    __slots__ = ()

    def request(self, method: str, params: Any, id: Id) -> bytes:
        raise UsageError("X1304", "a morphir extension cannot send requests to its host")

    def forget_last_request(self) -> None:
        pass

    def encode(self, message: Message) -> bytes:
        match message:
            case Reply(id=number, result=result):
                return jsontext.encode({"id": number, "result": result})
            case Failure(id=number, message=text):
                return jsontext.encode({"id": number, "error": text})
            case Notification(method=method, params=params):
                return jsontext.encode({"method": method, "params": params})
        return self.request("", None, 0)  # raises the error for a request

    def decode(self, frame: Bytes) -> Incoming:
        try:
            fields = jsontext.decode(frame)
        except jsontext.NotJson as reason:
            return noise(frame, str(reason))
        if type(fields) is not dict:
            return noise(frame, "not a JSON object")
        method, number = fields.get("method"), fields.get("id")
        if type(method) is not str or type(number) is not int:
            return noise(frame, "not a request: it has no method or no id")
        return Request(method, fields.get("params"), number)

    def reply_id_in_prefix(self, head: bytes) -> Id | None:
        return None


def _codec(role: Role) -> MorphirHostCodec | MorphirGuestCodec:
    return MorphirHostCodec() if role is Role.HOST else MorphirGuestCodec()


def _handshake(context: HandshakeContext) -> steps.Handshake:
    """Send `initialize` with the config, then `capabilities`, whose reply lists the tools."""
    steps.handshake_result((yield Request("initialize", context.config)))
    response = yield Request("capabilities", None)
    try:
        capabilities = steps.result_of(response, "capabilities")
    except CallFailed as refused:
        raise HandshakeFailed(
            "X0503",
            f"it did not report its capabilities: {refused.error_message}",
            help="answer the method `capabilities` with a list of {name, description}",
        ) from None
    warnings = OfferWarnings()
    tools = _parse_tools(capabilities, warnings)
    return Offer(tools=tools, warnings=warnings.report())


def _parse_tools(capabilities: Any, warnings: list[str]) -> tuple[Tool, ...]:
    """Return the tools in the reply to `capabilities`. Mistakes that do not prevent their use are
    appended to `warnings`."""
    if type(capabilities) is not list:
        raise _capabilities_error("it is not a list", capabilities)
    tools: dict[str, Tool] = {}
    for position, item in enumerate(capabilities):
        if type(item) is not dict:
            raise _capabilities_error(f"item {position} is not an object", item)
        name, description = item.get("name"), item.get("description")
        if type(name) is not str or not name:
            raise _capabilities_error(f"item {position} has no name", item)
        if type(description) is not str:
            raise _capabilities_error(f"item {position} ({name}) has no description", item)
        if name in tools:
            warnings.append(f"it offers {name!r} twice; the first is used")
            continue
        tools[name] = Tool(name, description, item.get("params_schema"), item.get("return_schema"))
    return tuple(tools.values())


def _capabilities_error(reason: str, value: Any) -> HandshakeFailed:
    return HandshakeFailed(
        "X0503",
        f"its answer to `capabilities` cannot be used: {reason}",
        help="answer with a list of {name, description, params_schema?, return_schema?}",
        evidence=Evidence(bytes=jsontext.display_text(value)[:500]),
    )


def _parse_log(params: Any) -> Log | None:
    if type(params) is not dict or "message" not in params:
        return None
    message = params["message"]
    level = _LEVELS.get(str(params.get("level", "info")).lower(), logging.INFO)
    return Log(level, message if type(message) is str else jsontext.display_text(message))


def _request_health(_: Any) -> steps.Exchanges:
    """Request the health and return `{"status", "message"?}`. The method is optional, so an
    extension without it counts as healthy."""
    response = yield Request("health_check", None)
    result = response.result if isinstance(response, Reply) else None
    statuses = ("healthy", "degraded", "unhealthy")
    if type(result) is dict and result.get("status") in statuses:
        return result
    return {"status": "healthy"}


_OPERATIONS: Mapping[str, steps.Operation] = {
    "call_tool": steps.OneRequest(tool_as_method),
    "health": _request_health,
}

DIALECT = Dialect(
    name="morphir",
    framing=Lines,
    codec=_codec,
    handshake=_handshake,
    operations=_OPERATIONS,
    notifications={"log": _parse_log},
    traits=Traits(
        # The protocol allows 30 s for each request of the handshake and for each call.
        limits=Limits(handshake=30, call=30, max_message=64 * 2**20),
        restart=Restart(
            strategy="never", initial_delay=1, max_delay=30, max_retries=3, forgiven_by="uptime"
        ),
        # An extension exits when its stdin ends.
        shutdown_steps=(CloseStdin(wait=3), Terminate(wait=2)),
    ),
)
