"""nexo: JSON-RPC 2.0, one object per line. Messages are read leniently.

The host sends `initialize` with id 0, then `tools/call`, `tools/list`, `hooks/<name>` and the
methods that callers name. Their ids count up from 1, and a restarted process continues the count.
The extension sends replies, notifications and requests; a request without a handler is refused.
Both ends use the same messages, so one codec works for both roles.

Existing extensions rely on these deviations from JSON-RPC: if a reply has a result and an error,
the error is ignored; a null result counts as no result; a reply with neither is a success with the
result null; an error may be any JSON value. If an extension does not know `tools/call`, the host
sends a second request, `tools/<name>`, with the arguments as params.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from exthost.dialects.base import Dialect, Traits
from exthost.dialects.calls import HookAnswer, HookCall, ToolCall
from exthost.dialects.codec import Role
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.json_codec import JsonRpc, failure_of, noise, to_json
from exthost.dialects.meanings import Meaning, Progress, Unusable
from exthost.dialects.options import FLAG
from exthost.dialects.steps import (
    Exchanges,
    Handshake,
    OneRequestOrMore,
    Operation,
    handshake_result,
    result_of,
)
from exthost.empty_mapping import EMPTY_MAPPING
from exthost.errors import Evidence, HandshakeFailed, ProtocolViolation
from exthost.messages import Failure, Id, Incoming, Notification, Reply, Request
from exthost.offer import Offer, Tool
from exthost.shutdown_steps import CloseStdin, Write
from exthost.spec import Breaker, Limits, Restart
from exthost.wire import jsontext
from exthost.wire.framing import Bytes
from exthost.wire.lines import Lines

HOOKS = ("before_message", "after_message", "before_tool_call", "after_tool_call")

_METHOD_NOT_FOUND = -32601


class Codec(JsonRpc):
    """A codec for JSON-RPC 2.0 that writes the id as the last field. The host and the extension use
    the same codec."""

    __slots__ = ()

    def request(self, method: str, params: Any, id: Id) -> bytes:
        return to_json({"jsonrpc": "2.0", "method": method, "params": params, "id": id})

    def answer(self, id: Id | None, answer: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", **answer, "id": id}

    def read(self, fields: dict[str, Any], frame: Bytes) -> Incoming:
        number = fields.get("id")
        if "method" in fields:
            method, params = fields["method"], fields.get("params")
            if type(method) is not str:
                return noise(frame, "its method is not text")
            return (
                Notification(method, params) if number is None else Request(method, params, number)
            )
        if type(number) is not int and type(number) is not str:
            return noise(frame, "neither a method nor the id of a request")
        result, error = fields.get("result"), fields.get("error")
        if result is not None or error is None:
            return Reply(number, result)
        return failure_of(number, error, jsontext.display_text(error))


def _codec(role: Role) -> Codec:
    return Codec()


# -- the handshake ---------------------------------------------------------------------------


def _handshake(context: HandshakeContext) -> Handshake:
    params = {"agent_version": context.host_version, "extension_id": context.extension}
    result = handshake_result((yield Request("initialize", params, id=0)))
    if result is None:  # every field is optional, so null is the same as {}
        result = {}
    if type(result) is not dict:
        raise _handshake_error("it is not an object", result)
    warnings: list[str] = []
    tools = _parse_tools(result.get("tools"), warnings)
    hooks = _parse_hooks(result.get("hooks"), warnings)
    version = result.get("server_version")
    return Offer(
        tools=tools,
        version=version if type(version) is str else "",
        hooks=hooks,
        warnings=tuple(warnings),
    )


def _parse_tools(items: Any, warnings: list[str]) -> tuple[Tool, ...]:
    if items is None:
        return ()
    if type(items) is not list:
        raise _handshake_error("`tools` is not a list", items)
    tools: dict[str, Tool] = {}
    for position, item in enumerate(items):
        tool = _parse_tool(item, position)
        if tool.name in tools:
            warnings.append(f"it offers {tool.name!r} twice; the first is used")
        tools.setdefault(tool.name, tool)
    return tuple(tools.values())


def _parse_tool(item: Any, position: int) -> Tool:
    if type(item) is str:
        item = {"name": item}
    if type(item) is not dict:
        raise _handshake_error(f"tool {position} is neither an object nor a name", item)
    name, description = item.get("name"), item.get("description")
    if type(name) is not str or not name:
        raise _handshake_error(f"tool {position} has no name", item)
    if description is not None and type(description) is not str:
        raise _handshake_error(f"the description of tool {position} ({name}) is not text", item)
    schema = item.get("input_schema")
    return Tool(name, description or "", {} if schema is None else schema)


def _parse_hooks(items: Any, warnings: list[str]) -> tuple[str, ...]:
    if items is None:
        return ()
    if type(items) is not list:
        raise _handshake_error("`hooks` is not a list", items)
    hooks: dict[str, None] = {}  # an ordered set
    for item in items:
        if type(item) is str and item in HOOKS:
            hooks[item] = None
        else:
            text = item if type(item) is str else jsontext.display_text(item)
            warnings.append(f"it offers an unknown hook, which is never called: {text[:80]}")
    return tuple(hooks)


def _handshake_error(why: str, value: Any) -> HandshakeFailed:
    return HandshakeFailed(
        "X0530",
        f"its answer to `initialize` cannot be used: {why}",
        help="answer with {server_version?, tools?: [{name, …}], hooks?: [name]}",
        evidence=Evidence(bytes=jsontext.display_text(value)[:500]),
    )


# -- operations ------------------------------------------------------------------------------


def _make_tool_request(call: ToolCall) -> tuple[str, Any]:
    return "tools/call", {"name": call.name, "arguments": _make_arguments(call)}


def _make_arguments(call: ToolCall) -> Any:
    if type(call.arguments) is not dict or not _passes_context(call):
        return call.arguments
    # This replaces a `_meta` of the caller, so that the extension can trust its contents.
    return {
        **call.arguments,
        "_meta": {"agent_id": None, "session_id": None, **call.context},
    }


def _try_tool_as_method(call: ToolCall, failure: Failure) -> Exchanges | None:
    """Continue if the extension has no method `tools/call`: it may have a method for each tool."""
    return _call_tool_as_method(call, failure) if failure.code == _METHOD_NOT_FOUND else None


def _call_tool_as_method(call: ToolCall, first_failure: Failure) -> Exchanges:
    received = yield Request(f"tools/{call.name}", _make_arguments(call))
    if isinstance(received, Failure) and received.code == _METHOD_NOT_FOUND:
        received = first_failure  # it is more useful than the second
    return result_of(received, call.name)


def _passes_context(call: ToolCall) -> bool:
    spec = call.spec
    if spec is None:
        return False
    # The option takes precedence over the manifest.
    option = spec.options.get("context_passthrough", getattr(spec.manifest, "passthrough", False))
    return option is True


def _list_tools(_: Any) -> Exchanges:
    result = result_of((yield Request("tools/list", {})), "tools/list")
    try:
        return _parse_tools(result.get("tools") if type(result) is dict else result, [])
    except HandshakeFailed as error:  # `_parse_tools` raises it for both methods
        raise ProtocolViolation(
            "X0630",
            error.message.replace("`initialize`", "`tools/list`"),
            help='answer with {"tools": […]} or a list',
            evidence=error.evidence,
        ) from None


# The hooks for tool calls. The other hooks receive the event of the caller unchanged.
_TOOL_HOOKS = frozenset({"before_tool_call", "after_tool_call"})

# With this field in its reply a hook requests that the program does not reply to the message again.
_DO_NOT_REPLY = "do_not_reply_again"
_FINAL_REPLY = MappingProxyType({_DO_NOT_REPLY: True})


# The fields of a hook's reply, each with a predicate for its valid values. Null is always valid and
# means the default.
_HOOK_ANSWER_FIELDS: Mapping[str, Callable[[Any], bool]] = MappingProxyType(
    {
        "abort": lambda value: type(value) is bool,
        "reason": lambda value: type(value) is str,
        "override": lambda value: type(value) is dict,
        "decision": lambda value: value in ("allow", "block", "transform"),
        _DO_NOT_REPLY: lambda value: type(value) is bool,
    }
)


def _make_hook_request(call: HookCall) -> tuple[str, Any]:
    return f"hooks/{call.name}", _make_event(call)


def _read_hook_answer(call: HookCall, result: Any) -> HookAnswer:
    """Return the answer in the result of a hook. Raises ProtocolViolation for an invalid result,
    because an extension that replies `{"abort": "yes"}` did not mean to let the event pass. A
    result that clearly stops the event is accepted even if its other fields are invalid."""
    if result is None:
        return HookAnswer()
    if type(result) is not dict:
        raise _hook_answer_error("its answer to a hook is neither an object nor null", result)
    values = {name: result.get(name) for name in _HOOK_ANSWER_FIELDS}
    invalid = [
        name
        for name, is_valid in _HOOK_ANSWER_FIELDS.items()
        if values[name] is not None and not is_valid(values[name])
    ]
    if invalid and values["abort"] is not True and values["decision"] != "block":
        raise _hook_answer_error(f"its answer to a hook has a bad `{invalid[0]}`", result)
    valid = {name: value for name, value in values.items() if name not in invalid}
    return HookAnswer(
        abort=valid.get("abort") is True,
        reason=valid.get("reason") or "",
        override=valid.get("override") or {},
        decision=valid.get("decision"),
        replacement=result.get("transformed_body"),
        extra=_FINAL_REPLY if valid.get(_DO_NOT_REPLY) is True else EMPTY_MAPPING,
    )


def _hook_answer_error(message: str, result: Any) -> ProtocolViolation:
    return ProtocolViolation(
        "X0631",
        message,
        help="answer with {abort?: bool, reason?: text, override?: object, decision?: allow, block "
        "or transform, transformed_body?} or null",
        evidence=Evidence(bytes=jsontext.display_text(result)[:500]),
    )


def _make_event(call: HookCall) -> Mapping[str, Any]:
    """Return the params of a hook request. The event of a tool call has `agent_id` and `session_id`
    of its context. After the call it also has `result` and `error`, the text of the error; one of
    them may be null."""
    if call.name not in _TOOL_HOOKS:
        return call.event
    event = dict(call.event)
    context = event.pop("context", EMPTY_MAPPING)
    event = {key: context.get(key) for key in ("agent_id", "session_id")} | event
    if call.name == "after_tool_call":
        error = event.get("error")
        text = error.get("message") if isinstance(error, Mapping) else error
        event |= {"result": event.get("result"), "error": text}
    return event


def _parse_progress(params: Any) -> Meaning:
    """Parse the progress of a call. Extensions that use exthost.sdk send it."""
    fields = params if type(params) is dict else EMPTY_MAPPING
    progress, total, message = (fields.get(name) for name in ("progress", "total", "message"))
    if type(progress) not in (int, float) or progress is None:
        return Unusable("progress that could not be read")
    return Progress(
        fields.get("id"),
        progress,
        total if type(total) in (int, float) else None,
        message if type(message) is str else "",
    )


_OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "call_tool": OneRequestOrMore(_make_tool_request, None, _try_tool_as_method),
        "list_tools": _list_tools,
        "hook": OneRequestOrMore(_make_hook_request, _read_hook_answer),
    }
)

DIALECT = Dialect(
    name="nexo",
    framing=Lines,
    codec=_codec,
    handshake=_handshake,
    operations=_OPERATIONS,
    notifications=MappingProxyType({"tools/progress": _parse_progress}),
    options=MappingProxyType(
        {"context_passthrough": FLAG.described("Whether a call's context is sent in `_meta`.")}
    ),
    traits=Traits(
        first_id=1,
        ids_continue=True,
        limits=Limits(
            start=60,
            handshake=10,
            call=30,
            write=30,
            max_message=64 * 2**20,
            max_in_flight=1024,
        ),
        restart=Restart(
            strategy="exponential", initial_delay=1, max_delay=16, max_retries=5, window=300
        ),
        breaker=Breaker(failures=5, open=10, max_open=120, successes=2, count_error_replies=False),
        breaker_name="the breaker ext:stdio:{id}",
        env_vars=MappingProxyType(
            {
                "AGENT_VERSION": "host_version",
                "AGENT_EXTENSION_ID": "extension",
                "AGENT_STATE_DIR": "state_folder",
                "NEXO_EXTENSION_STATE_ROOT": "state_folder",
            }
        ),
        # An empty line announces the shutdown; then stdin is closed.
        shutdown_steps=(Write(b"\n"), CloseStdin(wait=3)),
    ),
)
