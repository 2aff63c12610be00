"""roder: JSON-RPC 2.0, one object per line, and a manifest that the handshake must repeat.

The manifest declares what an extension provides, so an extension is started only at its first use.
The handshake is one request, `extension/initialize`; its reply must repeat the protocol version and
the id, services and checksum of the manifest (`handshake_check`). Inference turns, subagent
dispatches and tasks are streams: each event names its stream, and a terminal event ends the stream.
The protocol's own objects have camelCase keys; the objects that they carry (requests, events) have
snake_case keys and are passed on unchanged. An extension sends no requests to the host; a request
that arrives is refused.

Messages may contain prompts. Errors therefore never show their contents; only errors of the
handshake show the version, the id or the checksum that the extension sent.

The handshake is a generator: it yields a message and is resumed with its reply (`dialects.steps`).
"""

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
from exthost.dialects.roder import messages, types
from exthost.dialects.roder.facets import HOST_THREAD, Inference, Subagents, Tasks
from exthost.dialects.roder.handshake_check import check_reply, find_difference
from exthost.dialects.roder.manifest import API_VERSION, RoderManifest
from exthost.dialects.steps import Handshake, OneRequestOrMore, Outgoing, handshake_result
from exthost.dialects.streams import StreamEvent, StreamKind
from exthost.dialects.value_result import value_text
from exthost.errors import ExthostError, HandshakeFailed, ProtocolViolation, UsageError
from exthost.model.messages import Incoming, Notification, Reply, Request
from exthost.model.offer import Offer
from exthost.model.secret_names import is_secret_name
from exthost.model.shutdown_steps import CloseStdin, Say
from exthost.model.spec import Breaker, Limits, Restart, Spec
from exthost.tool_result import Block, ResultReader, TextBlock
from exthost.wire import jsontext
from exthost.wire.framing import Bytes
from exthost.wire.lines import Lines

# The protocol's limit for the payload of an event that an extension publishes.
EVENT_PAYLOAD_BYTES = 256 * 1024

# The protocol's time limits: for an extension to read one event of the host, and for a subagent
# dispatch whose request sets no limit.
EVENT_FORWARD_SECONDS = 2.0
DISPATCH_SECONDS = 1800.0

# The `kind` of the error in the result of a tool that did not run (requirement roder-tools-05).
ERROR_KIND = "tool_execution_failed"

# The longest time limit of a dispatch, about 30 years. A longer limit is reduced to this, since
# timers do not accept arbitrarily large numbers.
MAX_DISPATCH_SECONDS = 10.0**9


class RoderCodec(JsonRpc):
    """Encodes and decodes JSON-RPC 2.0 messages, for the host and for an extension."""

    __slots__ = ()

    def read(self, fields: dict[str, Any], frame: Bytes) -> Incoming:
        id = fields.get("id")
        is_reply = type(id) is int and ("result" in fields or "error" in fields)
        if "method" in fields and not is_reply:
            method = fields["method"]
            if type(method) is not str or not (id is None or type(id) in (int, str)):
                return noise(frame, "a method or an id of the wrong type")
            params = fields.get("params")
            # The protocol's original host ignores the id of a notification.
            if id is None or method in messages.CHILD_NOTIFICATIONS:
                return Notification(method, params)
            return Request(method, params, id)
        if type(id) is not int:
            return noise(frame, "neither a method nor the id of a request")
        error = fields.get("error")
        if error is None:
            return Reply(id, fields.get("result"))
        return failure_of(id, error, "(an error without a message)")


def _codec(role: Role) -> RoderCodec:
    return RoderCodec()


# -- the handshake -----------------------------------------------------------------------------


def _handshake(context: HandshakeContext) -> Handshake:
    """Send `extension/initialize`, compare the reply with the manifest, and return the offer, which
    the manifest determines."""
    manifest = context.manifest
    if not isinstance(manifest, RoderManifest):
        raise HandshakeFailed(
            "X0540",
            "a roder extension cannot be started without its manifest",
            help='name it: manifest = "roder-extension.toml", or give its path as the TARGET; a '
            "program made with exthost.sdk prints it: --manifest roder",
        )
    denied = frozenset(context.options.get("denied_capabilities", ()))
    granted = [name for name in manifest.capabilities if name not in denied]
    params = messages.InitializeParams(
        protocol_version=messages.PROTOCOL_VERSION,
        api_version=API_VERSION,
        extension_id=manifest.id,
        cwd=context.cwd,
        granted_capabilities=tuple(granted),
        config=_without_secrets(context.config or {}),
        event_filter=messages.EventFilter(kinds=_event_kinds(context.options)),
    )
    response = yield Request(messages.METHOD_INITIALIZE, params.to_json())
    reply = handshake_result(response, messages.METHOD_INITIALIZE)
    check_reply(manifest, reply, messages.PROTOCOL_VERSION)
    services = [f"{service['type']} {service['id']}" for service in manifest.services]
    return Offer(
        tools=manifest.tools,
        version=manifest.version,
        name=manifest.name,
        extra=MappingProxyType({"services": services}),
    )


