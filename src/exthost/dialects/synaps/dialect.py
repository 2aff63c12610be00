"""synaps: JSON-RPC 2.0 in Content-Length frames, with requests in both directions.

synaps calls an extension a plugin. A plugin replies to calls, and may send requests for memory and
config to the host at any time, even before it has replied to `initialize`. Many plugins are one
simple loop that takes the next message for the reply to their own request. Therefore calls are sent
one at a time, and until the host has replied to a request of the plugin, it sends nothing else (the
trait `quiet_while_asked`).

The permissions in the manifest limit what a plugin may announce. Hooks are declared in the
manifest; tools, providers and capabilities are announced in the handshake (`offer`). Providers and
commands send events that belong to the call in flight; only the reply ends such a call.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from exthost.dialects.base import Dialect, Traits
from exthost.dialects.calls import HookAnswer, HookCall, ToolCall
from exthost.dialects.codec import Role
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.json_codec import JsonRpc, decoder, noise, to_json
from exthost.dialects.options import TEXTS
from exthost.dialects.steps import Handshake, OneRequest, OneRequestOrMore, handshake_result
from exthost.dialects.streams import StreamKind
from exthost.dialects.synaps import stream_events, types
from exthost.dialects.synaps.facets import About, Commands, Providers, Settings, Sidecar
from exthost.dialects.synaps.host_requests import HOST_REQUESTS, granted_permissions
from exthost.dialects.synaps.manifest import HOOKS, PROTOCOL_VERSION, Manifest, Subscription
from exthost.dialects.synaps.offer import make_offer
from exthost.dialects.value_result import VALUE_RESULT, value_text
from exthost.empty_mapping import EMPTY_MAPPING
from exthost.errors import Evidence, ProtocolViolation, UsageError
from exthost.messages import Failure, Id, Incoming, Notification, Reply, Request
from exthost.shutdown_steps import CloseStdin, Say
from exthost.spec import Limits, Restart, Spec
from exthost.tool_result import Block, TextBlock
from exthost.wire import jsontext
from exthost.wire.framing import EVIDENCE_BYTES, Bytes
from exthost.wire.headers import Headers

# The protocol's limit for the output of a tool in a hook.
HOOK_OUTPUT_BYTES = 32 * 1024

# Request ids are unsigned 64-bit integers, below this limit. A message with another id is noise: it
# is logged and ignored.
_ID_LIMIT = 2**64


def _not_json(frame: Bytes, why: str) -> Incoming:
    """Raise ProtocolViolation. A frame that is not JSON ends the session, because it usually means
    that a Content-Length was wrong, and then all later frames are read wrongly."""
    head = bytes(frame[:EVIDENCE_BYTES]).decode("utf-8", "backslashreplace")
    raise ProtocolViolation(
        "X0650",
        f"the body of a frame is {why}",
        help="Content-Length counts the bytes of the body in UTF-8, and nothing may follow them",
        evidence=Evidence(bytes=head),
    )


class Codec(JsonRpc):
    """A codec for JSON-RPC 2.0 that writes the id as the last field. The host and the extension use
    the same codec."""

    __slots__ = ()

    decode = decoder(members=3, marker="jsonrpc", not_json=_not_json)

    def request(self, method: str, params: Any, id: Id) -> bytes:
        return to_json({"jsonrpc": "2.0", "method": method, "params": params, "id": id})

    def read(self, fields: dict[str, Any], frame: Bytes) -> Incoming:
        id, method = fields.get("id"), fields.get("method")
        if "method" in fields and type(method) is not str:
            return noise(frame, "its method is not text")
        if id is None:
            if method is None:
                return noise(frame, "neither a method nor an id")
            return Notification(method, fields.get("params"))
        if type(id) is not int or not 0 <= id < _ID_LIMIT:
            return noise(frame, "its id is not a whole number")
        if method is not None:
            return Request(method, fields.get("params"), id)
        error = fields.get("error")
        return Reply(id, fields.get("result")) if error is None else _failure(id, error)


def _failure(id: int, error: Any) -> Failure:
    # An error need not be an object; any other value becomes the error's data.
    fields = error if type(error) is dict else {"data": error}
    message, code = fields.get("message"), fields.get("code")
    return Failure(
        id,
        message if type(message) is str else "unknown extension error",
        code if type(code) in (int, str) else None,
        fields.get("data"),
    )


def _codec(role: Role) -> Codec:
    return Codec()


# -- the handshake -----------------------------------------------------------------------------


def _handshake(context: HandshakeContext) -> Handshake:
    response = yield Request(
        "initialize",
        {
            "synaps_version": context.host_version,
            "extension_protocol_version": PROTOCOL_VERSION,
            "plugin_id": context.extension,
            "plugin_root": context.cwd,
            "config": {} if context.config is None else context.config,
        },
    )
    result = handshake_result(response, "initialize")
    # A bare command (after `--`), and a config entry that names no manifest, have none.
    manifest = context.manifest if isinstance(context.manifest, Manifest) else Manifest()
    permissions = granted_permissions(context.manifest, context.options)
    return make_offer(result, permissions, manifest.hooks, manifest.version)


def _make_tool_request(call: ToolCall) -> tuple[str, Any]:
    wire_name = call.tool.extra.get("wire_name") if call.tool is not None else None
    return "tool.call", {"name": wire_name or call.name, "input": call.arguments}


def _has_text(result: Any) -> bool:
    """Return whether a result is an object with text in `content`; the result then stands for that
    text."""
    return type(result) is dict and type(result.get("content")) is str


def _result_text(result: Any) -> str:
    return value_text(result["content"] if _has_text(result) else result)


def _result_content(result: Any) -> tuple[Block, ...]:
    return (TextBlock(_result_text(result)),)


_RESULT = VALUE_RESULT._replace(text=_result_text, content=_result_content)


# -- hooks -------------------------------------------------------------------------------------


def wants_hook(spec: Spec, hook: str, event: Mapping[str, Any]) -> bool:
    """Return whether one of the subscriptions of a plugin matches this event."""
    subscriptions = spec.manifest.subscriptions if isinstance(spec.manifest, Manifest) else ()
    return any(
        subscription.hook == hook and _matches(subscription, event)
        for subscription in subscriptions
    )


def _matches(subscription: Subscription, event: Mapping[str, Any]) -> bool:
    """Return whether an event passes all filters of a subscription."""
    if subscription.tool is not None and subscription.tool not in (
        event.get("tool_name"),
        _runtime_name(event),
    ):
        return False
    if subscription.equals is None and subscription.contains is None:
        return True
    text = jsontext.canonical(event.get("arguments"))
    if subscription.equals is not None and jsontext.canonical(subscription.equals[0]) != text:
        return False
    return subscription.contains is None or subscription.contains in text


def _runtime_name(event: Mapping[str, Any]) -> str | None:
    """Return the full name of the event's tool, `extension:tool`; None if the event has no tool."""
    extension, tool = event.get("extension_id"), event.get("tool")
    return f"{extension}:{tool}" if extension and tool else None


