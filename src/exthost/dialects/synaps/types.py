"""The payloads of synaps' messages as dataclasses, and the functions that parse them from JSON.

The payloads are events of providers and commands, notifications, and replies that facets (such as
`ext.providers`) return. A function for a reply returns None if the reply cannot be parsed, and the
caller decides what to do. A function for a notification returns `Unusable` instead. `stream_events`
parses the events. A plugin is synaps' name for an extension.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from exthost.dialects.meanings import DialectEvent, Unusable
from exthost.model.empty_mapping import empty_mapping

# -- providers ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A part of the model's answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingText:
    """A part of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ProviderToolUse:
    """A tool call that the model requests."""

    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProviderUsage:
    """The number of tokens used so far, under the provider's own names."""

    usage: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProviderError:
    """An error that did not end the answer."""

    message: str


@dataclass(frozen=True, slots=True)
class Done:
    """The provider has sent its last event. The stream ends with the reply that follows."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The model's answer, in content blocks."""

    content: tuple[Any, ...]
    stop_reason: str | None = None
    usage: Any = None

    @property
    def text(self) -> str:
        """The text of all text blocks, joined."""
        blocks = [block for block in self.content if isinstance(block, dict)]
        return "".join(
            str(block.get("text", "")) for block in blocks if block.get("type") == "text"
        )


def read_completion(value: Any) -> Completion | None:
    """Read the reply to `provider.complete` or `provider.stream`."""
    if type(value) is not dict:
        return None
    content, stop, usage = value.get("content"), value.get("stop_reason"), value.get("usage")
    if type(content) is not list or not (stop is None or type(stop) is str):
        return None
    return Completion(tuple(content), stop, usage)


# -- commands and tasks ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Text that a command prints: `kind` is text, system or error."""

    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a command prints."""

    headers: tuple[Any, ...]
    rows: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TaskStart:
    """A task began: `kind` is download, rebuild or generic."""

    id: str
    label: str
    kind: str = "generic"


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    """The progress of a task: `current` of `total`."""

    id: str
    current: float | None = None
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class TaskLog:
    """A line of the log of a task."""

    id: str
    line: str


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task ended. `error` is None if it succeeded."""

    id: str
    error: str | None = None


def _is_number_or_none(value: Any) -> bool:
    return value is None or type(value) in (int, float)


def _is_text_or_none(value: Any) -> bool:
    return value is None or type(value) is str


# -- widgets and the settings editor -------------------------------------------------------------


# The nine places of a widget. Those of the middle row have two spellings.
WIDGET_POSITIONS = frozenset(
    f"{row}_{column}"
    for row in ("top", "middle", "center", "bottom")
    for column in ("left", "center", "right")
) | {"center"}
_DEFAULT_POSITION = "top_right"


@dataclass(frozen=True, slots=True)
class StyledText:
    """A part of a line of a widget. `fg` and `bg` are its colours; None for the usual ones."""

    text: str
    fg: str | None = None
    bg: str | None = None


