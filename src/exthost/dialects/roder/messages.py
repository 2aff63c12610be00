"""roder's methods by name, and their params and results as dataclasses.

    request = ToolCallParams.from_json(params)
    return ToolCallResult(content="HI", is_error=False).to_json()

`METHODS` has the classes of each method. Fields have snake_case names here, and camelCase names in
the JSON. `to_json` leaves out optional fields that are None. `from_json` ignores fields that the
class does not declare, and raises ProtocolViolation if a required field is missing or a field has
another type. A field with an object that the protocol does not define, such as a request or an
event, is a mapping; models, definitions and task specs are classes of `types`.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from types import UnionType
from typing import Any, NamedTuple, Self, get_args, get_origin

from exthost.dialects.roder import types
from exthost.errors import ProtocolViolation

PROTOCOL_VERSION = "0.2.0"

METHOD_INITIALIZE = "extension/initialize"
METHOD_LIST_MODELS = "inference/listModels"
METHOD_STREAM_TURN = "inference/streamTurn"
METHOD_INFERENCE_EVENT = "inference/event"
METHOD_SUBAGENTS_DEFINITIONS = "subagents/definitions"
METHOD_SUBAGENTS_DISPATCH = "subagents/dispatch"
METHOD_SUBAGENTS_EVENT = "subagents/event"
METHOD_SUBAGENTS_CANCEL = "subagents/cancel"
METHOD_TASKS_SPEC = "tasks/spec"
METHOD_TASKS_EXECUTE = "tasks/execute"
METHOD_TASKS_EVENT = "tasks/event"
METHOD_TASKS_CANCEL = "tasks/cancel"
METHOD_TOOLS_CALL = "tools/call"
METHOD_EVENTS_HANDLE = "events/handle"
METHOD_EXTENSION_EVENT = "extension/event"
METHOD_SHUTDOWN = "extension/shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireObject:
    """The base class of params and results, which converts them to JSON and back."""

    def to_json(self) -> dict[str, Any]:
        """Return this object as the value of a JSON object."""
        values = {declared: getattr(self, declared.name) for declared in fields(self)}
        return {
            camel_case(declared.name): _to_json(value)
            for declared, value in values.items()
            if value is not None or declared.default is not None
        }

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the JSON value as this class. Raises ProtocolViolation."""
        if not isinstance(value, Mapping):
            raise _unreadable_error(cls, "it is not an object")
        arguments: dict[str, Any] = {}
        for declared in fields(cls):
            key = camel_case(declared.name)
            if key in value:
                try:
                    arguments[declared.name] = _from_json(value[key], declared.type)
                except TypeError:
                    raise _unreadable_error(cls, f"{key} has another type") from None
            elif declared.default is MISSING and declared.default_factory is MISSING:
                raise _unreadable_error(cls, f"{key} is missing")
        return cls(**arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter(WireObject):
    """The events that an extension receives: those whose kind begins with one of `kinds`."""

    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeParams(WireObject):
    """The params of `extension/initialize`."""

    protocol_version: str
    api_version: str
    extension_id: str
    cwd: str
    granted_capabilities: tuple[str, ...]
    config: Any
    event_filter: EventFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeResult(WireObject):
    """The result of `extension/initialize`, which repeats the manifest. `manifest_checksum` is the
    FNV-1a hash of its bytes."""

    protocol_version: str
    extension_id: str
    services: tuple[Mapping[str, Any], ...]
    manifest_checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListModelsParams(WireObject):
    """The params of `inference/listModels`."""

    engine_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListModelsResult(WireObject):
    """The result of `inference/listModels`."""

    models: tuple[types.InferenceModel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTurnParams(WireObject):
    """The params of `inference/streamTurn`."""

    engine_id: str
    stream_id: str
    thread_id: str
    turn_id: str
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTurnAck(WireObject):
    """The result of `inference/streamTurn`. Its events follow."""

    stream_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEventNotification(WireObject):
    """The params of `inference/event`: one event of a turn. An event without fields is its name."""

    stream_id: str
    event: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentDefinitionsParams(WireObject):
    """The params of `subagents/definitions`."""

    dispatcher_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentDefinitionsResult(WireObject):
    """The result of `subagents/definitions`."""

    definitions: tuple[types.Definition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentDispatchParams(WireObject):
    """The params of `subagents/dispatch`."""

    dispatcher_id: str
    dispatch_id: str
    parent_thread_id: str
    parent_turn_id: str
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentDispatchAck(WireObject):
    """The result of `subagents/dispatch`. Its events follow."""

    dispatch_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentEventNotification(WireObject):
    """The params of `subagents/event`."""

    dispatch_id: str
    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentCancelParams(WireObject):
    """The params of `subagents/cancel`."""

    dispatcher_id: str
    dispatch_id: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpecParams(WireObject):
    """The params of `tasks/spec`."""

    executor_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpecResult(WireObject):
    """The result of `tasks/spec`."""

    spec: types.TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExecuteParams(WireObject):
    """The params of `tasks/execute`."""

    executor_id: str
    execution_id: str
    task_id: str
    thread_id: str | None = None
    turn_id: str | None = None
    workspace_root: str | None = None
    input: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExecuteAck(WireObject):
    """The result of `tasks/execute`. Its events follow."""

    execution_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEventNotification(WireObject):
    """The params of `tasks/event`."""

    execution_id: str
    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancelParams(WireObject):
    """The params of `tasks/cancel`."""

    executor_id: str
    execution_id: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallParams(WireObject):
    """The params of `tools/call`."""

    provider_id: str
    tool_name: str
    call_id: str
    thread_id: str
    turn_id: str
    arguments: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallResult(WireObject):
    """The result of `tools/call`. `content` is the text for the model, `data` any JSON value."""

    content: str
    is_error: bool
    data: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsHandleNotification(WireObject):
    """The params of `events/handle`: an event of the host."""

    envelope: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionOwnedEvent(WireObject):
    """The params of `extension/event`: an event that an extension publishes."""

    extension_id: str
    event_kind: str
    schema_version: int
    payload: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty(WireObject):
    """The params of `extension/shutdown`, and the results of requests whose result is ignored."""

    @classmethod
    def from_json(cls, value: Any) -> Self:
        return cls()


class MethodTypes(NamedTuple):
    """The class of a method's params, and that of its result; None for a notification."""

    params: type[WireObject]
    result: type[WireObject] | None


METHODS: Mapping[str, MethodTypes] = {
    METHOD_INITIALIZE: MethodTypes(InitializeParams, InitializeResult),
    METHOD_LIST_MODELS: MethodTypes(ListModelsParams, ListModelsResult),
    METHOD_STREAM_TURN: MethodTypes(StreamTurnParams, StreamTurnAck),
    METHOD_INFERENCE_EVENT: MethodTypes(InferenceEventNotification, None),
    METHOD_SUBAGENTS_DEFINITIONS: MethodTypes(SubagentDefinitionsParams, SubagentDefinitionsResult),
    METHOD_SUBAGENTS_DISPATCH: MethodTypes(SubagentDispatchParams, SubagentDispatchAck),
    METHOD_SUBAGENTS_EVENT: MethodTypes(SubagentEventNotification, None),
    METHOD_SUBAGENTS_CANCEL: MethodTypes(SubagentCancelParams, Empty),
    METHOD_TASKS_SPEC: MethodTypes(TaskSpecParams, TaskSpecResult),
    METHOD_TASKS_EXECUTE: MethodTypes(TaskExecuteParams, TaskExecuteAck),
    METHOD_TASKS_EVENT: MethodTypes(TaskEventNotification, None),
    METHOD_TASKS_CANCEL: MethodTypes(TaskCancelParams, Empty),
    METHOD_TOOLS_CALL: MethodTypes(ToolCallParams, ToolCallResult),
    METHOD_EVENTS_HANDLE: MethodTypes(EventsHandleNotification, None),
    METHOD_EXTENSION_EVENT: MethodTypes(ExtensionOwnedEvent, None),
    METHOD_SHUTDOWN: MethodTypes(Empty, Empty),
}

CHILD_NOTIFICATIONS = frozenset(
    {METHOD_INFERENCE_EVENT, METHOD_SUBAGENTS_EVENT, METHOD_TASKS_EVENT, METHOD_EXTENSION_EVENT}
)
"""The notifications that an extension sends."""


def camel_case(name: str) -> str:
    """Return a snake_case name in camelCase."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _to_json(value: Any) -> Any:
    """Return the value of a field as a JSON value."""
    if isinstance(value, WireObject):
        return value.to_json()
    if isinstance(value, types.Payload):
        members = {
            declared.name: getattr(value, declared.name)
            for declared in fields(value)
            if declared.name != "extra"
        }
        return {name: item for name, item in members.items() if item is not None} | {**value.extra}
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return value


def _from_json(value: Any, declared: Any) -> Any:
    """Return the JSON value as the declared type. Raises TypeError."""
    if declared is Any:
        return value
    if isinstance(declared, UnionType):  # an optional field: the other type is None
        return None if value is None else _from_json(value, get_args(declared)[0])
    if get_origin(declared) is tuple:
        if type(value) is not list:
            raise TypeError
        return tuple(_from_json(item, get_args(declared)[0]) for item in value)
    if get_origin(declared) is not None:  # Mapping[str, Any]
        declared = dict
    elif issubclass(declared, WireObject):
        if not isinstance(value, Mapping):
            raise TypeError
        return declared.from_json(value)
    elif issubclass(declared, types.Payload):
        value = types.parse_payload(declared, value)
    if type(value) is not declared:
        raise TypeError
    return value


def _unreadable_error(cls: type[WireObject], reason: str) -> ProtocolViolation:
    return ProtocolViolation(
        "X0641",
        f"it is not valid as {cls.__name__}: {reason}",
        help="the dialect's page shows its required members",
    )
