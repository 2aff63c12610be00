"""The payloads of roder's messages as dataclasses: events of streams, models, subagents and tasks.

The fields that programs use are attributes; all other JSON fields are in the mapping `extra`.
Parsing checks that the required fields are there, and that fields declared as `str`, `int` or
`Mapping` have that type. Optional fields are passed on unchecked. A payload that fails these checks
is parsed as None, and the caller decides what to do.

An event of a kind that has no class here is an `UntypedEvent`. In an inference event the body of
such a kind must be an object, or the event is parsed as None.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from exthost.dialects.streams import StreamEvent
from exthost.model.empty_mapping import empty_mapping
from exthost.wire.typed_values import WrongValue, convert_with_extra


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The base class. `extra` has the JSON fields that the class does not declare."""

    extra: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)


T = TypeVar("T", bound=Payload)

# Optional numbers are not checked at run time, so that a wrong number in one item does not make a
# whole list unreadable.
if TYPE_CHECKING:
    OptionalInt: TypeAlias = int | None
    OptionalFloat: TypeAlias = float | None
else:
    OptionalInt = OptionalFloat = Any


@dataclass(frozen=True, slots=True)
class UntypedEvent(Payload):
    """An event of a kind that has no class here, such as hosted tool calls and compactions.

    `kind` is its name in the message, `body` its JSON value.
    """

    kind: str
    body: Any = None


@dataclass(frozen=True, slots=True)
class MessageDelta(Payload):
    """A part of the model's answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta(Payload):
    """A part of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted(Payload):
    """The model has begun to write a tool call."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta(Payload):
    """A part of the arguments of a tool call, as JSON text."""

    id: str
    arguments_delta: str


@dataclass(frozen=True, slots=True)
class ToolCallCompleted(Payload):
    """A tool call that the model requests. `arguments` is the JSON text that the model wrote."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class TokenUsage(Payload):
    """The number of tokens that a turn has used."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Completed(Payload):
    """The last event of an inference turn that succeeded. Dispatches and tasks end in Finished."""

    stop_reason: Any = None
    provider_response_id: Any = None


@dataclass(frozen=True, slots=True)
class TurnFailed(Payload):
    """The last event of an inference turn that failed. Dispatches and tasks end in WorkFailed."""

    message: str


@dataclass(frozen=True, slots=True)
class SubagentStatus(Payload):
    """The current activity of a subagent."""

    status: str
    detail: Any = None


@dataclass(frozen=True, slots=True)
class TaskOutput(Payload):
    """A piece of output of a task. `stream` names its destination: stdout, stderr or the log."""

    stream: str
    chunk: str


@dataclass(frozen=True, slots=True)
class Finished(Payload):
    """The last event of a subagent dispatch or a task that succeeded."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WorkFailed(Payload):
    """The last event of a subagent dispatch or a task that failed. `error` is any JSON value."""

    error: Any


@dataclass(frozen=True, slots=True)
class InferenceModel(Payload):
    """A model of an inference engine. `context_window` is a number of tokens; None if unknown."""

    id: str
    name: str
    context_window: OptionalInt = None
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
    max_turns: OptionalInt = None


@dataclass(frozen=True, slots=True)
class TaskSpec(Payload):
    """The task that an executor accepts."""

    kind: str
    description: str
    input_schema: Any = None
    default_timeout_seconds: OptionalFloat = None
    metadata: Any = None


def parse_payload(payload_class: type[T], value: Any) -> T | None:
    """Return the JSON value as this class, or None if it fails the checks."""
    try:
        return convert_with_extra(value, payload_class)
    except WrongValue:
        return None


# Kind of the event in the message → its class.
_INFERENCE_EVENTS: Mapping[str, type[Any]] = {
    "MessageDelta": MessageDelta,
    "ReasoningDelta": ReasoningDelta,
    "ToolCallStarted": ToolCallStarted,
    "ToolCallDelta": ToolCallDelta,
    "ToolCallCompleted": ToolCallCompleted,
    "Usage": TokenUsage,
    "Completed": Completed,
    "Failed": TurnFailed,
}
_SUBAGENT_EVENTS: Mapping[str, type[Any]] = {
    "status": SubagentStatus,
    "completed": Finished,
    "failed": WorkFailed,
}
_TASK_EVENTS: Mapping[str, type[Any]] = {
    "output": TaskOutput,
    "completed": Finished,
    "failed": WorkFailed,
}

# Inference events whose body may be any JSON value: the protocol does not define it.
_KINDS_WITH_ANY_BODY = ("ProviderMetadata",)


def parse_inference_event(method: str, params: Any) -> StreamEvent | None:
    """Return an event of the form `{"Kind": {…}}`, or None if it cannot be read."""
    event = params.get("event") if isinstance(params, dict) else None
    if isinstance(event, str):  # how roder writes a kind without members
        event = {event: {}}
    if not isinstance(event, dict) or len(event) != 1:
        return None
    ((kind, body),) = event.items()
    if kind not in _INFERENCE_EVENTS:
        is_valid = type(body) is dict or kind in _KINDS_WITH_ANY_BODY
        return StreamEvent(UntypedEvent(kind, body)) if is_valid else None
    payload = parse_payload(_INFERENCE_EVENTS[kind], body)
    if payload is None:
        return None
    return StreamEvent(payload, terminal=kind in ("Completed", "Failed"))


def render_event(event: Any) -> str | None:
    """Return an event of a stream as text for a person.

    Returns None for events without text of their own, and for the last event of a stream, which
    the command line prints as the result.
    """
    match event:
        case MessageDelta(text) | ReasoningDelta(text):
            return text
        case TaskOutput(_, chunk):
            return chunk
        case ToolCallCompleted(_, name, arguments):
            return f"\n(wants {name} {arguments})\n"
        case SubagentStatus(status, detail):
            return f"{status}: {detail}\n" if detail else f"{status}\n"
        case UntypedEvent(kind):
            return f"\n({kind})\n"
    return None


def parse_subagent_event(method: str, params: Any) -> StreamEvent | None:
    """Return an event of a subagent dispatch, or None if it cannot be read."""
    return _parse_tagged_event(_SUBAGENT_EVENTS, params)


def parse_task_event(method: str, params: Any) -> StreamEvent | None:
    """Return an event of a task, or None if it cannot be read."""
    return _parse_tagged_event(_TASK_EVENTS, params)


def _parse_tagged_event(classes: Mapping[str, type[Any]], params: Any) -> StreamEvent | None:
    """Return an event of the form `{"type": "kind", …}`; `classes` has its class by kind."""
    event = params.get("event") if isinstance(params, dict) else None
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        return None
    body = {name: item for name, item in event.items() if name != "type"}
    kind = event["type"]
    if kind not in classes:
        return StreamEvent(UntypedEvent(kind, body))
    payload = parse_payload(classes[kind], body)
    if payload is None:
        return None
    return StreamEvent(payload, terminal=kind in ("completed", "failed"))
