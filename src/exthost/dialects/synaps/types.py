"""synaps' payloads as values: what providers and commands send, what facets answer.

Each reader takes what came and returns a value, or None for what cannot be read: whoever asked
decides what follows. Events of streams are read by `stream_events`. Knows no session.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from exthost.dialects.meanings import DialectEvent, Unusable
from exthost.empty_mapping import empty_mapping

# -- providers ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """A piece of its reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call that the model wants made."""

    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    usage: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProviderError:
    """Something went wrong that did not end the answer."""

    message: str


@dataclass(frozen=True, slots=True)
class Done:
    """It says that it is done; only the result is the end."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What a provider answered."""

    content: tuple[Any, ...]
    stop_reason: str | None = None
    usage: Any = None

    @property
    def text(self) -> str:
        """The text blocks, one after another."""
        blocks = [one for one in self.content if isinstance(one, dict)]
        return "".join(str(one.get("text", "")) for one in blocks if one.get("type") == "text")


def completion(value: Any) -> Completion | None:
    """The answer to provider.complete or provider.stream."""
    if type(value) is not dict:
        return None
    content, stop, usage = value.get("content"), value.get("stop_reason"), value.get("usage")
    if type(content) is not list or not (stop is None or type(stop) is str):
        return None
    return Completion(tuple(content), stop, usage)


# -- commands and tasks ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Output:
    """Something a command says: `kind` is text, system or error."""

    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class Table:
    headers: tuple[Any, ...]
    rows: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TaskStart:
    """A task began; `kind` is download, rebuild or generic."""

    id: str
    label: str
    kind: str = "generic"


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    id: str
    current: float | None = None
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class TaskLog:
    id: str
    line: str


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task ended, well if `error` is None."""

    id: str
    error: str | None = None


def _number(value: Any) -> bool:
    return value is None or type(value) in (int, float)


def _text(value: Any) -> bool:
    return value is None or type(value) is str


# -- widgets and the settings editor -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Widget:
    id: str
    lines: tuple[Any, ...]
    position: str | None = None
    title: str | None = None
    ttl_secs: float | None = None


@dataclass(frozen=True, slots=True)
class WidgetDismissed:
    id: str


@dataclass(frozen=True, slots=True)
class EditorRender:
    rows: tuple[Any, ...]
    cursor: Any = None
    footer: str | None = None


@dataclass(frozen=True, slots=True)
class EditorCommit:
    value: Any


@dataclass(frozen=True, slots=True)
class EditorClose:
    reason: str | None = None


Meant: TypeAlias = DialectEvent | Unusable


def widget_upsert(params: Any) -> Meant:
    said = params if type(params) is dict else {}
    id, lines, title = said.get("id"), said.get("lines"), said.get("title")
    position, ttl = said.get("position"), said.get("ttl_secs")
    if (
        type(id) is str
        and type(lines) is list
        and _text(title)
        and _text(position)
        and _number(ttl)
    ):
        return DialectEvent("widget.upsert", Widget(id, tuple(lines), position, title, ttl))
    return Unusable("widget.upsert notices that could not be read")


def widget_dismiss(params: Any) -> Meant:
    id = params.get("id") if type(params) is dict else None
    if type(id) is str:
        return DialectEvent("widget.dismiss", WidgetDismissed(id))
    return Unusable("widget.dismiss notices that could not be read")


def editor_render(params: Any) -> Meant:
    said = params if type(params) is dict else {}
    rows, footer = said.get("rows"), said.get("footer")
    if type(rows) is list and _text(footer):
        event = EditorRender(tuple(rows), said.get("cursor"), footer)
        return DialectEvent("settings.editor.render", event)
    return Unusable("settings.editor.render notices that could not be read")


def editor_commit(params: Any) -> Meant:
    if type(params) is dict and "value" in params:
        return DialectEvent("settings.editor.commit", EditorCommit(params["value"]))
    return Unusable("settings.editor.commit notices that could not be read")


def editor_close(params: Any) -> Meant:
    reason = params.get("reason") if type(params) is dict else None
    if _text(reason):
        return DialectEvent("settings.editor.close", EditorClose(reason))
    return Unusable("settings.editor.close notices that could not be read")


# -- what facets answer --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Build:
    backend: str
    features: tuple[str, ...] = ()
    version: str = ""


@dataclass(frozen=True, slots=True)
class Info:
    """What a plugin tells of itself."""

    build: Build | None = None
    capabilities: tuple[Mapping[str, Any], ...] = ()
    models: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SpawnArgs:
    """With which words a plugin's sidecar wants to be started."""

    args: tuple[str, ...] = ()
    language: str | None = None
    extra: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)


def info(value: Any) -> Info | None:
    if type(value) is not dict:
        return None
    build = value.get("build")
    made = None
    if build is not None:
        if type(build) is not dict or type(build.get("backend")) is not str:
            return None
        features, version = build.get("features", []), build.get("version", "")
        if not _strings(features) or type(version) is not str:
            return None
        made = Build(build["backend"], tuple(features), version)
    capabilities = _each(value.get("capabilities", []), ("kind", "name"), {"modes": []})
    models = _each(value.get("models", []), ("id",), {"display_name": None, "installed": False})
    return None if capabilities is None or models is None else Info(made, capabilities, models)


def _each(
    values: Any, needed: tuple[str, ...], defaults: Mapping[str, Any]
) -> tuple[Mapping[str, Any], ...] | None:
    if type(values) is not list:
        return None
    for one in values:
        if type(one) is not dict or any(type(one.get(key)) is not str for key in needed):
            return None
    return tuple({**defaults, **one} for one in values)


def spawn_args(value: Any) -> SpawnArgs | None:
    if type(value) is not dict:
        return None
    args, language = value.get("args", []), value.get("language")
    if not _strings(args) or not _text(language):
        return None
    extra = {key: item for key, item in value.items() if key not in ("args", "language")}
    return SpawnArgs(tuple(args), language, extra)


def _strings(value: Any) -> bool:
    return type(value) is list and all(type(one) is str for one in value)
