"""nexo: JSON-RPC 2.0, one object a line, read leniently.

The host sends `initialize` with id 0, then `tools/call`, `tools/list`, `hooks/<name>` and the
methods that callers name. Their ids count from 1 for the life of the extension, also over restarts.
The extension sends replies, notifications and requests; a request without a handler is refused.
Both ends use the same messages, so one codec serves both roles.

Existing extensions rely on these exceptions to JSON-RPC: if a reply has a result and an error, the
result counts; a null result counts as no result; a reply with neither is a success with null; an
error may have any shape. An extension that does not know `tools/call` gets a second request,
`tools/<name>`, with the bare arguments.
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
from exthost.dialects.steps import Exchanges, Handshake, Operation, handshake_result, result_of
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
    """JSON-RPC 2.0 with the id as the last member; the same at both ends."""

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
    about = {"agent_version": context.host_version, "extension_id": context.extension}
    answer = handshake_result((yield Request("initialize", about, id=0)))
    if answer is None:
        answer = {}
    if type(answer) is not dict:
        raise _bad_answer("it is not an object", answer)
    warnings: list[str] = []
    tools = _tools(answer.get("tools"), warnings)
    hooks = _hooks(answer.get("hooks"), warnings)
    version = answer.get("server_version")
    return Offer(
        tools=tools,
        version=version if type(version) is str else "",
        hooks=hooks,
        warnings=tuple(warnings),
    )


def _tools(listed: Any, warnings: list[str]) -> tuple[Tool, ...]:
    if listed is None:
        return ()
    if type(listed) is not list:
        raise _bad_answer("`tools` is not a list", listed)
    tools: dict[str, Tool] = {}
    for position, item in enumerate(listed):
        tool = _tool(item, position)
        if tool.name in tools:
            warnings.append(f"it offers {tool.name!r} twice; the first is used")
        tools.setdefault(tool.name, tool)
    return tuple(tools.values())


def _tool(item: Any, position: int) -> Tool:
    if type(item) is str:
        item = {"name": item}
    if type(item) is not dict:
        raise _bad_answer(f"tool {position} is neither an object nor a name", item)
    name, description = item.get("name"), item.get("description")
    if type(name) is not str or not name:
        raise _bad_answer(f"tool {position} has no name", item)
    if description is not None and type(description) is not str:
        raise _bad_answer(f"the description of tool {position} ({name}) is not text", item)
    schema = item.get("input_schema")
    return Tool(name, description or "", {} if schema is None else schema)


def _hooks(listed: Any, warnings: list[str]) -> tuple[str, ...]:
    if listed is None:
        return ()
    if type(listed) is not list:
        raise _bad_answer("`hooks` is not a list", listed)
    known: dict[str, None] = {}
    for item in listed:
        if type(item) is str and item in HOOKS:
            known[item] = None
        else:
            shown = item if type(item) is str else jsontext.display_text(item)
            warnings.append(f"it offers an unknown hook, which is never called: {shown[:80]}")
    return tuple(known)


def _bad_answer(why: str, value: Any) -> HandshakeFailed:
    return HandshakeFailed(
        "X0530",
        f"its answer to `initialize` cannot be used: {why}",
        help="answer with {server_version?, tools?: [{name, …}], hooks?: [name]}",
        evidence=Evidence(bytes=jsontext.display_text(value)[:500]),
    )


# -- operations ------------------------------------------------------------------------------


def _call_tool(call: ToolCall) -> Exchanges:
    arguments = call.arguments
    if type(arguments) is dict and _passes_context(call):
        # A `_meta` of the caller is replaced: an extension must be able to trust it.
        meta = {"agent_id": None, "session_id": None, **call.context}
        arguments = {**arguments, "_meta": meta}
    response = yield Request("tools/call", {"name": call.name, "arguments": arguments})
    if isinstance(response, Failure) and response.code == _METHOD_NOT_FOUND:
        again = yield Request(f"tools/{call.name}", arguments)
        if not isinstance(again, Failure) or again.code != _METHOD_NOT_FOUND:
            response = again  # else the first error is the more useful one
    return result_of(response, call.name)


def _passes_context(call: ToolCall) -> bool:
    spec = call.spec
    if spec is None:
        return False
    # An extension without a manifest has the option instead.
    option = spec.options.get("context_passthrough", getattr(spec.manifest, "passthrough", False))
    return option is True


def _list_tools(_: Any) -> Exchanges:
    result = result_of((yield Request("tools/list", {})), "tools/list")
    try:
        return _tools(result.get("tools") if type(result) is dict else result, [])
    except HandshakeFailed as bad:
        raise ProtocolViolation(
            "X0630",
            bad.message.replace("`initialize`", "`tools/list`"),
            help='answer with {"tools": […]} or a list',
            evidence=bad.evidence,
        ) from None


# The hooks around a tool call. Other hooks are sent the caller's event as it is.
_TOOL_HOOKS = frozenset({"before_tool_call", "after_tool_call"})

# What a hook answers if the program must not reply to the message a second time.
_DO_NOT_REPLY = "do_not_reply_again"
_FINAL_REPLY = MappingProxyType({_DO_NOT_REPLY: True})


# The members of an answer that are read, and what they may be. Null is the default.
_HOOK_ANSWER: Mapping[str, Callable[[Any], bool]] = MappingProxyType(
    {
        "abort": lambda value: type(value) is bool,
        "reason": lambda value: type(value) is str,
        "override": lambda value: type(value) is dict,
        "decision": lambda value: value in ("allow", "block", "transform"),
        _DO_NOT_REPLY: lambda value: type(value) is bool,
    }
)


def _hook(call: HookCall) -> Exchanges:
    """Run a hook. Raises ProtocolViolation for an invalid answer: an extension that says
    `{"abort": "yes"}` has not let the event pass. One that does stop it is believed, whatever else
    is wrong with its answer."""
    method = f"hooks/{call.name}"
    answer = result_of((yield Request(method, _event(call))), method)
    if answer is None:
        return HookAnswer()
    if type(answer) is not dict:
        raise _bad_judgement("its answer to a hook is neither an object nor null", answer)
    read = {name: answer.get(name) for name in _HOOK_ANSWER}
    wrong = [n for n, fits in _HOOK_ANSWER.items() if read[n] is not None and not fits(read[n])]
    if wrong and read["abort"] is not True and read["decision"] != "block":
        raise _bad_judgement(f"its answer to a hook has a bad `{wrong[0]}`", answer)
    given = {name: value for name, value in read.items() if name not in wrong}
    return HookAnswer(
        abort=given.get("abort") is True,
        reason=given.get("reason") or "",
        override=given.get("override") or {},
        decision=given.get("decision"),
        replacement=answer.get("transformed_body"),
        extra=_FINAL_REPLY if given.get(_DO_NOT_REPLY) is True else EMPTY_MAPPING,
    )


def _bad_judgement(message: str, answer: Any) -> ProtocolViolation:
    return ProtocolViolation(
        "X0631",
        message,
        help="answer with {abort?: bool, reason?: text, override?: object, decision?: allow, block "
        "or transform, transformed_body?} or null",
        evidence=Evidence(bytes=jsontext.display_text(answer)[:500]),
    )


def _event(call: HookCall) -> Mapping[str, Any]:
    """Return the event as it is sent. The event of a tool call has the two ids of its context;
    after the call it has both a result and the text of an error, or null for either."""
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


def _progress(params: Any) -> Meaning:
    """Read the progress of a call, which extensions made with exthost.sdk send."""
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
        "call_tool": _call_tool,
        "list_tools": _list_tools,
        "hook": _hook,
    }
)

DIALECT = Dialect(
    name="nexo",
    framing=Lines,
    codec=_codec,
    handshake=_handshake,
    operations=_OPERATIONS,
    notifications=MappingProxyType({"tools/progress": _progress}),
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
            stop=5,
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
        # A blank line is the empty message that announces the end; then stdin is closed.
        shutdown_steps=(Write(b"\n"), CloseStdin(wait=3)),
    ),
)
