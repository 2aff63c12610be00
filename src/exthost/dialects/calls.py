"""The params and results of the neutral operations, which each dialect translates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from exthost.empty_mapping import EMPTY_MAPPING
from exthost.messages import Notification
from exthost.offer import Tool
from exthost.spec import Spec


class ToolCall(NamedTuple):
    """The params of the operation `call_tool`."""

    name: str
    arguments: Any
    context: Mapping[str, Any] = EMPTY_MAPPING
    tool: Tool | None = None
    spec: Spec | None = None


def tool_as_method(call: ToolCall) -> tuple[str, Any]:
    """Return the request of a dialect in which each tool is a method of its own name, with the
    arguments as params."""
    return call.name, call.arguments


class HookCall(NamedTuple):
    """The params of the operation `hook`: its name, and the event that is about to happen or has
    happened. The event of a tool call has the members `tool_name`, `tool`, `extension_id`,
    `arguments` and `context`, and after the call `duration_ms`, and `result` or `error`. `context`
    is the mapping that the caller passed; a dialect may send parts of it."""

    name: str
    event: Mapping[str, Any]


class HookAnswer(NamedTuple):
    """The result of the operation `hook`. Each dialect with hooks translates its own into this.

    abort        whether the event must not happen; `reason` says why
    override     members that replace those of the event, for the hooks that run later
    decision     what the hook recommends: allow, block, transform
    replacement  what replaces the body of the event, for transform
    confirm      a question that a person has to answer before the event may happen
    inject       text to be added
    final        whether this is the last hook that is run
    extra        what else the dialect's answer has, for the program that ran the hooks
    """

    abort: bool = False
    reason: str = ""
    override: Mapping[str, Any] = EMPTY_MAPPING
    decision: str | None = None
    replacement: Any = None
    confirm: str | None = None
    inject: str | None = None
    final: bool = False
    extra: Mapping[str, Any] = EMPTY_MAPPING


@dataclass(frozen=True, slots=True)
class FileFragment:
    """A piece of a file that an extension wants to be written.

    `strategy` says how it is combined with what the file already contains.
    """

    path: str
    content: str
    strategy: Literal["replace", "merge", "append"] = "replace"
    order: int = 0
    format: str = ""


class EventSink(NamedTuple):
    """An extension that wants the host's events whose kind begins with one of `kinds`.

    `notification` makes the message from an envelope, which has `event_id`, `seq`, `timestamp`,
    `source`, `kind`, `event`, and `context`: what the caller gave with the call or the event.
    `limit` bounds the seconds that the extension may take to read one.
    """

    kinds: tuple[str, ...]
    notification: Callable[[Mapping[str, Any]], Notification]
    limit: float