def _without_secrets(value: Any) -> Any:
    """Return a config without the fields whose names suggest a secret, at every depth."""
    if isinstance(value, Mapping):
        # With the underscore, a name that is only the last word of others is one too, such as `key`
        # or `pwd`.
        return {
            name: _without_secrets(item)
            for name, item in value.items()
            if not is_secret_name(f"_{name}")
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(item) for item in value]
    return value


# -- tools -------------------------------------------------------------------------------------


def _make_tool_request(call: ToolCall) -> tuple[str, Any]:
    """Return the method and the params that call a tool. Ids that the caller did not pass are
    generated."""
    provider = call.tool.extra.get("provider", "") if call.tool is not None else ""
    # A dictionary, not `ToolCallParams`: this is on the path of every call.
    return messages.METHOD_TOOLS_CALL, {
        "providerId": provider,
        "toolName": call.name,
        "callId": str(call.context.get("call_id") or uuid.uuid4()),
        "threadId": str(call.context.get("thread_id") or HOST_THREAD),
        "turnId": str(call.context.get("turn_id") or uuid.uuid4()),
        "arguments": call.arguments,
    }


def _read_tool_result(call: ToolCall, result: Any) -> Any:
    """Return the result of a tool, with all three fields. Raises ProtocolViolation if it has
    another form."""
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


# The last events of streams that failed. They count as error results, as a failed tool call does.
_FAILURE_EVENTS = (types.TurnFailed, types.WorkFailed)


def _is_error(result: Any) -> bool:
    if type(result) is dict:
        return result.get("isError") is True
    return type(result) in _FAILURE_EVENTS


def _is_tool_result(result: Any) -> bool:
    """Return whether this is the result of a tool, not a value with which a hook replaced it."""
    return type(result) is dict and type(result.get("content")) is str


def _text(result: Any) -> str:
    match result:
        case types.TurnFailed(message):
            return message
        case types.WorkFailed(error):
            return value_text(error)
    return value_text(result["content"] if _is_tool_result(result) else result)


def _data(result: Any) -> Any:
    return result.get("data") if _is_tool_result(result) else result


def _content(result: Any) -> tuple[Block, ...]:
    return (TextBlock(_text(result)),)


def _error_result(error: ExthostError) -> Any:
    details = {"kind": ERROR_KIND, "message": error.message}
    return {"content": error.message, "isError": True, "data": {"error": details}}


# -- events ------------------------------------------------------------------------------------


def _read_extension_event(params: Any) -> Meaning:
    """Return the event that an extension publishes, or Unusable if it is invalid or too large."""
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


