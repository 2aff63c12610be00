"""The hooks of synaps: which plugins get an event, the request, and the actions in its reply.

A plugin is synaps' name for an extension. The host calls a hook before or after an event, such as a
tool call. The manifest subscribes to hooks, each with filters for the event (`Subscription`).

    {"kind": "before_tool_call", "tool_name": "delete", "tool_input": {"path": "/"}, …}    a request
    {"action": "block", "reason": "not this path"}                                         its reply

The first plugin that blocks, confirms, modifies or replaces decides: its answer is `final`, and the
plugins after it are not called for the event. The texts of several `inject` are joined, and
`continue` leaves the decision to the others, so those two are not final.
"""

from collections.abc import Mapping
from typing import Any

from exthost.dialects.calls import HookAnswer, HookCall
from exthost.dialects.steps import OneRequestOrMore
from exthost.dialects.synaps.host_requests import granted_permissions
from exthost.dialects.synaps.manifest import HOOKS, Subscription, SynapsManifest
from exthost.dialects.synaps.result import has_text
from exthost.errors import Evidence, ProtocolViolation, UsageError
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.spec import Spec
from exthost.wire import jsontext

# The protocol's limit for the output of a tool in a hook.
HOOK_OUTPUT_BYTES = 256 * 1024

# The protocol's limit for the text by which a hook replaces such an output.
REPLACEMENT_BYTES = 1024 * 1024

# The permission to replace the output of a tool.
_TRANSFORM = "tools.transform_output"

# The hooks whose events have no session id if the option `hook_session_id` is false, as in the
# first description of the protocol.
_OPTIONALLY_WITHOUT_SESSION = frozenset(
    {"before_tool_call", "after_tool_call", "before_message", "on_message_complete"}
)


def wants_hook(spec: Spec, hook: str, event: Mapping[str, Any]) -> bool:
    """Return whether one of the subscriptions of a plugin matches this event."""
    subscriptions = spec.manifest.subscriptions if isinstance(spec.manifest, SynapsManifest) else ()
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
    # `equals` is a tuple of one value, since the value itself may be None (null).
    if subscription.equals is not None and jsontext.canonical(subscription.equals[0]) != text:
        return False
    return subscription.contains is None or subscription.contains in text


def _runtime_name(event: Mapping[str, Any]) -> str | None:
    """Return the full name of the event's tool, `extension:tool`; None if the event has no tool."""
    extension, tool = event.get("extension_id"), event.get("tool")
    return f"{extension}:{tool}" if extension and tool else None


def make_hook_params(call: HookCall) -> dict[str, Any]:
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
        "session_id": _session_id(call, event.get("session_id", context.get("session_id"))),
        "transcript": event.get("transcript"),
        "data": event.get("data"),
    }


def _session_id(call: HookCall, id: Any) -> Any:
    # Without a spec, as in tests, the options have their defaults.
    has_session = call.spec is None or call.spec.options.get("hook_session_id", True)
    return id if has_session or call.name not in _OPTIONALLY_WITHOUT_SESSION else None


def _format_output(event: Mapping[str, Any]) -> str | None:
    """Return the output or the error of the event's tool as text, at most HOOK_OUTPUT_BYTES of it;
    None if the event has neither."""
    if "error" in event:
        error = event["error"]
        message = error.get("message") if isinstance(error, Mapping) else error
        text = f"Tool execution failed: {message}"
    elif "result" in event:
        result = event["result"]
        if has_text(result):
            result = result["content"]
        text = result if type(result) is str else jsontext.encode(result).decode("utf-8", "replace")
    else:
        return None
    data = text.encode("utf-8", "replace")
    if len(data) <= HOOK_OUTPUT_BYTES:
        return text
    shortened = data[:HOOK_OUTPUT_BYTES].decode("utf-8", "ignore")
    return f"{shortened}\n[cut: {len(data)} bytes in all]"


def _make_request(call: HookCall) -> tuple[str, Any]:
    return "hook.handle", make_hook_params(call)


def _read_answer(call: HookCall, result: Any) -> HookAnswer:
    """Return the answer in the result of a hook. Raises ProtocolViolation if it cannot be read, or
    if the hook is not allowed to answer with its action."""
    if result is None or result == {}:
        return HookAnswer()  # means "continue"
    fields = result if type(result) is dict else {}
    action = fields.get("action")
    hook_answer = _ACTIONS[action](fields) if type(action) is str and action in _ACTIONS else None
    if hook_answer is None and action == "modify":
        # The plugin wanted to change the input, but sent none, so the unchanged input must not be
        # used. The error below would not ensure that: with `[hooks] on_failure = "open"`, the call
        # of a hook that failed is made all the same.
        hook_answer = HookAnswer(abort=True, reason="its modify was malformed", final=True)
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
    if hook_answer.output is not None:
        return _replace_in_event(call, hook_answer.output)
    return hook_answer


def _replace_in_event(call: HookCall, output: str) -> HookAnswer:
    """Return the answer that replaces the output of a tool by this text. Raises ProtocolViolation
    if the plugin must not do that."""
    spec = call.spec
    if spec is not None and _TRANSFORM not in granted_permissions(spec.manifest, spec.options):
        raise ProtocolViolation(
            "X0655",
            f"it replaces the output of a tool without the permission {_TRANSFORM}",
            help="the output stays as it was; add the permission to its plugin.json, if you agree",
        )
    data = output.encode("utf-8", "replace")
    if len(data) > REPLACEMENT_BYTES:
        output = data[:REPLACEMENT_BYTES].decode("utf-8", "ignore")
    error = call.event.get("error")
    if "error" in call.event:
        fields = error if isinstance(error, Mapping) else {}
        override: dict[str, Any] = {"error": {**fields, "message": output}}
    else:
        override = {"result": output}
    return HookAnswer(output=output, override=override, final=True)


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


def _replace(fields: dict[str, Any]) -> HookAnswer | None:
    output = fields.get("output")
    return HookAnswer(output=output) if type(output) is str else None


def _modify(fields: dict[str, Any]) -> HookAnswer | None:
    if "input" not in fields:
        return None
    return HookAnswer(override={"arguments": fields["input"]}, final=True)


# Action → the function that reads its reply. The function returns None for a malformed reply.
_ACTIONS = {
    "continue": _continue,
    "block": _block,
    "confirm": _confirm,
    "inject": _inject,
    "modify": _modify,
    "replace": _replace,
}


# A hook is always one request. But OneRequest does not pass the HookCall to `_read_answer`, and a
# generator could not be sent again after a crash.
RUN_HOOK = OneRequestOrMore(_make_request, _read_answer)
