"""roder: JSON-RPC 2.0, one object per line, and a manifest that the handshake must repeat.

The manifest declares what an extension provides, so nothing is started before its first use. The
handshake is one request, `extension/initialize`; its reply must repeat the protocol version, id,
services and checksum of the manifest, checked in that order. Inference turns, dispatches and tasks
are streams: each event names its stream, and a terminal event ends it. Keys of wrapper objects are
camelCase; the objects inside are snake_case and are passed on unchanged. The child sends no
requests; one that arrives is refused.

Messages may contain prompts, so errors never show their contents.
"""

import re
import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from exthost.dialects.base import Dialect, Traits
from exthost.dialects.calls import EventSink, ToolCall
from exthost.dialects.codec import Role
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.json_codec import JsonRpc, failure_of, noise
from exthost.dialects.meanings import Emitted, Meaning, Unusable
from exthost.dialects.options import EVENT_KINDS, TEXTS
from exthost.dialects.roder.facets import HOST_THREAD, Inference, Subagents, Tasks
from exthost.dialects.roder.manifest import API_VERSION, Manifest
from exthost.dialects.roder.manifest_check import difference, judge_echo
from exthost.dialects.roder.types import (
    Failed,
    WorkFailed,
    inference_event,
    shown,
    subagent_event,
    task_event,
)
from exthost.dialects.steps import Exchanges, Handshake, Outgoing, handshake_result, result_of
from exthost.dialects.streams import StreamEvent, StreamKind
from exthost.dialects.value_result import value_text
from exthost.errors import ExthostError, HandshakeFailed, ProtocolViolation, UsageError
from exthost.messages import Incoming, Notification, Reply, Request
from exthost.offer import Offer
from exthost.shutdown_steps import CloseStdin, Say
from exthost.spec import Breaker, Limits, Restart, Spec
from exthost.tool_result import Block, ResultReader, TextBlock
from exthost.wire import jsontext
from exthost.wire.framing import Bytes
from exthost.wire.lines import Lines

PROTOCOL_VERSION = "0.2.0"

# The protocol's limit for the payload of an extension's own event.
EVENT_PAYLOAD_BYTES = 256 * 1024

# The protocol's limits: for a sink to read an event, and for a dispatch without its own limit.
EVENT_FORWARD_SECONDS = 2.0
DISPATCH_SECONDS = 1800.0

# roder-tools-05: the kind of every error in the result of a tool that did not run.
ERROR_KIND = "tool_execution_failed"

# A longer limit of a dispatch is cut to this, about 30 years.
MOST_SECONDS = 10.0**9


class Codec(JsonRpc):
    """JSON-RPC 2.0; the same at both ends."""

    __slots__ = ()

    def read(self, fields: dict[str, Any], frame: Bytes) -> Incoming:
        id = fields.get("id")
        if "method" in fields:
            method = fields["method"]
            if type(method) is not str or not (id is None or type(id) in (int, str)):
                return noise(frame, "a method or an id of the wrong type")
            params = fields.get("params")
            return Notification(method, params) if id is None else Request(method, params, id)
        if type(id) is not int:
            return noise(frame, "neither a method nor the id of a request")
        error = fields.get("error")
        if error is None:
            return Reply(id, fields.get("result"))
        return failure_of(id, error, "(an error without a message)")


def _codec(role: Role) -> Codec:
    return Codec()


# -- the handshake -----------------------------------------------------------------------------


def _handshake(context: HandshakeContext) -> Handshake:
    manifest = context.manifest
    if not isinstance(manifest, Manifest):
        raise HandshakeFailed(
            "X0540",
            "a roder extension cannot be started without its manifest",
            help='name it: manifest = "roder-extension.toml", or give its path as the TARGET; a '
            "program made with exthost.sdk prints it: --manifest roder",
        )
    denied = context.options.get("denied_capabilities", ())
    granted = [name for name in manifest.capabilities if name not in denied]
    response = yield Request(
        "extension/initialize",
        {
            "protocolVersion": PROTOCOL_VERSION,
            "apiVersion": API_VERSION,
            "extensionId": manifest.id,
            "cwd": context.cwd,
            "grantedCapabilities": granted,
            "config": _without_secrets(context.config or {}),
            "eventFilter": {"kinds": list(_kinds(context.options))},
        },
    )
    echo = handshake_result(response, "extension/initialize")
    judge_echo(manifest, echo, PROTOCOL_VERSION)
    services = [f"{service['type']} {service['id']}" for service in manifest.services]
    return Offer(
        tools=manifest.tools,
        version=manifest.version,
        name=manifest.name,
        extra=MappingProxyType({"services": services}),
    )


