"""Runs the tool calls in a model's response, and returns the messages that answer them.

Two forms of response are accepted, as dictionaries or as the objects of the APIs' own packages: the
`tool_calls` of a chat-completions message (or of the whole response), and `tool_use` blocks in the
content of a message. The answers have the form of the calls. A `tool` message has no field that
marks a failure; so the content of a failure begins with "Error: ".
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from exthost.errors import ExthostError, UsageError
from exthost.tool_result import ToolResult


class CallTool(Protocol):
    """`Host.call_tool`."""

    async def __call__(
        self, name: str, arguments: Any, *, context: Mapping[str, Any], check: bool
    ) -> ToolResult: ...


async def run_model_calls(
    call_tool: CallTool, response: Any, context: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Run the tool calls in a response concurrently; return the messages that answer them. The
    context of each call has the model's id of the call as `call_id`. Raises UsageError if
    `response` has neither form."""

    async def run(call: ModelCall) -> Answer:
        if call.problem:
            return Answer(call.problem, is_error=True)
        try:
            named = {**context, "call_id": call.id}
            result = await call_tool(call.name, call.arguments, context=named, check=False)
            return Answer(result.text, result.is_error)
        except ExthostError as error:
            return Answer(error.message, is_error=True)

    calls = read_calls(response)
    return calls.messages(await asyncio.gather(*map(run, calls.calls)))


class ModelCall(NamedTuple):
    """A call that a model requests. `problem` is why its arguments cannot be read, or ""."""

    id: str
    name: str
    arguments: Any
    problem: str = ""


class Answer(NamedTuple):
    """The outcome of one call, as text for the model."""

    text: str
    is_error: bool


class ModelCalls(NamedTuple):
    """The calls of one response."""

    calls: tuple[ModelCall, ...]
    has_blocks: bool  # whether the calls are `tool_use` blocks, not `tool_calls`

    def messages(self, answers: Sequence[Answer]) -> list[dict[str, Any]]:
        """Return the messages to send back, with one answer for each call, in order."""
        pairs = list(zip(self.calls, answers, strict=True))
        if not self.has_blocks:
            return [
                {"role": "tool", "tool_call_id": call.id, "content": _mark_error(answer)}
                for call, answer in pairs
            ]
        blocks = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": answer.text,
                "is_error": answer.is_error,
            }
            for call, answer in pairs
        ]
        return [{"role": "user", "content": blocks}] if blocks else []


def _mark_error(answer: Answer) -> str:
    return f"Error: {answer.text}" if answer.is_error else answer.text


def read_calls(response: Any) -> ModelCalls:
    """Return the tool calls of a response, which may be none. Raises UsageError for a value that is
    not a response of either form."""
    choices = _member(response, "choices")
    if choices:
        response = _member(choices[0], "message")
    content = response if isinstance(response, list | tuple) else _member(response, "content")
    calls = _member(response, "tool_calls")
    if calls is None and isinstance(content, list | tuple):
        blocks = [block for block in content if _member(block, "type") == "tool_use"]
        return ModelCalls(tuple(_from_block(block) for block in blocks), has_blocks=True)
    if calls is None and _member(response, "role") is None:
        raise UsageError(
            "X1330",
            "this is not a model's response",
            help="pass the response, its message, or its content blocks, as the API returned them",
        )
    return ModelCalls(tuple(_from_function(call) for call in calls or ()), has_blocks=False)


def _from_block(block: Any) -> ModelCall:
    return ModelCall(
        str(_member(block, "id")), str(_member(block, "name")), _member(block, "input")
    )


def _from_function(call: Any) -> ModelCall:
    function = _member(call, "function")
    id, name = str(_member(call, "id")), str(_member(function, "name"))
    text = _member(function, "arguments")
    try:
        return ModelCall(id, name, json.loads(text) if text else {})
    except (TypeError, ValueError) as error:
        return ModelCall(id, name, None, f"its arguments are not JSON: {error}")


def _member(value: Any, name: str) -> Any:
    """Return a key of a dictionary or an attribute of an object; None if there is none."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)
