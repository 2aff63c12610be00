"""The dataclasses of the messages of roder: conversion to and from JSON, and invalid values.

roder is a dialect, a protocol that extensions speak. METHODS has, for each method, the class of its
params and that of its result, None for a notification. Extensions in Python can use these classes.
"""

import json
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import pytest

from exthost.dialects.roder import messages
from exthost.dialects.roder.messages import METHODS, WireObject
from exthost.dialects.roder.types import Definition, InferenceModel, TaskSpec
from exthost.errors import ProtocolViolation
from tests.dialects.requirements import shows
from tests.extensions.harness import closed_at_end
from tests.extensions.roder import received_params, roder_extension

CLASSES = sorted({cls for row in METHODS.values() for cls in row if cls}, key=lambda c: c.__name__)

# For each method, its params and its result as JSON has them; None if there is no result.
EXAMPLES: dict[str, tuple[dict[str, Any], Any]] = {
    "extension/initialize": (
        {
            "protocolVersion": "0.2.0",
            "apiVersion": "0.1.0",
            "extensionId": "x",
            "cwd": "/",
            "grantedCapabilities": ["net"],
            "config": {"a": 1},
            "eventFilter": {"kinds": ["turn."]},
        },
        {
            "protocolVersion": "0.2.0",
            "extensionId": "x",
            "services": [{"type": "event_sink", "id": "e"}],
            "manifestChecksum": "cbf29ce484222325",
        },
    ),
    "inference/listModels": (
        {"engineId": "e"},
        {"models": [{"id": "m", "name": "M", "context_window": 8, "speed": "fast"}]},
    ),
    "inference/streamTurn": (
        {
            "engineId": "e",
            "streamId": "s",
            "threadId": "t",
            "turnId": "u",
            "request": {"model": {"provider": "p", "model": "m"}},
        },
        {"streamId": "s"},
    ),
    "inference/event": ({"streamId": "s", "event": {"MessageDelta": {"text": "a"}}}, None),
    "subagents/definitions": (
        {"dispatcherId": "d"},
        {"definitions": [{"agent_type": "a", "description": "b", "max_turns": 2}]},
    ),
    "subagents/dispatch": (
        {
            "dispatcherId": "d",
            "dispatchId": "i",
            "parentThreadId": "t",
            "parentTurnId": "u",
            "request": {"prompt": "go"},
        },
        {"dispatchId": "i"},
    ),
    "subagents/event": ({"dispatchId": "i", "event": {"type": "failed", "error": "no"}}, None),
    "subagents/cancel": ({"dispatcherId": "d", "dispatchId": "i", "reason": "late"}, {}),
    "tasks/spec": (
        {"executorId": "e"},
        {"spec": {"kind": "k", "description": "d", "input_schema": {"type": "object"}}},
    ),
    "tasks/execute": (
        {"executorId": "e", "executionId": "i", "taskId": "t", "turnId": "u", "input": None},
        {"executionId": "i"},
    ),
    "tasks/event": (
        {"executionId": "i", "event": {"type": "output", "stream": "log", "chunk": "c"}},
        None,
    ),
    "tasks/cancel": ({"executorId": "e", "executionId": "i"}, {}),
    "tools/call": (
        {
            "providerId": "p",
            "toolName": "n",
            "callId": "c",
            "threadId": "t",
            "turnId": "u",
            "arguments": {"a": [1]},
        },
        {"content": "HI", "isError": False, "data": {"n": 1}},
    ),
    "events/handle": ({"envelope": {"kind": "turn.started"}}, None),
    "extension/event": (
        {"extensionId": "x", "eventKind": "k", "schemaVersion": 1, "payload": [1]},
        None,
    ),
    "extension/shutdown": ({}, {}),
}


@shows("roder-wire-12")
def test_every_method_has_a_constant_and_classes() -> None:
    constants = {value for name, value in vars(messages).items() if name.startswith("METHOD_")}
    assert constants == METHODS.keys() == EXAMPLES.keys()


@shows("roder-wire-12", "roder-wire-11")
@pytest.mark.parametrize("method", METHODS)
def test_a_message_is_unchanged_after_conversion_to_its_class_and_back(method: str) -> None:
    for cls, value in zip(METHODS[method], EXAMPLES[method], strict=True):
        assert (cls is None) is (value is None)
        if cls is not None:
            message = cls.from_json(value)
            assert message.to_json() == value
            assert cls.from_json(json.loads(json.dumps(message.to_json()))) == message


def _typed_fields() -> list[tuple[type[WireObject], str]]:
    """Return each class with each of its fields of a known type."""
    return [
        (cls, name)
        for cls in CLASSES
        for name, declared in cls.__dataclass_fields__.items()
        if declared.type is not Any
    ]


def _example(cls: type[WireObject]) -> dict[str, Any]:
    """Return the JSON of a message of this class, from EXAMPLES."""
    for method, row in METHODS.items():
        for candidate, value in zip(row, EXAMPLES[method], strict=True):
            if candidate is cls:
                return dict(value)
    raise LookupError(cls)


@pytest.mark.parametrize(("cls", "name"), _typed_fields())
def test_the_error_of_a_field_of_another_type_names_the_field(
    cls: type[WireObject], name: str
) -> None:
    key = messages.camel_case(name)
    declared: Any = cls.__dataclass_fields__[name].type
    is_optional = isinstance(declared, UnionType)
    for invalid_value in (1.5, True, None):  # no field is a number with a fraction
        if (invalid_value is None and is_optional) or (invalid_value is True and declared is bool):
            continue  # it is valid
        with pytest.raises(ProtocolViolation, match=key) as caught:
            cls.from_json({**_example(cls), key: invalid_value})
        assert caught.value.code == "X0641"
    if get_origin(declared) is tuple and get_args(declared)[0] in (InferenceModel, Definition, str):
        with pytest.raises(ProtocolViolation, match=key):
            cls.from_json({**_example(cls), key: [{"name": "only"}]})


@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_a_value_that_is_not_an_object_is_refused(value: Any) -> None:
    with pytest.raises(ProtocolViolation, match="not an object"):
        messages.ToolCallParams.from_json(value)


def test_a_missing_field_is_refused_unless_it_is_optional() -> None:
    with pytest.raises(ProtocolViolation, match="isError is missing"):
        messages.ToolCallResult.from_json({"content": ""})
    result = messages.ToolCallResult.from_json({"content": "", "isError": True})
    assert result.data is None and result.to_json() == {"content": "", "isError": True}
    assert messages.TaskSpecResult.from_json(EXAMPLES["tasks/spec"][1]).spec == TaskSpec(
        "k", "d", {"type": "object"}, extra={}
    )


async def test_the_messages_of_the_host_can_be_read_by_the_classes(tmp_path: Path) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        params = (await ext.call_tool("echo", {"a": 1}, context={"call_id": "c"})).data
        [initialize] = await received_params(ext, "extension/initialize")
        assert messages.InitializeParams.from_json(initialize).extension_id == "wire"
        call = messages.ToolCallParams.from_json(params)
        assert (call.tool_name, call.call_id, call.arguments) == ("echo", "c", {"a": 1})
