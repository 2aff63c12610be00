"""The tool calls in responses and streams of each model API; everything else is an error.

`read_calls(response)` finds the tool calls in whatever a model API returns: a whole response, a
message, or all chunks of a stream, as dicts or as objects of the API's Python package. The APIs are
OpenAI's chat completions and Responses, Anthropic's and Gemini's.
"""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from exthost.errors import UsageError
from exthost.host.model_api.model_responses import ModelCall, read_calls


def as_objects(value: Any) -> Any:
    """Return the same response as objects with attributes, as the APIs' packages have them."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: as_objects(item) for key, item in value.items()})
    return [as_objects(item) for item in value] if isinstance(value, list) else value


def delta(index: int, arguments: str = "", **more: Any) -> dict[str, Any]:
    """Return a chunk of a stream of chat completions with a part of a tool call."""
    part = {"index": index, "function": {"arguments": arguments, "name": more.pop("name", None)}}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [part | more]}}]}


def chat(*calls: Any) -> dict[str, Any]:
    """Return a message of chat completions with calls, each an id, a name and arguments."""
    tool_calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls}


def item(id: str, name: str, arguments: str, **more: Any) -> dict[str, Any]:
    """Return a tool call in the form of the Responses API."""
    call = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name}
    return {**call, "arguments": arguments, **more}


def candidate(*parts: Any) -> dict[str, Any]:
    """Return a response of Gemini."""
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}}]}


# The call `f(a=1)` with the id "1" in a stream of chat completions (CHUNKS), in a message and in a
# stream of Anthropic (USE, EVENTS), in the Responses API (ITEM and below), and in Gemini's (PART).
END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
USE = {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}
CHUNKS = [
    {"choices": []},
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    delta(0, id="1", name="f"),
    delta(0, '{"a"'),
    delta(0, ": 1}"),
    END,
    {"choices": [], "usage": {}},
]
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"role": "assistant", "content": []}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": USE | {"input": {}}},
    {"type": "content_block_delta", "index": 1, "delta": {"partial_json": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"partial_json": '{"a"'}},
    {"type": "content_block_delta", "index": 1, "delta": {"partial_json": ": 1}"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_stop"},
]
ITEM = item("1", "f", '{"a": 1}')
ADDED = {"type": "response.output_item.added", "output_index": 1}
DONE = {"type": "response.output_item.done", "output_index": 1}
CREATED = {"type": "response.created", "response": {"output": []}}
COMPLETED = {"type": "response.completed", "response": {"output": [{"type": "reasoning"}, ITEM]}}
ITEM_ADDED = {**ADDED, "item": item("1", "f", "", status="in_progress")}
PART = {"functionCall": {"id": "1", "name": "f", "args": {"a": 1}}}

# All forms in which each API has this call.
ONE_CALL = {
    "chat": [
        {"choices": [{"message": chat(("1", "f", '{"a": 1}'))}]},
        chat(("1", "f", '{"a": 1}')),
        chat(("1", "f", '{"a": 1}'))["tool_calls"],
        CHUNKS,
    ],
    "responses": [
        {"object": "response", "output": [{"type": "reasoning"}, ITEM]},
        [ITEM],
        [CREATED, ITEM_ADDED, {**DONE, "item": ITEM}],
        [CREATED, ITEM_ADDED, {**DONE, "item": ITEM}, COMPLETED],
        [CREATED, COMPLETED],
    ],
    "anthropic": [
        {"role": "assistant", "content": [{"type": "text", "text": ""}, USE]},
        [USE],
        EVENTS,
        [*EVENTS[:3], {**EVENTS[3], "content_block": USE}, *EVENTS[7:]],
    ],
    "gemini": [
        candidate({"text": "so"}, PART),
        candidate(PART)["candidates"][0]["content"],
        [candidate({"text": "so"}), candidate(PART), {"usageMetadata": {}}],
        candidate({"function_call": PART["functionCall"]}),
    ],
}


@pytest.mark.parametrize("convert", [lambda value: value, as_objects], ids=["dicts", "objects"])
@pytest.mark.parametrize(
    ("api", "response"),
    [(api, response) for api, responses in ONE_CALL.items() for response in responses],
)
def test_a_call_is_read_in_each_form(api: str, response: Any, convert: Any) -> None:
    calls = read_calls(convert(response))
    [call] = calls.calls
    assert calls.api == api and (call.id, call.name, call.problem) == ("1", "f", "")
    arguments = call.arguments
    assert (arguments if isinstance(arguments, dict) else vars(arguments)) == {"a": 1}


@pytest.mark.parametrize(
    "response",
    [
        {"role": "assistant", "content": "done"},
        {"role": "assistant", "content": "done", "tool_calls": []},
        {"choices": [{"message": {"role": "assistant", "content": "done"}}]},
        [{"choices": [{"index": 0, "delta": {"content": "done"}, "finish_reason": "stop"}]}],
        {"object": "response", "output": [{"type": "message", "content": []}]},
        [{"type": "response.output_text.delta", "delta": "a"}, {"type": "response.completed"}],
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
        [{"type": "thinking", "thinking": "so"}, {"type": "text", "text": "done"}],
        EVENTS[:3],
        [],
        candidate({"text": "done"}),
        {"promptFeedback": {"blockReason": "SAFETY"}},
    ],
)
def test_in_a_response_without_tool_calls_none_are_found(response: Any) -> None:
    assert read_calls(response).calls == ()


class Stream:
    """A stream of an API's package that was not read."""

    def __aiter__(self) -> Any:
        return self


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"nonsense": 1}, "not a model's response"),
        ("text", "not a model's response: str"),
        (None, "not a model's response"),
        (b"{}", "not a model's response"),
        ([{"nonsense": 1}], "a list of other values"),
        ([1, "a"], "a list of other values"),
        ([{"type": "brand_new"}], "a list of other values"),
        ({"choices": []}, "not a model's response"),
        (CHUNKS[2], "one chunk of a stream"),
        (iter(CHUNKS), "was not read"),
        (Stream(), "was not read"),
        ({"role": "assistant", "function_call": {"name": "f"}}, "not a model's response"),
    ],
)
def test_the_error_for_another_value_names_the_known_responses(value: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        read_calls(value)
    assert caught.value.code == "X1330"  # the value is not a response of a model
    for name in ("chat completions", "Responses", "Anthropic", "Gemini", "chunks"):
        assert name in caught.value.help


def test_the_parts_of_several_calls_are_joined() -> None:
    chunks = [
        delta(0, id="1", name="f"),
        delta(1, "{}", id="2", name="g"),
        delta(0, '{"a": 1}'),
        # A server that counts wrongly: the same index, with another id.
        delta(1, '{"b": 2}', id="3", name="h"),
        END,
    ]
    assert read_calls(chunks).calls == (
        ModelCall("1", "f", {"a": 1}),
        ModelCall("2", "g", {}),
        ModelCall("3", "h", {"b": 2}),
    )


@pytest.mark.parametrize(
    "response",
    [
        CHUNKS[:3],
        [*CHUNKS[:3], {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}],
        CHUNKS[:4],
        EVENTS[:4],
        EVENTS[:6],
        [CREATED, ITEM_ADDED],
        {"object": "response", "output": [item("1", "f", "", status="incomplete")]},
        {"object": "response", "output": [item("1", "f", '{"a', status="incomplete")]},
        # The limit of tokens ended the response.
        {"choices": [{"message": chat(("1", "f", "")), "finish_reason": "length"}]},
        {"role": "assistant", "content": [USE], "stop_reason": "max_tokens"},
        [
            *EVENTS[:5],
            EVENTS[7],
            {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
            EVENTS[8],
        ],
        {"object": "response", "status": "incomplete", "output": [item("1", "f", "")]},
        {"candidates": [candidate(PART)["candidates"][0] | {"finishReason": "MAX_TOKENS"}]},
    ],
)
def test_a_call_that_was_cut_off_is_not_made(response: Any) -> None:
    [call] = read_calls(response).calls
    assert (call.id, call.name, call.arguments) == ("1", "f", None) and call.problem


def test_calls_that_are_complete_before_the_limit_of_tokens_are_made() -> None:
    text = {"type": "text", "text": "and"}
    calls = [
        read_calls(
            {"choices": [{"message": chat(("1", "f", '{"a": 1}')), "finish_reason": "length"}]}
        ),
        read_calls({"role": "assistant", "content": [USE, text], "stop_reason": "max_tokens"}),
    ]
    assert [call for each in calls for call in each.calls] == [ModelCall("1", "f", {"a": 1})] * 2


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"a": NaN}', "\ud800"])
def test_arguments_that_are_not_json_are_the_problem_of_their_call(text: str) -> None:
    [call, good] = read_calls(chat(("1", "f", text), ("2", "g", "{}"))).calls
    assert "not JSON" in call.problem and not good.problem


def test_ten_thousand_calls_of_a_stream_are_joined() -> None:
    chunks = [delta(n, json.dumps({"n": n}), id=f"c{n}", name="f") for n in range(10_000)]
    calls = read_calls([*chunks, END]).calls
    assert [call.arguments["n"] for call in calls] == list(range(10_000))
