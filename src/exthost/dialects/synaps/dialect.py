"""synaps: JSON-RPC 2.0 in Content-Length frames, with requests in both directions.

synaps calls an extension a plugin. A plugin replies to calls, and may send requests for memory and
config to the host at any time, even before it has replied to `initialize`. Many plugins are one
simple loop that takes the next message for the reply to their own request. Therefore calls are sent
one at a time, and until the host has replied to a request of the plugin, it sends nothing else (the
trait `quiet_while_asked`).

The permissions in the manifest limit what a plugin may announce. Hooks are declared in the
manifest; tools, providers and capabilities are announced in the handshake (`offer`). Providers and
commands send events that belong to the call in flight; only the reply ends such a call.

The handshake is a generator: it yields a message and is resumed with its reply (`dialects.steps`).
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from exthost.dialects.base import Dialect, Traits
from exthost.dialects.calls import ToolCall
from exthost.dialects.codec import Role
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.json_codec import JsonRpc, decoder, noise, to_json
from exthost.dialects.options import FLAG, TEXTS
from exthost.dialects.steps import Handshake, OneRequestOrMore, handshake_result
from exthost.dialects.streams import StreamKind
from exthost.dialects.synaps import stream_events, types
from exthost.dialects.synaps.facets import About, Commands, Providers, SettingsEditor, Sidecar
from exthost.dialects.synaps.hooks import RUN_HOOK, wants_hook
from exthost.dialects.synaps.host_requests import HOST_REQUESTS, granted_permissions
from exthost.dialects.synaps.manifest import PROTOCOL_VERSION, SynapsManifest
from exthost.dialects.synaps.offer import make_offer
from exthost.dialects.synaps.result import SYNAPS_RESULT
from exthost.errors import Evidence, ProtocolViolation
from exthost.model.messages import Failure, Id, Incoming, Notification, Reply, Request
from exthost.model.shutdown_steps import CloseStdin, Say
from exthost.model.spec import Limits, Restart, Spec
from exthost.wire.framing import EVIDENCE_BYTES, Bytes
from exthost.wire.headers import Headers

# Request ids are unsigned 64-bit integers, below this limit. A message with another id is not
# valid: it is logged and ignored.
_ID_LIMIT = 2**64

# The environment variable of the host with which a user can remove the session id from the events
# of tools and messages: with "0", they have none, as in the first hosts of the protocol.
HOOK_SESSION_VARIABLE = "SYNAPS_HOOK_SESSION_ID"


def _not_json(frame: Bytes, reason: str) -> Incoming:
    """Raise ProtocolViolation. A frame that is not JSON ends the session, because it usually means
    that a Content-Length was wrong, and then all later frames are read wrongly."""
    head = bytes(frame[:EVIDENCE_BYTES]).decode("utf-8", "backslashreplace")
    raise ProtocolViolation(
        "X0650",
        f"the body of a frame is {reason}",
        help="Content-Length counts the bytes of the body in UTF-8, and nothing may follow them",
        evidence=Evidence(bytes=head),
    )


class SynapsCodec(JsonRpc):
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
        if method is not None and type(id) is str:  # the reply has the same id
            return Request(method, fields.get("params"), id)
        if type(id) is not int or not 0 <= id < _ID_LIMIT:
            subject = "its id" if method is None else "the id of its request, which has no answer,"
            return noise(frame, f"{subject} is not a whole number")
        if method is not None:
            return Request(method, fields.get("params"), id)
        error = fields.get("error")
        return Reply(id, fields.get("result")) if error is None else _failure(id, error)


def _failure(id: int, error: Any) -> Failure:
    # An error that is not an object becomes the error's data.
    fields = error if type(error) is dict else {"data": error}
    message, code = fields.get("message"), fields.get("code")
    return Failure(
        id,
        message if type(message) is str else "unknown extension error",
        code if type(code) in (int, str) else None,
        fields.get("data"),
    )


def _codec(role: Role) -> SynapsCodec:
    return SynapsCodec()


# -- the handshake -----------------------------------------------------------------------------


def _handshake(context: HandshakeContext) -> Handshake:
    """Send `initialize`, and return the offer in the reply."""
    # A command on the command line (after `--`), and a config entry that names no manifest, have no
    # manifest.
    manifest = context.manifest if isinstance(context.manifest, SynapsManifest) else None
    response = yield Request(
        "initialize",
        {
            "synaps_version": context.host_version,
            "extension_protocol_version": PROTOCOL_VERSION
            if manifest is None
            else manifest.protocol_version,
            "plugin_id": context.extension,
            "plugin_root": context.cwd,
            "config": {} if context.config is None else context.config,
        },
    )
    result = handshake_result(response, "initialize")
    permissions = granted_permissions(context.manifest, context.options)
    return make_offer(result, permissions, manifest, context.config)


def _make_tool_request(call: ToolCall) -> tuple[str, Any]:
    wire_name = call.tool.extra.get("wire_name") if call.tool is not None else None
    return "tool.call", {"name": wire_name or call.name, "input": call.arguments}


# -- streams -----------------------------------------------------------------------------------


def _parse_completion(result: Any) -> types.Completion:
    """Return the reply that ends a stream of `provider.stream`. Raises ProtocolViolation."""
    completion = types.read_completion(result)
    if completion is None:
        raise ProtocolViolation(
            "X0652",
            "its answer to provider.stream does not match the protocol",
            help="answer with {content: […], stop_reason?, usage?}",
        )
    return completion


_STREAMS = {
    "provider.stream": StreamKind(
        notifications={"provider.stream.event": None},
        decode=stream_events.parse_provider_event,
        result=_parse_completion,
    ),
    "command.invoke": StreamKind(
        notifications={
            "command.output": "request_id",
            "task.start": None,
            "task.update": None,
            "task.log": None,
            "task.done": None,
        },
        decode=stream_events.parse_command_event,
        key="request_id",
    ),
}

# Time limits in seconds, by method or by the name of an operation.
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


class SynapsDialect(Dialect):
    """synaps, whose manifests select the events of hooks."""

    @property
    def announces_hooks(self) -> bool:
        return False

    def wants_hook(self, spec: Spec, hook: str, event: Mapping[str, Any]) -> bool:
        return wants_hook(spec, hook, event)

    def with_environ(self, spec: Spec, environ: Mapping[str, str]) -> Spec:
        """Apply the variable by which a user takes the session id out of most events of hooks."""
        if environ.get(HOOK_SESSION_VARIABLE) != "0" or "hook_session_id" in spec.options:
            return spec
        return replace(spec, options=MappingProxyType({**spec.options, "hook_session_id": False}))


DIALECT = SynapsDialect(
    name="synaps",
    framing=Headers,
    codec=_codec,
    handshake=_handshake,
    # call_tool is a OneRequestOrMore: a generator could not be sent again (the trait `retry`), and
    # the errors of a OneRequest name the method instead of the tool.
    operations={
        "call_tool": OneRequestOrMore(_make_tool_request, None),
        "hook": RUN_HOOK,
    },
    methods_without_tools=frozenset(
        {
            *("command.invoke", "provider.complete", "provider.stream", "hook.handle", "info.get"),
            *("settings.editor.open", "settings.editor.key", "settings.editor.commit"),
        }
    ),
    result_reader=SYNAPS_RESULT,
    streams=_STREAMS,
    notifications={
        "widget.upsert": types.widget_upsert,
        "widget.dismiss": types.widget_dismiss,
        "settings.editor.render": types.editor_render,
        "settings.editor.commit": types.editor_commit,
        "settings.editor.close": types.editor_close,
    },
    host_requests=HOST_REQUESTS,
    facets={
        "providers": Providers,
        "commands": Commands,
        "settings": SettingsEditor,
        "info": About,
        "sidecar": Sidecar,
    },
    render_event=stream_events.render_event,
    options={
        "permissions": TEXTS.described("The permissions of an extension without a manifest."),
        "hook_session_id": FLAG.described(
            "Whether events of tools and messages have the session's id; true by default."
        ),
    },
    traits=Traits(
        limits=Limits(handshake=10, call=30, max_message=4 * 2**20, max_in_flight=1),
        method_limits=_METHOD_SECONDS,
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
