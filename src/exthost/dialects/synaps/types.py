"""The payloads of synaps' messages as dataclasses, and the functions that parse them from JSON.

The payloads are events of providers and commands, notifications, and replies that facets (such as
`ext.providers`) return. A function for a reply returns None if the reply cannot be parsed, and the
caller decides what to do. A function for a notification returns `Unusable` instead. `stream_events`
parses the events. A plugin is synaps' name for an extension.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, TypedDict, TypeVar

from exthost.dialects.meanings import DialectEvent, Unusable
from exthost.model.empty_mapping import empty_mapping
from exthost.model.shortened_text import shorten_to
from exthost.wire.typed_values import NonemptyText, WrongValue, convert, convert_with_extra

T = TypeVar("T")

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

    id: NonemptyText
    name: NonemptyText
    input: Mapping[str, Any] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True)
class ProviderUsage:
    """The number of tokens used so far, under the provider's own names."""

    usage: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProviderError:
    """An error that did not end the answer."""

    message: NonemptyText


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
    return _convert_or_none(value, Completion)


# -- commands and tasks ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Text that a command prints: `kind` is text, system or error."""

    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a command prints."""

    headers: tuple[str, ...]
    rows: tuple[list[str], ...]


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
    current: int | float | None = None
    total: int | float | None = None
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


# -- widgets and the settings editor -------------------------------------------------------------


# The nine places of a widget. Those of the middle row have two spellings.
# "center" is also a short form of "center_center".
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
    ttl_secs: int | float | None = None
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
    items = params.items() if type(params) is dict else ()
    fields: dict[str, Any] = {key: item for key, item in items if item is not None}
    if fields.get("styled_lines"):  # then `lines`, which they replace, may be missing
        fields.setdefault("lines", [])
    meaning = _read_notice("widget.upsert", Widget, fields)
    if isinstance(meaning, DialectEvent) and meaning.payload.position not in WIDGET_POSITIONS:
        position = shorten_to(40, meaning.payload.position)
        return Unusable(f"widget.upsert notifications with the unknown position {position!r}")
    return meaning


def _read_notice(method: str, payload_class: type[Any], params: Any) -> Meaning:
    try:
        return DialectEvent(method, convert(params, payload_class))
    except WrongValue:
        return Unusable(f"{method} notifications that could not be read")


widget_dismiss = partial(_read_notice, "widget.dismiss", WidgetDismissed)
editor_render = partial(_read_notice, "settings.editor.render", EditorRender)
editor_commit = partial(_read_notice, "settings.editor.commit", EditorCommit)


def editor_close(params: Any) -> Meaning:
    """Read a `settings.editor.close` notification, which may have no params."""
    params = params if type(params) is dict else {}
    return _read_notice("settings.editor.close", EditorClose, params)


# -- replies that facets return ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Build:
    """How a plugin was built."""

    backend: str
    features: tuple[str, ...] = ()
    version: str = ""


@dataclass(frozen=True, slots=True)
class Info:
    """The information that a plugin reports about itself."""

    build: Build | None = None
    capabilities: tuple[Mapping[str, Any], ...] = ()
    models: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SpawnArgs:
    """The arguments with which the sidecar of a plugin is started."""

    args: tuple[str, ...] = ()
    language: str | None = None
    extra: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)


class _NamedCapability(TypedDict):
    kind: str
    name: str


class _IdentifiedModel(TypedDict):
    id: str


def read_info(value: Any) -> Info | None:
    """Read the reply to `info.get`."""
    info = _convert_or_none(value, Info)
    if info is None:
        return None
    capabilities = _convert_or_none(info.capabilities, tuple[_NamedCapability, ...])
    models = _convert_or_none(info.models, tuple[_IdentifiedModel, ...])
    if capabilities is None or models is None:
        return None
    return replace(
        info,
        capabilities=tuple({"modes": [], **item} for item in info.capabilities),
        models=tuple({"display_name": None, "installed": False, **item} for item in info.models),
    )


def read_spawn_args(value: Any) -> SpawnArgs | None:
    """Read the reply to `sidecar.spawn_args`."""
    try:
        return convert_with_extra(value, SpawnArgs)
    except WrongValue:
        return None


def _convert_or_none(value: Any, type_: type[T]) -> T | None:
    try:
        return convert(value, type_)
    except WrongValue:
        return None
