"""The tool loop: runs the tools that a model requests, and sends the model their results.

At most `rounds` times. The tools of a round run one after another, by `run_tool`, with the hooks
before and after each. The model gets an error text for a tool that is unknown, was stopped or
failed, since it may find another way. The loop fails if the provider fails, requests a tool in an
unreadable form, or still requests tools in the last round.

Knows no dialect and no process: a provider is a function from messages to content.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from exthost.dialects.model_provider import Completion
from exthost.errors import (
    CallFailed,
    ExthostError,
    NotFound,
    ProtocolViolation,
    Refused,
    UsageError,
)
from exthost.tool_result import ToolResult

__all__ = ["ROUNDS", "OUTPUT_BYTES", "complete_with_tools", "cut_to_bytes"]

# How often a model may request tools, and how much output it gets (docs/dialects/synaps.md).
ROUNDS = 8
OUTPUT_BYTES = 30_000


Complete: TypeAlias = Callable[[list[Any]], Awaitable[Completion]]
RunTool: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[ToolResult]]


class _Use(NamedTuple):
    id: str
    name: str
    input: Mapping[str, Any]


async def complete_with_tools(
    complete: Complete,
    messages: Sequence[Any],
    run_tool: RunTool,
    *,
    provider: str,
    rounds: int = ROUNDS,
    output_bytes: int = OUTPUT_BYTES,
) -> Completion:
    """Return the last answer of the model. `messages` is not changed. `run_tool` returns a failed
    tool as a result (check=False)."""
    if type(output_bytes) is not int or output_bytes < 1:
        raise UsageError(
            "X1334",
            f"max_tool_output is a number of bytes, at least 1, and not {output_bytes!r}",
            help=f"leave it out for {OUTPUT_BYTES:,}",
        )
    conversation = list(messages)
    rounds = max(1, rounds)
    for rounds_left in range(rounds - 1, -1, -1):
        completion = await complete(conversation)
        uses = [_use(block, provider) for block in completion.content if _asks(block)]
        if not uses:
            return completion
        if rounds_left:
            conversation.append({"role": "assistant", "content": list(completion.content)})
            results = [await _result(use, run_tool, output_bytes) for use in uses]
            conversation.append({"role": "user", "content": results})
    message = f"the provider {provider} still asked for tools in round {rounds}, the last"
    raise CallFailed(
        "X0754",
        message,
        error_message=message,
        help="allow more rounds, or look at what its tools answer",
    )


def _asks(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "tool_use"


def _use(block: Mapping[str, Any], provider: str) -> _Use:
    id, name, input = block.get("id"), block.get("name"), block.get("input", {})
    for member, value in (("id", id), ("name", name)):
        if type(value) is not str or not value.strip():
            raise _unreadable(provider, f"its {member} is missing or blank")
    if not isinstance(input, Mapping):
        raise _unreadable(provider, "its input is not an object")
    return _Use(str(id), str(name), input)


def _unreadable(provider: str, why: str) -> ProtocolViolation:
    return ProtocolViolation(
        "X0654",
        f"the provider {provider} asked for a tool in a way that cannot be read: {why}",
        help="a tool_use block has id, name and input",
    )


async def _result(use: _Use, run_tool: RunTool, output_bytes: int) -> dict[str, Any]:
    try:
        result = await run_tool(use.name, use.input)
        if result.error_reply is not None:
            raise result.error_reply
        text, failed = result.text, result.is_error
    except NotFound:
        text, failed = f"Unknown tool: {use.name}", True
    except Refused as refused:
        text, failed = f"Tool call blocked by extension: {refused.message}", True
    except ExthostError as error:
        text, failed = f"Tool execution failed: {error.message}", True
    block = {
        "type": "tool_result",
        "tool_use_id": use.id,
        "content": cut_to_bytes(text, output_bytes),
    }
    return block | {"is_error": True} if failed else block


def cut_to_bytes(text: str, most: int) -> str:
    """Return the text cut to at most `most` bytes, in whole characters."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= most else data[:most].decode("utf-8", "ignore")
