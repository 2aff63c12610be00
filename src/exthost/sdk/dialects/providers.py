"""What a provider yields, in the words of synaps and of roder.

Text is a piece of the answer; `Thinking`, `ToolUse` and `Usage` are what they say.
"""

from typing import Any

from exthost.sdk.answers import Thinking, ToolUse, Usage
from exthost.sdk.registry import Model
from exthost.sdk.types.json_text import encode_text


def items_of(result: Any) -> list[Any]:
    """Return the items of a provider's result: a list, or one of them."""
    return result if isinstance(result, list) else [] if result is None else [result]


def synaps_model(model: Model) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": model.id, "display_name": model.name or model.id}
    if model.context_window is not None:
        entry["context_window"] = model.context_window
    return entry


def synaps_event(item: Any) -> dict[str, Any]:
    match item:
        case Thinking(text):
            return {"type": "thinking", "delta": text}
        case ToolUse(id, name, input):
            return {"type": "tool_use", "id": id, "name": name, "input": input}
        case Usage(given, made):
            return {"type": "usage", "input_tokens": given, "output_tokens": made}
    return {"type": "text", "delta": str(item)}


def synaps_completion(result: Any) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    completion: dict[str, Any] = {"content": content, "stop_reason": "end_turn"}
    text = ""
    for item in items_of(result):
        match item:
            case Thinking():
                continue
            case ToolUse(id, name, input):
                completion["stop_reason"] = "tool_use"
                content.append({"type": "tool_use", "id": id, "name": name, "input": input})
            case Usage(given, made):
                completion["usage"] = {"input_tokens": given, "output_tokens": made}
            case _:
                text += str(item)
    if text:
        content.insert(0, {"type": "text", "text": text})
    return completion


def roder_model(model: Model) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": model.id, "name": model.name or model.id}
    if model.context_window is not None:
        entry["context_window"] = model.context_window
    return entry


def roder_event(item: Any) -> dict[str, Any]:
    match item:
        case Thinking(text):
            return {"ReasoningDelta": {"text": text}}
        case ToolUse(id, name, input):
            call = {"id": id, "name": name, "arguments": encode_text(input)}
            return {"ToolCallCompleted": call}
        case Usage(given, made):
            usage = {"prompt_tokens": given, "completion_tokens": made}
            return {"Usage": {**usage, "total_tokens": given + made}}
    return {"MessageDelta": {"text": str(item)}}