@dataclass(frozen=True, slots=True)
class Widget:
    """A widget to show; it replaces a widget with the same id. It disappears after `ttl_secs`
    seconds; None means that it stays. `position` is one of WIDGET_POSITIONS. `styled_lines` are
    lines with colours, which a program shows instead of `lines` if there are any."""

    id: str
    lines: tuple[Any, ...]
    position: str = _DEFAULT_POSITION
    title: str | None = None
    ttl_secs: float | None = None
    styled_lines: tuple[tuple[StyledText, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class WidgetDismissed:
    """The widget with this id is to be removed."""

    id: str


@dataclass(frozen=True, slots=True)
class EditorRender:
    """The contents of the settings editor, row by row."""

    rows: tuple[Any, ...]
    cursor: Any = None
    footer: str | None = None


@dataclass(frozen=True, slots=True)
class EditorCommit:
    """The value that the settings editor stores."""

    value: Any


@dataclass(frozen=True, slots=True)
class EditorClose:
    """The settings editor closes."""

    reason: str | None = None


Meaning: TypeAlias = DialectEvent | Unusable
"""The meaning of a notification to the host (see `exthost.dialects.meanings`)."""


def widget_upsert(params: Any) -> Meaning:
    """Read a `widget.upsert` notification."""
    fields = params if type(params) is dict else {}
    id, title, ttl = fields.get("id"), fields.get("title"), fields.get("ttl_secs")
    styled = _read_styled_lines(fields.get("styled_lines"))
    lines = fields.get("lines", [] if styled else None)
    position = fields.get("position")
    position = _DEFAULT_POSITION if position is None else position
    if type(position) is str and position not in WIDGET_POSITIONS:
        return Unusable(f"widget.upsert notices with the unknown position {position[:40]!r}")
    if (
        type(id) is str
        and type(lines) is list
        and styled is not None
        and type(position) is str
        and _is_text_or_none(title)
        and _is_number_or_none(ttl)
    ):
        return DialectEvent("widget.upsert", Widget(id, tuple(lines), position, title, ttl, styled))
    return Unusable("widget.upsert notices that could not be read")


def _read_styled_lines(value: Any) -> tuple[tuple[StyledText, ...], ...] | None:
    """Return the styled lines of a widget; None if they cannot be read."""
    if value is None:
        return ()
    if type(value) is not list or not all(type(line) is list for line in value):
        return None
    parts = [part for line in value for part in line]
    if not all(
        type(part) is dict
        and type(part.get("text")) is str
        and _is_text_or_none(part.get("fg"))
        and _is_text_or_none(part.get("bg"))
        for part in parts
    ):
        return None
    return tuple(
        tuple(StyledText(part["text"], part.get("fg"), part.get("bg")) for part in line)
        for line in value
    )


def widget_dismiss(params: Any) -> Meaning:
    """Read a `widget.dismiss` notification."""
    id = params.get("id") if type(params) is dict else None
    if type(id) is str:
        return DialectEvent("widget.dismiss", WidgetDismissed(id))
    return Unusable("widget.dismiss notices that could not be read")


def editor_render(params: Any) -> Meaning:
    """Read a `settings.editor.render` notification."""
    fields = params if type(params) is dict else {}
    rows, footer = fields.get("rows"), fields.get("footer")
    if type(rows) is list and _is_text_or_none(footer):
        event = EditorRender(tuple(rows), fields.get("cursor"), footer)
        return DialectEvent("settings.editor.render", event)
    return Unusable("settings.editor.render notices that could not be read")


def editor_commit(params: Any) -> Meaning:
    """Read a `settings.editor.commit` notification."""
    if type(params) is dict and "value" in params:
        return DialectEvent("settings.editor.commit", EditorCommit(params["value"]))
    return Unusable("settings.editor.commit notices that could not be read")


def editor_close(params: Any) -> Meaning:
    """Read a `settings.editor.close` notification."""
    reason = params.get("reason") if type(params) is dict else None
    if _is_text_or_none(reason):
        return DialectEvent("settings.editor.close", EditorClose(reason))
    return Unusable("settings.editor.close notices that could not be read")


# -- replies that facets return ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Build:
    """How a plugin was built."""

    backend: str
    features: tuple[str, ...] = ()
    version: str = ""


@dataclass(frozen=True, slots=True)
class Info:
    """What a plugin reports about itself."""

    build: Build | None = None
    capabilities: tuple[Mapping[str, Any], ...] = ()
    models: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SpawnArgs:
    """The arguments with which the sidecar of a plugin is started."""

    args: tuple[str, ...] = ()
    language: str | None = None
    extra: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)


def read_info(value: Any) -> Info | None:
    """Read the reply to `info.get`."""
    if type(value) is not dict:
        return None
    build = value.get("build")
    build_info = None
    if build is not None:
        if type(build) is not dict or type(build.get("backend")) is not str:
            return None
        features, version = build.get("features", []), build.get("version", "")
        if not _is_text_list(features) or type(version) is not str:
            return None
        build_info = Build(build["backend"], tuple(features), version)
    capabilities = _read_objects(value.get("capabilities", []), ("kind", "name"), {"modes": []})
    models = _read_objects(
        value.get("models", []), ("id",), {"display_name": None, "installed": False}
    )
    return (
        None if capabilities is None or models is None else Info(build_info, capabilities, models)
    )


def _read_objects(
    values: Any, required: tuple[str, ...], defaults: Mapping[str, Any]
) -> tuple[Mapping[str, Any], ...] | None:
    """Read a list of objects, each with text under `required`. Missing keys get `defaults`."""
    if type(values) is not list:
        return None
    for item in values:
        if type(item) is not dict or any(type(item.get(key)) is not str for key in required):
            return None
    return tuple({**defaults, **item} for item in values)


def read_spawn_args(value: Any) -> SpawnArgs | None:
    """Read the reply to `sidecar.spawn_args`."""
    if type(value) is not dict:
        return None
    args, language = value.get("args", []), value.get("language")
    if not _is_text_list(args) or not _is_text_or_none(language):
        return None
    extra = {key: item for key, item in value.items() if key not in ("args", "language")}
    return SpawnArgs(tuple(args), language, extra)


def _is_text_list(value: Any) -> bool:
    return type(value) is list and all(type(item) is str for item in value)