def _event_kinds(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of events that the option `event_filter` selects."""
    event_filter = options.get("event_filter")
    kinds = event_filter.get("kinds", ()) if isinstance(event_filter, Mapping) else ()
    return tuple(kind for kind in kinds if isinstance(kind, str))


# The values of `source` in the protocol's envelope; a typed extension refuses any other.
_EVENT_SOURCES = frozenset(
    {"Runtime", "Core", "Provider", "Tool", "AppServer", "Tui", "Extension", "System"}
)


def _event_source(envelope: Mapping[str, Any]) -> str:
    """Return the `source` of an event as the protocol knows it: that of the program that emitted
    it, if it is one of them; otherwise an extension or the host."""
    if envelope["source"] in _EVENT_SOURCES:
        return str(envelope["source"])
    return "Extension" if envelope["is_of_extension"] else "Runtime"


def _event_notification(envelope: Mapping[str, Any]) -> Notification:
    """Return the notification of an event. The protocol's envelope has the ids of the thread and
    the turn in place of the caller's context. `source_id` is the id of the extension, or the name
    that the program gave as the source."""
    context, source = envelope["context"], envelope["source"]
    fields = {
        name: value
        for name, value in envelope.items()
        if name not in ("context", "is_of_extension")
    }
    fields |= {"source": _event_source(envelope), "source_id": source}
    fields |= {name: context.get(name) for name in ("thread_id", "turn_id")}
    return Notification(messages.METHOD_EVENTS_HANDLE, {"envelope": fields})


# -- streams -----------------------------------------------------------------------------------


def _acknowledgement_check(key: str) -> Any:
    """Return a function that takes the params of a request and the result of its reply, and returns
    whether the result repeats the stream's name, the field `key`."""

    def is_acknowledged(params: Any, result: Any) -> bool:
        return isinstance(result, dict) and not find_difference(result.get(key), params[key])

    return is_acknowledged


def _cancel_factory(method: str, *keys: str) -> Any:
    """Return a function that makes the request to cancel a stream. `keys` are the fields of the
    opening request's params that it repeats."""

    def make_cancel(params: Any, reason: str) -> Outgoing:
        ids = {key: params[key] for key in keys if key in params}
        return Request(method, ids | {"reason": reason})

    return make_cancel


def _dispatch_limit(params: Any) -> float:
    """Return the time limit of a dispatch in seconds: that of its request, or the protocol's."""
    request = params.get("request") if isinstance(params, dict) else None
    seconds: Any = request.get("timeout_seconds") if isinstance(request, Mapping) else None
    if type(seconds) not in (int, float) or not seconds > 0:
        return DISPATCH_SECONDS
    return float(min(seconds, MAX_DISPATCH_SECONDS))


def _stream_kind(
    notification: str, key: str, decode: Callable[[str, Any], StreamEvent | None], **fields: Any
) -> StreamKind:
    """Return the description of a stream whose reply repeats its name (the field `key`), and which
    a terminal event ends. `notification` is the method of its events. `fields` are further fields
    of StreamKind."""
    return StreamKind(
        notifications=MappingProxyType({notification: key}),
        decode=decode,
        key=key,
        ends="terminal",
        acknowledged=_acknowledgement_check(key),
        **fields,
    )


_STREAMS = {
    messages.METHOD_STREAM_TURN: _stream_kind(
        messages.METHOD_INFERENCE_EVENT, "streamId", types.parse_inference_event
    ),
    messages.METHOD_SUBAGENTS_DISPATCH: _stream_kind(
        messages.METHOD_SUBAGENTS_EVENT,
        "dispatchId",
        types.parse_subagent_event,
        cancel=_cancel_factory(messages.METHOD_SUBAGENTS_CANCEL, "dispatcherId", "dispatchId"),
        limit=_dispatch_limit,
    ),
    messages.METHOD_TASKS_EXECUTE: _stream_kind(
        messages.METHOD_TASKS_EVENT,
        "executionId",
        types.parse_task_event,
        cancel=_cancel_factory(messages.METHOD_TASKS_CANCEL, "executorId", "executionId"),
    ),
}


class RoderDialect(Dialect):
    """roder: events of the host go to extensions with an event sink."""

    def event_sink(self, spec: Spec) -> EventSink | None:
        """Return which events of the host an extension receives: its manifest must have an event
        sink, and its options must select kinds of events."""
        manifest, kinds = spec.manifest, _event_kinds(spec.options)
        if not isinstance(manifest, RoderManifest) or not manifest.ids("event_sink") or not kinds:
            return None
        return EventSink(kinds, _event_notification, EVENT_FORWARD_SECONDS)


DIALECT = RoderDialect(
    name="roder",
    framing=Lines,
    codec=_codec,
    handshake=_handshake,
    operations={"call_tool": OneRequestOrMore(_make_tool_request, _read_tool_result)},
    streams=_STREAMS,
    notifications={messages.METHOD_EXTENSION_EVENT: _read_extension_event},
    facets={"inference": Inference, "subagents": Subagents, "tasks": Tasks},
    result_reader=ResultReader(_is_error, _text, _data, _content),
    error_result=_error_result,
    render_event=types.render_event,
    options={
        "denied_capabilities": TEXTS.described("Capabilities that are refused to it."),
        "event_filter": EVENT_KINDS.described("The kinds of events that it is sent."),
    },
    traits=Traits(
        limits=Limits(start=10, handshake=30, call=30, max_message=4 * 2**20),
        first_id=1,
        tools="manifest",
        start="lazy",
        environment="declared",
        restart=Restart(strategy="on-demand", forgiven_by="call"),
        # The protocol requires a circuit breaker and specifies no figures, so these are exthost's
        # defaults.
        breaker=Breaker(failures=5, open=10, max_open=120, successes=2, count_error_replies=False),
        redact=True,
        # After the reply to extension/shutdown the process has 0.25 s to exit; then its process
        # tree is killed.
        shutdown_steps=(Say(Request(messages.METHOD_SHUTDOWN, {}), wait=2), CloseStdin(wait=0.25)),
    ),
)
