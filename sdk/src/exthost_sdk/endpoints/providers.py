"""Encodes what a provider yields, for the dialects synaps and roder.

A provider is a handler that continues a conversation with a model. It yields pieces of the answer's
text, and objects of the classes `Thinking`, `ToolUse` and `Usage` of `exthost_sdk.answers`. The
piece "Hello" becomes

    {"type": "text", "delta": "Hello"}      in synaps
    {"MessageDelta": {"text": "Hello"}}     in roder
"""

from typing import Any

from exthost_sdk.answers import Thinking, ToolUse, Usage
from exthost_sdk.registry import Model
from exthost_sdk.types.json_text import encode_text


def list_items(result: Any) -> list[Any]:
    """Return the items of a provider's result, which is a list of items, a single item or None."""
    if result is None:
        return []
    return result if isinstance(result, list) else [result]


def encode_synaps_model(model: Model) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": model.id, "display_name": model.name or model.id}
    if model.context_window is not None:
        entry["context_window"] = model.context_window
    return entry


def encode_synaps_event(item: Any) -> dict[str, Any]:
    match item:
        case Thinking(text):
            return {"type": "thinking", "delta": text}
        case ToolUse(id, name, input):
            return {"type": "tool_use", "id": id, "name": name, "input": input}
        case Usage(input_tokens, output_tokens):
            return {"type": "usage", "input_tokens": input_tokens, "output_tokens": output_tokens}
    return {"type": "text", "delta": str(item)}


def encode_synaps_completion(result: Any) -> dict[str, Any]:
    """Return the result of `provider.complete`: all items as one message, without the thinking."""
    content: list[dict[str, Any]] = []
    completion: dict[str, Any] = {"content": content, "stop_reason": "end_turn"}
    text = ""
    for item in list_items(result):
        match item:
            case Thinking():
                continue
            case ToolUse(id, name, input):
                completion["stop_reason"] = "tool_use"
                content.append({"type": "tool_use", "id": id, "name": name, "input": input})
            case Usage(input_tokens, output_tokens):
                completion["usage"] = {"input_tokens": input_tokens, "output_tokens": output_tokens}
            case _:
                text += str(item)
    if text:
        content.insert(0, {"type": "text", "text": text})
    return completion


def encode_roder_model(model: Model) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": model.id, "name": model.name or model.id}
    if model.context_window is not None:
        entry["context_window"] = model.context_window
    return entry


def encode_roder_event(item: Any) -> dict[str, Any]:
    match item:
        case Thinking(text):
            return {"ReasoningDelta": {"text": text}}
        case ToolUse(id, name, input):
            call = {"id": id, "name": name, "arguments": encode_text(input)}
            return {"ToolCallCompleted": call}
        case Usage(input_tokens, output_tokens):
            usage = {"prompt_tokens": input_tokens, "completion_tokens": output_tokens}
            return {"Usage": {**usage, "total_tokens": input_tokens + output_tokens}}
    return {"MessageDelta": {"text": str(item)}}