def hook_event(call: HookCall) -> dict[str, Any]:
    """Return the params of a hook request: all nine fields, null for those without a value."""
    event = call.event
    context = event.get("context", EMPTY_MAPPING)
    return {
        "kind": call.name,
        "tool_name": event.get("tool_name"),
        "tool_runtime_name": _runtime_name(event),
        "tool_input": event.get("arguments"),
        "tool_output": _format_output(event),
        "message": event.get("message"),
        "session_id": event.get("session_id", context.get("session_id")),
        "transcript": event.get("transcript"),
        "data": event.get("data"),
    }


def _format_output(event: Mapping[str, Any]) -> str | None:
    if "error" in event:
        error = event["error"]
        message = error.get("message") if isinstance(error, Mapping) else error
        return f"Tool execution failed: {message}"
    if "result" not in event:
        return None
    result = event["result"]
    if _has_text(result):
        result = result["content"]
    text = result if type(result) is str else jsontext.encode(result).decode("utf-8", "replace")
    data = text.encode("utf-8", "replace")
    if len(data) <= HOOK_OUTPUT_BYTES:
        return text
    shortened = data[:HOOK_OUTPUT_BYTES].decode("utf-8", "ignore")
    return f"{shortened}\n[cut: {len(data)} bytes in all]"


def _make_hook_request(call: HookCall) -> tuple[str, Any]:
    return "hook.handle", hook_event(call)


def _read_hook_answer(call: HookCall, result: Any) -> HookAnswer:
    if result is None or result == {}:
        return HookAnswer()  # means "continue"
    fields = result if type(result) is dict else {}
    action = fields.get("action")
    hook_answer = _ACTIONS[action](fields) if type(action) is str and action in _ACTIONS else None
    if hook_answer is None and action == "modify":
        # The plugin requested other input, but sent none. The unchanged input must not be used, so
        # the call is blocked.
        hook_answer, action = (
            HookAnswer(abort=True, reason="its modify was malformed", final=True),
            "block",
        )
    if hook_answer is None:
        raise ProtocolViolation(
            "X0651",
            "its answer to a hook cannot be read",
            help='answer with {"action": "continue"}, or another action with its member',
            evidence=Evidence(bytes=_format_evidence(result)),
        )
    allowed = HOOKS[call.name].actions if call.name in HOOKS else ("continue",)
    if action not in allowed:
        raise ProtocolViolation(
            "X0651",
            f"the hook {call.name} cannot be answered with {action!r}",
            help=f"it may be answered with: {', '.join(allowed)}",
        )
    return hook_answer


