"""roder's payloads as values: events of streams, models, definitions, task specs.

The members that programs use are attributes; all other members are in `extra`. An event of an
unknown kind is an `Other`. A payload without a required member, or with a member of the wrong type,
is read as None, and the caller decides what to do.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from exthost.dialects.streams import StreamEvent
from exthost.empty_mapping import empty_mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Members by name. `extra` has all other members."""

    extra: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)


T = TypeVar("T", bound=Payload)


@dataclass(frozen=True, slots=True)
class Other(Payload):
    """An event of a kind without a type here: hosted tool calls, compactions, metadata."""

    kind: str
    body: Any = None


@dataclass(frozen=True, slots=True)
class MessageDelta(Payload):
    """A part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta(Payload):
    """A part of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted(Payload):
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta(Payload):
    id: str
    arguments_delta: str


@dataclass(frozen=True, slots=True)
class ToolCallCompleted(Payload):
    """A tool call that the model requests. `arguments` is the JSON text that the model wrote."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage(Payload):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Completed(Payload):
    """The last event of a turn that succeeded."""

    stop_reason: Any = None
    provider_response_id: Any = None


@dataclass(frozen=True, slots=True)
class Failed(Payload):
    """The last event of a turn that failed."""

    message: str


@dataclass(frozen=True, slots=True)
class Status(Payload):
    """What a subagent is doing."""

    status: str
    detail: Any = None


@dataclass(frozen=True, slots=True)
class Output(Payload):
    """Output of a task: to stdout, stderr or its log."""

    stream: str
    chunk: str


@dataclass(frozen=True, slots=True)
class Finished(Payload):
    """The last event of a dispatch or a task that succeeded."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WorkFailed(Payload):
    """The last event of a dispatch or a task that failed."""

    error: Any


@dataclass(frozen=True, slots=True)
class Model(Payload):
    id: str
    name: str
    context_window: int | None = None
    default_reasoning: Any = None
    supported_reasoning: Any = None


@dataclass(frozen=True, slots=True)
class Definition(Payload):
    """A subagent to which requests can be dispatched."""

    agent_type: str
    description: str
    tools: Any = None
    model: Any = None
    system_prompt: Any = field(default=None, repr=False)
    permission_mode: Any = None
    max_turns: int | None = None


@dataclass(frozen=True, slots=True)
class TaskSpec(Payload):
    """The task that an executor accepts."""

    kind: str
    description: str
    input_schema: Any = None
    default_timeout_seconds: float | None = None
    metadata: Any = None


def read(kind: type[T], value: Any) -> T | None:
    """Return the payload in this value, or None if the value does not fit."""
    if type(value) is not dict:
        return None
    known: dict[str, Any] = {}
    for member in fields(kind):
        if member.name == "extra":
            continue
        if member.name in value:
            if not _fits(member.type, value[member.name]):
                return None
            known[member.name] = value[member.name]
        elif member.default is MISSING:
            return None
    known["extra"] = {name: item for name, item in value.items() if name not in known}
    return kind(**known)


def _fits(wanted: Any, value: Any) -> bool:
    """Return whether a member has the right type: text, whole numbers and tables are checked."""
    expected = _CHECKED.get(wanted)
    return expected is None or type(value) is expected


_CHECKED: Mapping[Any, type] = {str: str, int: int, Mapping[str, Any]: dict}


_TURN: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        MessageDelta,
        ReasoningDelta,
        ToolCallStarted,
        ToolCallDelta,
        ToolCallCompleted,
        Usage,
        Completed,
        Failed,
    )
}
# The protocol does not define the members of these.
_SHAPELESS = ("ProviderMetadata",)
_SUBAGENT: Mapping[str, type[Any]] = {"status": Status, "completed": Finished, "failed": WorkFailed}
_TASK: Mapping[str, type[Any]] = {"output": Output, "completed": Finished, "failed": WorkFailed}


def inference_event(method: str, params: Any) -> StreamEvent | None:
    """Read an event of the form `{"Kind": {…}}`."""
    event = params.get("event") if isinstance(params, dict) else None
    if isinstance(event, str):  # how roder writes a kind without members
        event = {event: {}}
    if not isinstance(event, dict) or len(event) != 1:
        return None
    ((kind, body),) = event.items()
    if kind not in _TURN:
        known = type(body) is dict or kind in _SHAPELESS
        return StreamEvent(Other(kind, body)) if known else None
    made = read(_TURN[kind], body)
    return None if made is None else StreamEvent(made, kind in ("Completed", "Failed"))


def shown(event: Any) -> str | None:
    """Return an event of a stream as text for a person. The last event is shown as the result."""
    match event:
        case MessageDelta(text) | ReasoningDelta(text):
            return text
        case Output(_, chunk):
            return chunk
        case ToolCallCompleted(_, name, arguments):
            return f"\n(wants {name} {arguments})\n"
        case Status(status, detail):
            return f"{status}: {detail}\n" if detail else f"{status}\n"
        case Other(kind):
            return f"\n({kind})\n"
    return None


def subagent_event(method: str, params: Any) -> StreamEvent | None:
    return _by_type(_SUBAGENT, params)


def task_event(method: str, params: Any) -> StreamEvent | None:
    return _by_type(_TASK, params)


def _by_type(kinds: Mapping[str, type[Any]], params: Any) -> StreamEvent | None:
    """Read an event of the form `{"type": "kind", …}`."""
    event = params.get("event") if isinstance(params, dict) else None
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        return None
    body = {name: item for name, item in event.items() if name != "type"}
    kind = event["type"]
    if kind not in kinds:
        return StreamEvent(Other(kind, body))
    made = read(kinds[kind], body)
    return None if made is None else StreamEvent(made, kind in ("completed", "failed"))