_SECRET_MEMBER = re.compile(
    r"(?:^|_)(?:token|key|apikey|pat|auth|bearer|session)$|password|secret|credential|private_?key",
    re.IGNORECASE,
)
_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _without_secrets(value: Any) -> Any:
    """Return the config without members whose names suggest a secret."""
    if isinstance(value, Mapping):
        return {
            name: _without_secrets(item)
            for name, item in value.items()
            if not _SECRET_MEMBER.search(_CAMEL_BOUNDARY.sub("_", name).replace("-", "_"))
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(item) for item in value]
    return value


# -- tools -------------------------------------------------------------------------------------


def _call_tool(call: ToolCall) -> Exchanges:
    provider = call.tool.extra.get("provider", "") if call.tool is not None else ""
    response = yield Request(
        "tools/call",
        {
            "providerId": provider,
            "toolName": call.name,
            "callId": str(call.context.get("call_id") or uuid.uuid4()),
            "threadId": str(call.context.get("thread_id") or HOST_THREAD),
            "turnId": str(call.context.get("turn_id") or uuid.uuid4()),
            "arguments": call.arguments,
        },
    )
    result = result_of(response, call.name)
    if (
        type(result) is not dict
        or type(result.get("content")) is not str
        or type(result.get("isError")) is not bool
    ):
        raise ProtocolViolation(
            "X0640",
            f"its reply to the tool {call.name} must have `content`, a string, and `isError`, a "
            "boolean",
            help='answer with {"content": "text", "isError": false, "data": null}',
        )
    return result if "data" in result else result | {"data": None}


# The last event of a stream that failed: of a turn, and of a dispatch or task.
_FAILURES = (Failed, WorkFailed)


def _is_error(result: Any) -> bool:
    if type(result) is dict:
        return result.get("isError") is True
    return type(result) in _FAILURES


def _is_tool_result(result: Any) -> bool:
    """Return whether this is the result of a tool, and not what a hook put in its place."""
    return type(result) is dict and type(result.get("content")) is str


def _text(result: Any) -> str:
    match result:
        case Failed(message):
            return message
        case WorkFailed(error):
            return value_text(error)
    return value_text(result["content"] if _is_tool_result(result) else result)


def _data(result: Any) -> Any:
    return result.get("data") if _is_tool_result(result) else result


def _content(result: Any) -> tuple[Block, ...]:
    return (TextBlock(_text(result)),)


def _error_result(error: ExthostError) -> Any:
    answer = {"kind": ERROR_KIND, "message": error.message}
    return {"content": error.message, "isError": True, "data": {"error": answer}}


# -- events ------------------------------------------------------------------------------------


def _read_extension_event(params: Any) -> Meaning:
    if type(params) is not dict or "payload" not in params:
        return Unusable("extension events that could not be read")
    by, kind, version = (params.get(key) for key in ("extensionId", "eventKind", "schemaVersion"))
    if type(by) is not str or type(kind) is not str or type(version) is not int:
        return Unusable("extension events that could not be read")
    if not 0 <= version < 2**32:
        return Unusable("extension events that could not be read")
    try:
        size = len(jsontext.encode(params["payload"]))
    except UsageError:  # nested too deep to be encoded again
        size = EVENT_PAYLOAD_BYTES + 1
    if size > EVENT_PAYLOAD_BYTES:
        return Unusable("extension events over the size limit")
    return Emitted(by, kind, version, params["payload"])


def _kinds(options: Mapping[str, Any]) -> tuple[str, ...]:
    event_filter = options.get("event_filter")
    kinds = event_filter.get("kinds", ()) if isinstance(event_filter, Mapping) else ()
    return tuple(kind for kind in kinds if isinstance(kind, str))


