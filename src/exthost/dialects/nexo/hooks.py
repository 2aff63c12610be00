"""The hooks of nexo, whose events and replies are the same in both contracts of the dialect.

The host calls a hook of an extension before or after an event, such as a tool call. The request has
the event, and the reply may stop or change it:

    {"tool_name": "delete", "arguments": {"path": "/"}, …}     the event of before_tool_call
    {"abort": true, "reason": "not this path"}                 a reply
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from exthost.dialects.calls import HookAnswer, HookCall
from exthost.errors import Evidence, ProtocolViolation
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.wire import jsontext

HOOKS = ("before_message", "after_message", "before_tool_call", "after_tool_call")

# The hooks for tool calls. The other hooks receive the event of the caller unchanged.
_TOOL_HOOKS = frozenset({"before_tool_call", "after_tool_call"})

# A hook sets this field to true if the program should not reply to the message again.
_DO_NOT_REPLY = "do_not_reply_again"
_FINAL_REPLY = MappingProxyType({_DO_NOT_REPLY: True})


# The fields of a hook's reply, each with a function that returns whether a value is valid. Null is
# always valid and means the default.
_HOOK_ANSWER_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "abort": lambda value: type(value) is bool,
    "reason": lambda value: type(value) is str,
    "override": lambda value: type(value) is dict,
    "decision": lambda value: value in ("allow", "block", "transform"),
    _DO_NOT_REPLY: lambda value: type(value) is bool,
}


def read_hook_answer(call: HookCall, result: Any) -> HookAnswer:
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


def make_event(call: HookCall) -> Mapping[str, Any]:
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
