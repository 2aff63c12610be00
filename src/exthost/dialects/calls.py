"""Params and results of the operations that are the same in every dialect.

Each dialect translates them to and from its own messages.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.messages import Notification
from exthost.model.offer import Tool
from exthost.model.spec import Spec


class ToolCall(NamedTuple):
    """The params of the operation `call_tool`.

    name       the tool's name
    arguments  the tool's arguments, a JSON value
    context    the mapping that the caller passed beside the arguments
    tool       the tool as the extension announced it; None if unknown
    spec       the configuration of the extension; None if unknown
    """

    name: str
    arguments: Any
    context: Mapping[str, Any] = EMPTY_MAPPING
    tool: Tool | None = None
    spec: Spec | None = None


def tool_as_method(call: ToolCall) -> tuple[str, Any]:
    """Return the method and the params of a tool call, for dialects in which each tool is a
    method: the method has the tool's name, and the params are the arguments."""
    return call.name, call.arguments


class HookCall(NamedTuple):
    """The params of the operation `hook`.

    name   the name of the hook
    event  the event that is about to happen or has happened. The event of a tool call has the
           fields `tool_name`, `tool`, `extension_id`, `arguments` and `context`, and after the call
           `duration_ms`, and `result` or `error`. `context` is the mapping that the caller passed;
           a dialect may send parts of it
    spec   the configuration of the extension; None if unknown
    """

    name: str
    event: Mapping[str, Any]
    spec: Spec | None = None


class HookAnswer(NamedTuple):
    """The result of the operation `hook`, the same in every dialect.

    abort        whether the event must not happen; `reason` says why
    override     fields that replace those of the event, also for the hooks that run later
    decision     what the hook recommends: allow, block or transform; None if it does not say
    replacement  the new body of the event, if the decision is transform
    confirm      a question that a person must answer before the event may happen; None for none
    inject       text to be added; None for none
    output       text that replaces the result of a tool, after the call; None for none. `override`
                 then has the same text, for the hooks that run later
    final        whether no further extension of the same dialect is called for this event
    extra        other fields of the reply, for the program that ran the hooks
    """

    abort: bool = False
    reason: str = ""
    override: Mapping[str, Any] = EMPTY_MAPPING
    decision: str | None = None
    replacement: Any = None
    confirm: str | None = None
    inject: str | None = None
    output: str | None = None
    final: bool = False
    extra: Mapping[str, Any] = EMPTY_MAPPING


@dataclass(frozen=True, slots=True)
class FileFragment:
    """A part of a file that an extension generated, and that the host may write.

    path      the path of the file
    content   the text of the fragment
    strategy  how `content` is combined with the contents of the file
    order     appended fragments of one file are sorted by this number
    format    the format of the file; "" if unknown
    """

    path: str
    content: str
    strategy: Literal["replace", "merge", "append"] = "replace"
    order: int = 0
    format: str = ""


class EventSink(NamedTuple):
    """How an extension receives events of the host.

    kinds         an event is sent if its kind begins with one of these
    notification  returns the message of an event, given its envelope: `event_id`, `seq`,
                  `timestamp`, `source` (the id of an extension, or a name), `is_of_extension`,
                  `kind`, `event`, and `context`, the mapping that the caller passed with the call
                  or the event
    limit         the time limit, in seconds, for the extension to read one event
    """

    kinds: tuple[str, ...]
    notification: Callable[[Mapping[str, Any]], Notification]
    limit: float
