"""The tool loop: asks a model, runs the tools that it requests, and asks again with their results.

The model is asked at most `rounds` times. The tools of one round run one after another by
`host.call_tool`, with their hooks. If a tool is unknown, was stopped by a hook, or failed, the
model gets an error text instead of a result, so that it can try something else. So it does if the
limit of tokens has ended its answer inside the last request, which is not run. The loop raises an
error if the provider of the model fails, if it requests a tool in an unreadable form, or if it
still requests tools in the last round.

The provider is given as a function from messages to a completion, so this module is the same for
every dialect.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from exthost.dialects.model_provider import ProviderCompletion
from exthost.errors import (
    CallFailed,
    ExthostError,
    NotFound,
    ProtocolViolation,
    Refused,
    UsageError,
)
from exthost.extension.misuse import wrong_type_error
from exthost.host.host_settings import OUTPUT_BYTES, ROUNDS
from exthost.host.model_api.model_responses import CUT_OFF, TOKEN_LIMITS
from exthost.tool_result import ToolResult

Complete: TypeAlias = Callable[[list[Any]], Awaitable[ProviderCompletion]]
CallTool: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[ToolResult]]


class _ToolUse(NamedTuple):
    """A `tool_use` block of a completion: a request of the model to run a tool. `is_cut_off` is
    whether its input may be incomplete."""

    id: str
    name: str
    input: Mapping[str, Any]
    is_cut_off: bool = False


async def complete_with_tools(
    complete: Complete,
    messages: Sequence[Any],
    call_tool: CallTool,
    *,
    provider: str,
    rounds: int = ROUNDS,
    output_bytes: int = OUTPUT_BYTES,
) -> ProviderCompletion:
    """Return the first completion that requests no tools. Until then, run the tools that each
    completion requests, and ask again.

    complete      asks the model
    messages      the conversation so far; it is not changed
    call_tool     calls a tool, and returns the result also of one that failed (check=False)
    provider      the name of the model, for error messages
    rounds        how often the model is asked at most; at least 1
    output_bytes  how many bytes of each tool's output the model gets at most
    """
    if type(output_bytes) is not int or output_bytes < 1:
        raise UsageError(
            "X1334",
            f"max_tool_output must be a number of bytes, at least 1, not {output_bytes!r}",
            help=f"the default is {OUTPUT_BYTES:,}",
        )
    if type(rounds) is not int:
        raise wrong_type_error("rounds", "a whole number", rounds)
    conversation = list(messages)
    rounds = max(1, rounds)
    for rounds_left in range(rounds - 1, -1, -1):
        completion = await complete(conversation)
        uses = [
            _read_tool_use(block, provider) for block in completion.content if _is_tool_use(block)
        ]
        if not uses:
            return completion
        stop_reason = getattr(completion, "stop_reason", None)
        if stop_reason in TOKEN_LIMITS and _is_tool_use(completion.content[-1]):
            uses[-1] = uses[-1]._replace(is_cut_off=True)
        if rounds_left:  # after the last round the model would not get the results
            conversation.append({"role": "assistant", "content": list(completion.content)})
            results = [await _run(use, call_tool, output_bytes) for use in uses]
            conversation.append({"role": "user", "content": results})
    message = f"the provider {provider} still requested tools in round {rounds}, the last"
    raise CallFailed(
        "X0754",
        message,
        error_message=message,
        help="allow more rounds, or check the results of its tools",
    )


def _is_tool_use(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "tool_use"


def _read_tool_use(block: Mapping[str, Any], provider: str) -> _ToolUse:
    """Return the request in a block. Raises ProtocolViolation."""
    id, name, input = block.get("id"), block.get("name"), block.get("input", {})
    for field, value in (("id", id), ("name", name)):
        if type(value) is not str or not value.strip():
            raise _unreadable_error(provider, f"its {field} is missing or blank")
    if not isinstance(input, Mapping):
        raise _unreadable_error(provider, "its input is not an object")
    return _ToolUse(str(id), str(name), input)


def _unreadable_error(provider: str, reason: str) -> ProtocolViolation:
    return ProtocolViolation(
        "X0654",
        f"the provider {provider} requested a tool in a way that cannot be read: {reason}",
        help="a tool_use block has id, name and input",
    )


async def _run(use: _ToolUse, call_tool: CallTool, output_bytes: int) -> dict[str, Any]:
    """Run a tool, and return its result, or the error, as a `tool_result` block."""
    try:
        if use.is_cut_off:
            text, failed = f"{use.name} was not called: {CUT_OFF}", True
        else:
            result = await call_tool(use.name, use.input)
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


def cut_to_bytes(text: str, max_bytes: int) -> str:
    """Return the text, cut to whole characters of at most `max_bytes` bytes in UTF-8. A lone
    surrogate, which UTF-8 does not have, becomes a question mark."""
    data = text.encode("utf-8", "replace")
    return data[:max_bytes].decode("utf-8", "ignore")