def _format_evidence(value: Any) -> str:
    try:
        return jsontext.encode(value).decode("utf-8", "replace")[:500]
    except UsageError:  # nested too deep to be encoded again
        return ""


def _continue(fields: dict[str, Any]) -> HookAnswer | None:
    return HookAnswer()


def _block(fields: dict[str, Any]) -> HookAnswer | None:
    reason = fields.get("reason")
    return HookAnswer(abort=True, reason=reason, final=True) if type(reason) is str else None


def _confirm(fields: dict[str, Any]) -> HookAnswer | None:
    message = fields.get("message")
    return HookAnswer(confirm=message, final=True) if type(message) is str else None


def _inject(fields: dict[str, Any]) -> HookAnswer | None:
    content = fields.get("content")
    return HookAnswer(inject=content) if type(content) is str else None


def _modify(fields: dict[str, Any]) -> HookAnswer | None:
    if "input" not in fields:
        return None
    return HookAnswer(override={"arguments": fields["input"]}, final=True)


_ACTIONS = {
    "continue": _continue,
    "block": _block,
    "confirm": _confirm,
    "inject": _inject,
    "modify": _modify,
}


# -- streams -----------------------------------------------------------------------------------


def _parse_completion(result: Any) -> types.Completion:
    completion = types.read_completion(result)
    if completion is None:
        raise ProtocolViolation(
            "X0652",
            "its answer to provider.stream is not what the protocol says",
            help="answer with {content: […], stop_reason?, usage?}",
        )
    return completion


_STREAMS = {
    "provider.stream": StreamKind(
        notifications=MappingProxyType({"provider.stream.event": None}),
        decode=stream_events.parse_provider_event,
        result=_parse_completion,
    ),
    "command.invoke": StreamKind(
        notifications=MappingProxyType(
            {
                "command.output": "request_id",
                "task.start": None,
                "task.update": None,
                "task.log": None,
                "task.done": None,
            }
        ),
        decode=stream_events.parse_command_event,
        key="request_id",
    ),
}

# Time limits in seconds, by wire method or by the name of an operation.
_METHOD_SECONDS = {
    "call_tool": 120,
    "tool.call": 120,
    "provider.complete": 60,
    "provider.stream": 60,
    "command.invoke": 120,
    "hook": 5,
    "hook.handle": 5,
    "info.get": 5,
    "sidecar.spawn_args": 5,
    "settings.editor.open": 5,
    "settings.editor.key": 5,
    "settings.editor.commit": 5,
}

DIALECT = Dialect(
    name="synaps",
    framing=Headers,
    codec=_codec,
    handshake=_handshake,
    # call_tool is not a generator, because only a OneRequest can be sent again (the trait `retry`).
    operations=MappingProxyType(
        {
            "call_tool": OneRequest(_make_tool_request),
            "hook": OneRequestOrMore(_make_hook_request, _read_hook_answer),
        }
    ),
    result_reader=_RESULT,
    streams=MappingProxyType(_STREAMS),
    notifications=MappingProxyType(
        {
            "widget.upsert": types.widget_upsert,
            "widget.dismiss": types.widget_dismiss,
            "settings.editor.render": types.editor_render,
            "settings.editor.commit": types.editor_commit,
            "settings.editor.close": types.editor_close,
        }
    ),
    host_requests=HOST_REQUESTS,
    facets=MappingProxyType(
        {
            "providers": Providers,
            "commands": Commands,
            "settings": Settings,
            "info": About,
            "sidecar": Sidecar,
        }
    ),
    wants_hook=wants_hook,
    render_event=stream_events.render_event,
    options=MappingProxyType(
        {"permissions": TEXTS.described("What an extension without a manifest may ask for.")}
    ),
    traits=Traits(
        limits=Limits(
            start=60,
            handshake=10,
            call=30,
            write=30,
            stop=2,
            max_message=4 * 2**20,
            max_in_flight=1,
        ),
        method_limits=MappingProxyType(_METHOD_SECONDS),
        quiet_while_asked=True,
        quiet_stderr=True,
        first_id=1,
        ids_continue=True,
        retry="once",
        environment="minimal",
        variables=("PATH", "HOME", "LANG", "TERM", "XDG_RUNTIME_DIR"),
        restart=Restart(
            strategy="exponential",
            initial_delay=0.25,
            max_delay=5,
            max_retries=3,
            forgiven_by="call",
        ),
        shutdown_steps=(Say(Request("shutdown", None), wait=0.5), CloseStdin(wait=0.5)),
    ),
)
