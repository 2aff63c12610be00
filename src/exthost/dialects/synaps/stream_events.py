"""Parses the events of synaps' streams: converts the params of a notification to a class of
`types`.

An event that cannot be parsed becomes `Unreadable` with the reason, such as "text is missing"; the
session logs and ignores it. `render_event` formats an event for a person.
"""

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

_TASK_KINDS = ("download", "rebuild", "generic")


class _InvalidEvent(Exception):
    """An event cannot be parsed. The message names the wrong field."""


def parse_provider_event(method: str, params: Any) -> StreamEvent | Unreadable:
    """Parse one `provider.stream.event`. Its fields are in the params, or in an object `event` in
    the params: plugins send both forms."""
    try:
        return StreamEvent(_provider_event(_find_event(params)))
    except _InvalidEvent as error:
        return Unreadable(str(error))


def parse_command_event(method: str, params: Any) -> StreamEvent | Unreadable:
    """Parse an event of a command: its output, or the progress of a task."""
    try:
        if method == "command.output":
            return StreamEvent(_output(_find_event(params)))
        return StreamEvent(_task(method, _object(params, "params")))
    except _InvalidEvent as error:
        return Unreadable(str(error))


def _provider_event(event: dict[str, Any]) -> Any:
    match event.get("type"):
        case "text" | "thinking" as kind:
            # Plugins send the text under either name.
            text = _text(event, "delta" if "delta" in event else "text")
            return Text(text) if kind == "text" else ThinkingText(text)
        case "tool_use":
            id, name = _nonempty_text(event, "id"), _nonempty_text(event, "name")
            return ProviderToolUse(id, name, _object(event.get("input", {}), "input"))
        case "usage":
            return ProviderUsage({key: value for key, value in event.items() if key != "type"})
        case "error":
            return ProviderError(_nonempty_text(event, "message"))
        case "done":
            return Done()
    raise _unknown_value_error(event, "type")


def _output(event: dict[str, Any]) -> Any:
    match event.get("kind"):
        case "text" | "system" as kind:
            return CommandOutput(kind, _text(event, "content"))
        case "error":
            return CommandOutput("error", _nonempty_text(event, "content"))
        case "table":
            rows = [_row(row, f"rows[{n}]") for n, row in enumerate(_list(event, "rows"))]
            return Table(tuple(_row(_list(event, "headers"), "headers")), tuple(rows))
        case "done":
            return Done()
    raise _unknown_value_error(event, "kind")


def _task(method: str, event: dict[str, Any]) -> Any:
    id = _text(event, "id")
    match method:
        case "task.start":
            kind = _text_or_none(event, "kind")
            if kind is not None and kind not in _TASK_KINDS:
                raise _unknown_value_error(event, "kind")
            return TaskStart(id, _text(event, "label"), kind or "generic")
        case "task.update":
            current, total = _number_or_none(event, "current"), _number_or_none(event, "total")
            return TaskUpdate(id, current, total, _text_or_none(event, "message"))
        case "task.log":
            return TaskLog(id, _text(event, "line"))
        case "task.done":
            return TaskDone(id, _text_or_none(event, "error"))
    raise _InvalidEvent("there is no such event")


# -- fields ----------------------------------------------------------------------------------


def _find_event(params: Any) -> dict[str, Any]:
    """Return the object with the fields of the event."""
    event = _object(params, "params")
    return _object(event["event"], "event") if "event" in event else event


def _object(value: Any, name: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise _InvalidEvent(f"{name} is not an object")
    return value


def _list(event: dict[str, Any], name: str) -> list[Any]:
    value = event.get(name)
    if type(value) is not list:
        raise _field_error(event, name, "is not a list")
    return value


def _row(cells: Any, name: str) -> list[str]:
    if type(cells) is not list or not all(type(cell) is str for cell in cells):
        raise _InvalidEvent(f"{name} is not a list of text")
    return cells


def _text(event: dict[str, Any], name: str) -> str:
    value = event.get(name)
    if type(value) is not str:
        raise _field_error(event, name, "is not text")
    return value


def _nonempty_text(event: dict[str, Any], name: str) -> str:
    text = _text(event, name)
    if not text:
        raise _InvalidEvent(f"{name} is empty")
    return text


def _text_or_none(event: dict[str, Any], name: str) -> str | None:
    return None if event.get(name) is None else _text(event, name)


def _number_or_none(event: dict[str, Any], name: str) -> float | None:
    value = event.get(name)
    if value is not None and type(value) not in (int, float):
        raise _InvalidEvent(f"{name} is not a number")
    return value


def _field_error(event: dict[str, Any], name: str, why: str) -> _InvalidEvent:
    return _InvalidEvent(f"{name} {why}" if name in event else f"{name} is missing")


def _unknown_value_error(event: dict[str, Any], name: str) -> _InvalidEvent:
    value = event.get(name)
    if type(value) is not str:
        return _field_error(event, name, "is not text")
    return _InvalidEvent(f"its {name} is not known: {value[:40]!r}")


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