def _sink(spec: Spec) -> EventSink | None:
    manifest, kinds = spec.manifest, _kinds(spec.options)
    if not isinstance(manifest, Manifest) or not manifest.ids("event_sink") or not kinds:
        return None
    return EventSink(kinds, _event_notification, EVENT_FORWARD_SECONDS)


def _event_notification(envelope: Mapping[str, Any]) -> Notification:
    """Return the envelope of an event as the protocol has it, with the thread and the turn of the
    context."""
    context = envelope["context"]
    members = {name: value for name, value in envelope.items() if name != "context"}
    members |= {name: context.get(name) for name in ("thread_id", "turn_id")}
    return Notification("events/handle", {"envelope": members})


# -- streams -----------------------------------------------------------------------------------


def _acknowledged(key: str) -> Any:
    def acknowledged(params: Any, result: Any) -> bool:
        return isinstance(result, dict) and not difference(result.get(key), params[key])

    return acknowledged


def _cancel(method: str, *keys: str) -> Any:
    def cancel(params: Any, why: str) -> Outgoing:
        known = {key: params[key] for key in keys if key in params}
        return Request(method, known | {"reason": why})

    return cancel


def _dispatch_limit(params: Any) -> float:
    request = params.get("request") if isinstance(params, dict) else None
    seconds: Any = request.get("timeout_seconds") if isinstance(request, Mapping) else None
    if type(seconds) not in (int, float) or not seconds > 0:
        return DISPATCH_SECONDS
    return float(min(seconds, MOST_SECONDS))


def _stream(
    notice: str, key: str, decode: Callable[[str, Any], StreamEvent | None], **more: Any
) -> StreamKind:
    """Return a stream that is acknowledged by its name and ended by a terminal event."""
    return StreamKind(
        notifications=MappingProxyType({notice: key}),
        decode=decode,
        key=key,
        ends="terminal",
        acknowledged=_acknowledged(key),
        **more,
    )


_STREAMS = {
    "inference/streamTurn": _stream("inference/event", "streamId", inference_event),
    "subagents/dispatch": _stream(
        "subagents/event",
        "dispatchId",
        subagent_event,
        cancel=_cancel("subagents/cancel", "dispatcherId", "dispatchId"),
        limit=_dispatch_limit,
    ),
    "tasks/execute": _stream(
        "tasks/event",
        "executionId",
        task_event,
        cancel=_cancel("tasks/cancel", "executorId", "executionId"),
    ),
}


DIALECT = Dialect(
    name="roder",
    framing=Lines,
    codec=_codec,
    handshake=_handshake,
    operations=MappingProxyType({"call_tool": _call_tool}),
    streams=MappingProxyType(_STREAMS),
    notifications=MappingProxyType({"extension/event": _read_extension_event}),
    facets=MappingProxyType({"inference": Inference, "subagents": Subagents, "tasks": Tasks}),
    result_reader=ResultReader(_is_error, _text, _data, _content),
    error_result=_error_result,
    event_sink=_sink,
    render_event=shown,
    options=MappingProxyType(
        {
            "denied_capabilities": TEXTS.described("Capabilities that are refused to it."),
            "event_filter": EVENT_KINDS.described("The kinds of events that it is sent."),
        }
    ),
    traits=Traits(
        limits=Limits(
            start=10,
            handshake=30,
            call=30,
            write=30,
            stop=2,
            max_message=4 * 2**20,
            max_in_flight=1024,
        ),
        first_id=1,
        tools="manifest",
        start="lazy",
        environment="declared",
        restart=Restart(strategy="on-demand", forgiven_by="call"),
        # The protocol requires a breaker and gives no figures; these are the defaults.
        breaker=Breaker(failures=5, open=10, max_open=120, successes=2, count_error_replies=False),
        redact=True,
        # After its reply the process has a moment to exit; then its process tree is killed.
        shutdown_steps=(Say(Request("extension/shutdown", {}), wait=2), CloseStdin(wait=0.25)),
    ),
)
