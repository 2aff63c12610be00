"""Reads the tool calls in a response of a model API. `Host.run_calls` then runs them. No I/O.

The APIs are OpenAI's chat completions and Responses, Anthropic's messages and Gemini's
generateContent. For example, a message of Anthropic has a call in its content:

    {"role": "assistant", "content": [
        {"type": "tool_use", "id": "toolu_1", "name": "forecast", "input": {"city": "Lima"}}]}

A response may be given as a whole, as its message or content, or as the list of all chunks of a
stream; and as dictionaries or as the objects of the APIs' own packages. The API is recognised by
the fields. A value that is not recognised is an error: if it were read as a response without calls,
an agent would end silently.

The limit of tokens may end a response inside the arguments of its last call. Such a call has a
problem, and is not made.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from exthost.errors import UsageError
from exthost.wire import jsontext

Api: TypeAlias = Literal["chat", "responses", "anthropic", "gemini"]

# The types of the chunks in a stream of Anthropic. Only its Python package makes the last five.
_ANTHROPIC_EVENTS: Final = frozenset(
    [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
        "text",
        "citation",
        "thinking",
        "signature",
        "input_json",
    ]
)
# Content blocks of Anthropic. `text` and `thinking` are also the names of events.
_ANTHROPIC_BLOCKS: Final = frozenset(
    [
        "text",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "server_tool_use",
        "mcp_tool_use",
        "container_upload",
    ]
)
# The types of the items in an output of the Responses API that do not end with `_call`, `_output`
# or `_request`.
_RESPONSES_ITEMS: Final = frozenset(["message", "reasoning", "compaction", "mcp_list_tools"])

# What the APIs give as the reason if the limit of tokens has ended a response.
TOKEN_LIMITS: Final = ("length", "max_tokens", "model_context_window_exceeded", "MAX_TOKENS")

CUT_OFF: Final = "the response ended before its arguments were complete"


class ModelCall(NamedTuple):
    """A call that a model requests. `id` is "" if the API gave none. `problem` is why the call
    cannot be made, or ""."""

    id: str
    name: str
    arguments: Any
    problem: str = ""


class ModelCalls(NamedTuple):
    """The calls of one response, and the API whose form they have."""

    calls: tuple[ModelCall, ...]
    api: Api


def read_calls(response: Any) -> ModelCalls:
    """Return the tool calls of a response, which may be none. Raises UsageError for a value that is
    not understood."""
    if isinstance(response, list | tuple):
        return _read_list(response)
    # A whole response of chat completions.
    choices = _member(response, "choices")
    if isinstance(choices, list | tuple) and choices:
        if _member(choices[0], "message") is not None:
            return _read_choice(choices[0])
        raise _unknown_error(response, "is one chunk of a stream: pass the list of all its chunks")
    # A whole response of the Responses API.
    if isinstance(output := _member(response, "output"), list | tuple):
        calls = _read_items(output)
        return _mark_last(calls) if _member(response, "status") == "incomplete" else calls
    # A response of Gemini, or the content of its candidate.
    if _is_gemini(response):
        return _read_gemini([response])
    if isinstance(parts := _member(response, "parts"), list | tuple):
        return ModelCalls(tuple(_read_parts(parts)), "gemini")
    # A message of chat completions with calls.
    if calls := _member(response, "tool_calls"):
        return ModelCalls(tuple(map(_from_function, calls)), "chat")
    # A message of Anthropic.
    content, role = _member(response, "content"), _member(response, "role")
    if isinstance(content, list | tuple) and role is not None:
        calls = _read_blocks(content)
        is_cut_off = _member(response, "stop_reason") in TOKEN_LIMITS
        if is_cut_off and content and _member(content[-1], "type") == "tool_use":
            return _mark_last(calls, is_value=True)
        return calls
    # A message of chat completions without calls. `function_call` is its old form of a call, which
    # is not supported.
    if role is not None and _member(response, "function_call") is None:
        return ModelCalls((), "chat")
    raise _unknown_error(response)


def _mark_last(calls: ModelCalls, *, is_value: bool = False) -> ModelCalls:
    """Return the calls at the end of a response that was cut off. The last one has a problem if its
    arguments may be incomplete. The API gives them as a value (`is_value`), or as a JSON text: this
    is complete if it could be read, unless it is empty."""
    if not calls.calls or calls.calls[-1].problem or (calls.calls[-1].arguments and not is_value):
        return calls
    last = calls.calls[-1]._replace(arguments=None, problem=CUT_OFF)
    return calls._replace(calls=(*calls.calls[:-1], last))


def _read_list(items: Sequence[Any]) -> ModelCalls:
    """Read a list of content blocks, of output items, of tool calls, or of the chunks of a
    stream."""
    if any(isinstance(_member(item, "choices"), list | tuple) for item in items):
        return _read_chat_chunks(items)
    if any(_is_gemini(item) for item in items):
        return _read_gemini(items)
    types = {_member(item, "type") for item in items}
    if any(isinstance(type, str) and type.startswith("response.") for type in types):
        return _read_responses_events(items)
    if types & (_ANTHROPIC_EVENTS - _ANTHROPIC_BLOCKS):
        return _read_anthropic_events(items)
    if "function" in types:
        return ModelCalls(tuple(map(_from_function, items)), "chat")
    if not items or types & _ANTHROPIC_BLOCKS:
        return _read_blocks(items)
    if any(map(_is_responses_item, types)):
        return _read_items(items)
    raise _unknown_error(items)


# -- chat completions ------------------------------------------------------------------------


def _from_function(call: Any) -> ModelCall:
    """Return the call in an item of `tool_calls`."""
    function = _member(call, "function")
    id = _text(_member(call, "id"))
    if function is None:
        name = _text(_member(_member(call, "custom"), "name"))
        return ModelCall(id, name, None, "it is not a call of a function")
    name = _text(_member(function, "name"))
    return _from_json(id, name, _member(function, "arguments"))


def _read_choice(choice: Any) -> ModelCalls:
    """Return the calls in the message of a choice."""
    calls = read_calls(_member(choice, "message"))
    return _mark_last(calls) if _member(choice, "finish_reason") in TOKEN_LIMITS else calls


def _read_chat_chunks(chunks: Sequence[Any]) -> ModelCalls:
    """Return the calls, joined from their parts. The parts of a call have the same index. Some
    servers give several calls the same index; a part with a new id then begins a new call."""
    parts_by_index: dict[Any, _CallParts] = {}
    all_parts: list[_CallParts] = []
    is_complete = False  # not if the stream broke off, or the limit of tokens ("length") ended it
    for chunk in chunks:
        for choice in _list(_member(chunk, "choices")):
            if _member(choice, "index"):
                continue  # only the first choice is answered
            if _member(choice, "message") is not None:  # a list of one whole response
                return _read_choice(choice)
            if _member(choice, "finish_reason") not in (None, "", "length"):
                is_complete = True
            for part in _list(_member(_member(choice, "delta"), "tool_calls")):
                index, id = _member(part, "index"), _text(_member(part, "id"))
                parts = parts_by_index.get(index)
                if parts is None or (id and id != parts.id):
                    parts = parts_by_index[index] = _CallParts(id)
                    all_parts.append(parts)
                function = _member(part, "function")
                parts.name = parts.name or _text(_member(function, "name"))
                parts.json_parts.append(_text(_member(function, "arguments")))
    return ModelCalls(tuple(parts.join(is_complete=is_complete) for parts in all_parts), "chat")


class _CallParts:
    """A call whose arguments a stream sends in parts.

    json_parts         the parts of the JSON text of the arguments
    initial_arguments  the arguments as a value, if the start of the call has them (Anthropic)
    is_complete        whether the end of the call was received (Anthropic)
    """

    def __init__(self, id: str, name: str = "", initial_arguments: Any = None) -> None:
        self.id = id
        self.name = name
        self.json_parts: list[str] = []
        self.initial_arguments = initial_arguments
        self.is_complete = False

    def join(self, *, is_complete: bool) -> ModelCall:
        """Return the call. `is_complete` is whether its end was received. Without arguments and
        without an end, the call was cut off; it is not a call with the arguments `{}`."""
        text = "".join(self.json_parts)
        if not text and self.initial_arguments:
            return ModelCall(self.id, self.name, self.initial_arguments)
        if not text and not is_complete:
            return ModelCall(self.id, self.name, None, CUT_OFF)
        return _from_json(self.id, self.name, text)


# -- Responses -------------------------------------------------------------------------------


def _is_responses_item(type: Any) -> bool:
    if not isinstance(type, str):
        return False
    return type in _RESPONSES_ITEMS or type.endswith(("_call", "_output", "_request"))


def _read_items(items: Sequence[Any]) -> ModelCalls:
    """Return the calls among the items of an output."""
    calls = [item for item in items if _member(item, "type") == "function_call"]
    return ModelCalls(tuple(map(_from_item, calls)), "responses")


def _from_item(item: Any) -> ModelCall:
    id, name = _text(_member(item, "call_id")), _text(_member(item, "name"))
    text = _member(item, "arguments")
    if not text and _member(item, "status") in ("incomplete", "in_progress"):
        return ModelCall(id, name, None, CUT_OFF)
    return _from_json(id, name, text)


def _read_responses_events(events: Sequence[Any]) -> ModelCalls:
    """Read the items of a stream: those that are done, and those that were only begun, which are
    cut off. The last event has all of them again."""
    items: dict[Any, Any] = {}
    for event in events:
        type = _member(event, "type")
        if type in ("response.output_item.added", "response.output_item.done"):
            items[_member(event, "output_index")] = _member(event, "item")
        elif type in ("response.completed", "response.incomplete", "response.failed"):
            output = _list(_member(_member(event, "response"), "output"))
            items |= dict(enumerate(output))
    return _read_items(list(items.values()))


# -- Anthropic -------------------------------------------------------------------------------


def _read_blocks(blocks: Sequence[Any]) -> ModelCalls:
    """Return the calls among the content blocks of a message."""
    calls = [block for block in blocks if _member(block, "type") == "tool_use"]
    return ModelCalls(tuple(map(_from_block, calls)), "anthropic")


def _from_block(block: Any) -> ModelCall:
    return ModelCall(
        _text(_member(block, "id")), _text(_member(block, "name")), _member(block, "input")
    )


def _read_anthropic_events(events: Sequence[Any]) -> ModelCalls:
    """Return the calls in a stream. The arguments of a call come in parts, as JSON, or as a whole
    at its start."""
    calls: dict[Any, _CallParts] = {}  # by the index of the content block
    for event in events:
        index = _member(event, "index")
        match _member(event, "type"):
            case "content_block_start":
                block = _member(event, "content_block")
                if _member(block, "type") == "tool_use":
                    id, name = _text(_member(block, "id")), _text(_member(block, "name"))
                    calls[index] = _CallParts(id, name, _member(block, "input"))
            case "content_block_delta" if index in calls:
                partial_json = _member(_member(event, "delta"), "partial_json")
                calls[index].json_parts.append(_text(partial_json))
            case "content_block_stop" if index in calls:
                calls[index].is_complete = True
            case "message_delta" if calls:
                # The block that the limit of tokens cut off has an end, too.
                if _member(_member(event, "delta"), "stop_reason") in TOKEN_LIMITS:
                    list(calls.values())[-1].is_complete = False
    return ModelCalls(
        tuple(parts.join(is_complete=parts.is_complete) for parts in calls.values()), "anthropic"
    )


# -- Gemini ----------------------------------------------------------------------------------


def _is_gemini(value: Any) -> bool:
    """Return whether this is a response or a chunk. A blocked prompt has no candidates."""
    names = ("candidates", "promptFeedback", "prompt_feedback", "usageMetadata", "usage_metadata")
    if isinstance(value, Mapping):
        return any(name in value for name in names)
    return any(hasattr(value, name) for name in names)


def _read_gemini(chunks: Sequence[Any]) -> ModelCalls:
    """Return the calls in the first candidate of each chunk."""
    calls: list[ModelCall] = []
    for chunk in chunks:
        for candidate in _list(_member(chunk, "candidates"))[:1]:
            parts = _list(_member(_member(candidate, "content"), "parts"))
            calls += _read_parts(parts)
            reason = _member(candidate, "finishReason") or _member(candidate, "finish_reason")
            if reason in TOKEN_LIMITS and any(_read_parts(parts[-1:])):
                calls = list(_mark_last(ModelCalls(tuple(calls), "gemini"), is_value=True).calls)
    return ModelCalls(tuple(calls), "gemini")


def _read_parts(parts: Sequence[Any]) -> Iterator[ModelCall]:
    for part in parts:
        call = _member(part, "functionCall") or _member(part, "function_call")
        if call is not None:
            arguments = _member(call, "args")
            yield ModelCall(
                _text(_member(call, "id")),
                _text(_member(call, "name")),
                {} if arguments is None else arguments,
            )


# -- values ----------------------------------------------------------------------------------


def _member(value: Any, name: str) -> Any:
    """Return a key of a mapping or an attribute of an object; None if there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _from_json(id: str, name: str, text: Any) -> ModelCall:
    """Return a call whose arguments are the JSON text `text`. If the text is not JSON, the call has
    a problem."""
    try:
        arguments = jsontext.decode(text.encode("utf-8", "surrogatepass")) if text else {}
    except jsontext.NotJson as error:
        return ModelCall(id, name, None, f"its arguments are not JSON: {error}")
    except AttributeError:  # some servers send an object instead of its text
        arguments = text
    return ModelCall(id, name, arguments)


def _unknown_error(value: Any, problem: str = "") -> UsageError:
    if not problem and any(hasattr(value, name) for name in ("__aiter__", "__next__")):
        problem = "is a stream that was not read: pass the list of all its chunks"
    kind = "a list of other values" if isinstance(value, list | tuple) else type(value).__name__
    return UsageError(
        "X1330",
        f"this {problem}" if problem else f"this is not a model's response: {kind}",
        help="pass a response of OpenAI (chat completions or Responses), Anthropic or Gemini, its "
        "message or content, or the list of all chunks of a stream, as the API returned them",
    )
