"""Events of synaps' streams: from the params of a notification to a value of `types`.

An event that cannot be read becomes `Unreadable`, which names the member that is wrong; it is
logged and skipped. `shown` puts an event before a person.
"""

from typing import Any

from exthost.dialects.streams import ProgressBar, StreamEvent, Unreadable
from exthost.dialects.synaps.types import (
    Done,
    Output,
    ProviderError,
    Table,
    TaskDone,
    TaskLog,
    TaskStart,
    TaskUpdate,
    Text,
    Thinking,
    ToolUse,
    Usage,
)

_TASK_KINDS = ("download", "rebuild", "generic")


class _Wrong(Exception):
    """Why an event cannot be read."""


def provider_event(method: str, params: Any) -> StreamEvent | Unreadable:
    """Read one `provider.stream.event`, nested under `event` or flat."""
    try:
        return StreamEvent(_provider_event(_nested(params)))
    except _Wrong as wrong:
        return Unreadable(str(wrong))


def command_event(method: str, params: Any) -> StreamEvent | Unreadable:
    """Read what comes during a command: its output, or news of a task."""
    try:
        if method == "command.output":
            return StreamEvent(_output(_nested(params)))
        return StreamEvent(_task(method, _object(params, "params")))
    except _Wrong as wrong:
        return Unreadable(str(wrong))


def _provider_event(said: dict[str, Any]) -> Any:
    match said.get("type"):
        case "text" | "thinking" as kind:
            text = _text(said, "delta" if "delta" in said else "text")
            return Text(text) if kind == "text" else Thinking(text)
        case "tool_use":
            id, name = _filled(said, "id"), _filled(said, "name")
            return ToolUse(id, name, _object(said.get("input", {}), "input"))
        case "usage":
            return Usage({key: value for key, value in said.items() if key != "type"})
        case "error":
            return ProviderError(_filled(said, "message"))
        case "done":
            return Done()
    raise _unknown(said, "type")


def _output(said: dict[str, Any]) -> Any:
    match said.get("kind"):
        case "text" | "system" as kind:
            return Output(kind, _text(said, "content"))
        case "error":
            return Output("error", _filled(said, "content"))
        case "table":
            rows = [_row(one, f"rows[{n}]") for n, one in enumerate(_list(said, "rows"))]
            return Table(tuple(_row(_list(said, "headers"), "headers")), tuple(rows))
        case "done":
            return Done()
    raise _unknown(said, "kind")


def _task(method: str, said: dict[str, Any]) -> Any:
    id = _text(said, "id")
    match method:
        case "task.start":
            kind = _text_or_none(said, "kind")
            if kind is not None and kind not in _TASK_KINDS:
                raise _unknown(said, "kind")
            return TaskStart(id, _text(said, "label"), kind or "generic")
        case "task.update":
            current, total = _number_or_none(said, "current"), _number_or_none(said, "total")
            return TaskUpdate(id, current, total, _text_or_none(said, "message"))
        case "task.log":
            return TaskLog(id, _text(said, "line"))
        case "task.done":
            return TaskDone(id, _text_or_none(said, "error"))
    raise _Wrong("there is no such event")


# -- members ---------------------------------------------------------------------------------


def _nested(params: Any) -> dict[str, Any]:
    said = _object(params, "params")
    return _object(said["event"], "event") if "event" in said else said


def _object(value: Any, name: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise _Wrong(f"{name} is not an object")
    return value


def _list(said: dict[str, Any], name: str) -> list[Any]:
    value = said.get(name)
    if type(value) is not list:
        raise _wrong(said, name, "is not a list")
    return value


def _row(cells: Any, name: str) -> list[str]:
    if type(cells) is not list or not all(type(cell) is str for cell in cells):
        raise _Wrong(f"{name} is not a list of text")
    return cells


def _text(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    if type(value) is not str:
        raise _wrong(said, name, "is not text")
    return value


def _filled(said: dict[str, Any], name: str) -> str:
    text = _text(said, name)
    if not text:
        raise _Wrong(f"{name} is empty")
    return text


def _text_or_none(said: dict[str, Any], name: str) -> str | None:
    return None if said.get(name) is None else _text(said, name)


def _number_or_none(said: dict[str, Any], name: str) -> float | None:
    value = said.get(name)
    if value is not None and type(value) not in (int, float):
        raise _Wrong(f"{name} is not a number")
    return value


def _wrong(said: dict[str, Any], name: str, why: str) -> _Wrong:
    return _Wrong(f"{name} {why}" if name in said else f"{name} is missing")


def _unknown(said: dict[str, Any], name: str) -> _Wrong:
    value = said.get(name)
    if type(value) is not str:
        return _wrong(said, name, "is not text")
    return _Wrong(f"its {name} is not known: {value[:40]!r}")


# -- for a person ----------------------------------------------------------------------------


def shown(event: Any) -> ProgressBar | str | None:
    """An event of a stream, for a person."""
    match event:
        case Text(text):
            return text
        case Thinking(text):
            return text
        case ToolUse(_, name, input):
            return f"\n(wants {name} {dict(input)})\n"
        case ProviderError(message):
            return f"\nerror: {message}\n"
        case Output(kind, content):
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
