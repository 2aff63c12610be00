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


class HookCall(NamedTuple):
    """The params of the operation `hook`: its name, and the event that is about to happen or has
    happened."""

    name: str
    event: Mapping[str, Any]


class HookAnswer(NamedTuple):
    """The result of the operation `hook`. Each dialect with hooks translates its own into this.

    override          laid over the event for the hooks that come later
    decision          what the hook thinks should be done: allow, block, transform
    transformed_body  what to put in place of the body, for transform
    confirm           a question that a person has to answer before the event may happen
    inject            text to be added
    final             no other hook is run
    """

    abort: bool = False
    reason: str = ""
    override: Mapping[str, Any] = EMPTY_MAPPING
    decision: str | None = None
    transformed_body: Any = None
    do_not_reply_again: bool = False
    confirm: str | None = None
    inject: str | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class Fragment:
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
