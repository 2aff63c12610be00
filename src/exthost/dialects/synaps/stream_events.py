"""Parses the events of synaps' streams: converts the params of a notification to a class of
`types`.

    {"event": {"type": "text", "delta": "Hel"}}     →  Text("Hel")

An event that cannot be parsed becomes `Unreadable` with the reason, such as "text is missing"; the
session logs and ignores it. `render_event` formats an event for a person. A plugin is synaps' name
for an extension.
"""

from collections.abc import Container, Mapping
from typing import Any

from exthost.dialects.streams import ProgressBar, StreamEvent, Unreadable
from exthost.dialects.synaps.types import (
    CommandOutput,
    Done,
    ProviderError,
    ProviderToolUse,
    ProviderUsage,
    Table,
    TaskDone,
    TaskLog,
    TaskStart,
    TaskUpdate,
    Text,
    ThinkingText,
)
from exthost.model.shortened_text import shorten_to
from exthost.wire.typed_values import WrongValue, convert

_TASK_KINDS = ("download", "rebuild", "generic")

# The class of an event, by its type, kind or method.
_PROVIDER_EVENTS: Mapping[str, type[Any]] = {
    "text": Text, "thinking": ThinkingText, "tool_use": ProviderToolUse, "usage": ProviderUsage,
    "error": ProviderError, "done": Done,
}  # fmt: skip
_OUTPUTS: Mapping[str, type[Any]] = {
    "text": CommandOutput, "system": CommandOutput, "error": CommandOutput,
    "table": Table, "done": Done,
}  # fmt: skip
_TASK_EVENTS: Mapping[str, type[Any]] = {
    "task.start": TaskStart, "task.update": TaskUpdate, "task.log": TaskLog, "task.done": TaskDone
}  # fmt: skip


def parse_provider_event(method: str, params: Any) -> StreamEvent | Unreadable:
    """Parse one `provider.stream.event`. Its fields are in the params, or in an object `event` in
    the params: plugins send both forms."""
    try:
        event = _find_event(params)
        event_class = _PROVIDER_EVENTS[_read_choice(event, "type", _PROVIDER_EVENTS)]
        if event_class is ProviderUsage:
            return StreamEvent(ProviderUsage({key: event[key] for key in event if key != "type"}))
        if "delta" in event:  # plugins send the text under either name
            event = {**event, "text": convert(event["delta"], str, "delta")}
        return StreamEvent(convert(event, event_class))
    except WrongValue as error:
        return Unreadable(str(error))


def parse_command_event(method: str, params: Any) -> StreamEvent | Unreadable:
    """Parse an event of a command: its output, or the progress of a task."""
    try:
        if method == "command.output":
            event = _find_event(params)
            output = convert(event, _OUTPUTS[_read_choice(event, "kind", _OUTPUTS)])
            # An error without text is a mistake of the plugin, like a ProviderError without one.
            if output == CommandOutput("error", ""):
                return Unreadable("content is empty")
            return StreamEvent(output)
        event = _object(params, "params")
        if method == "task.start":
            event = {**event, "kind": event.get("kind") or "generic"}
            _read_choice(event, "kind", _TASK_KINDS)
        return StreamEvent(convert(event, _TASK_EVENTS[method]))
    except WrongValue as error:
        return Unreadable(str(error))


def _find_event(params: Any) -> dict[str, Any]:
    """Return the object with the fields of the event."""
    event = _object(params, "params")
    return _object(event["event"], "event") if "event" in event else event


def _object(value: Any, name: str) -> dict[str, Any]:
    """Return the value if it is a JSON object. Raises WrongValue otherwise."""
    return convert(value, dict[str, Any], name)


def _read_choice(event: dict[str, Any], name: str, known: Container[str]) -> str:
    """Return a field of the event that must have one of the `known` values. Raises WrongValue."""
    if name not in event:
        raise WrongValue(f"{name} is missing")
    value = convert(event[name], str, name)
    if value not in known:
        raise WrongValue(f"its {name} is not known: {shorten_to(40, value)!r}")
    return value


# -- for a person ----------------------------------------------------------------------------


def render_event(event: Any) -> ProgressBar | str | None:
    """Return an event of a stream as text or as a progress bar, for a person; None for no
    output."""
    match event:
        case Text(text):
            return text
        case ThinkingText(text):
            return text
        case ProviderToolUse(_, name, input):
            return f"\n(wants {name} {dict(input)})\n"
        case ProviderError(message):
            return f"\nerror: {message}\n"
        case CommandOutput(kind, content):
            return f"error: {content}\n" if kind == "error" else f"{content}\n"
        case Table(headers, rows):
            lines = [headers, *(row if type(row) is list else [row] for row in rows)]
            return "".join("  ".join(map(str, line)) + "\n" for line in lines)
        case TaskStart(id, label):
            return ProgressBar(id, label)
        case TaskUpdate(id, current, total, message):
            return ProgressBar(id, "", current, total, message or "")
        case TaskLog(_, line):
            return f"{line}\n"
        case TaskDone(id, error):
            return ProgressBar(id, message=error or "", done=True)
    return None
