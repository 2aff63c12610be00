"""Writes the answers to the tool calls of a model, in the form of its API. No I/O.

An answer for Anthropic is a block of a message:

    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny", "is_error": False}

Anthropic and Gemini have a field that marks a failure; for OpenAI the text of a failure begins with
"Error: ". Images, sounds and documents are a part of the answer if the API allows that. A `tool`
message of chat completions may only have text, so they follow in a `user` message.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from exthost.host.model_api.media import IMAGE_TYPES, Media
from exthost.host.model_api.model_responses import Api, ModelCall, ModelCalls


class Answer(NamedTuple):
    """The outcome of one call: texts and media."""

    parts: Sequence[str | Media]
    is_error: bool

    @property
    def text(self) -> str:
        """The texts, without the media."""
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def media(self) -> list[Media]:
        """The media alone."""
        return [part for part in self.parts if isinstance(part, Media)]


class MediaLimits(NamedTuple):
    """The media that an API accepts in answers.

    kinds      "image", "audio" and "document", or some of them
    types      the media types; None for any
    max_bytes  the largest size of one medium
    """

    kinds: Collection[str]
    types: Collection[str] | None
    max_bytes: int


# The formats of sounds in chat completions, by media type.
_SOUND_FORMATS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
_FILE_TYPES: Final = IMAGE_TYPES | {"application/pdf"}

# The media types that most models of each API accept. A chat model takes sounds only if it was made
# for them.
_LIMITS: Final[dict[Api, MediaLimits]] = {
    "chat": MediaLimits(("image",), IMAGE_TYPES | _SOUND_FORMATS.keys(), 20_000_000),
    "responses": MediaLimits(("image", "document"), _FILE_TYPES, 20_000_000),
    "anthropic": MediaLimits(("image", "document"), _FILE_TYPES, 5_000_000),
    "gemini": MediaLimits(("image", "audio", "document"), None, 15_000_000),
}


def media_limits(api: Api, kinds: Collection[str] | None) -> MediaLimits:
    """Return the limits of an API. `kinds` replaces the kinds that most of its models take."""
    limits = _LIMITS[api]
    return limits if kinds is None else limits._replace(kinds=tuple(kinds))


def messages(calls: ModelCalls, answers: Sequence[Answer]) -> list[Any]:
    """Return the messages to send back, with one answer for each call, in order."""
    pairs = list(zip(calls.calls, answers, strict=True))
    if not pairs:
        return []
    if calls.api == "chat":
        return _chat_messages(pairs)
    if calls.api == "responses":
        return [_responses_item(call, answer) for call, answer in pairs]
    if calls.api == "anthropic":
        return [{"role": "user", "content": [_anthropic_block(*pair) for pair in pairs]}]
    parts = [part for call, answer in pairs for part in _gemini_parts(call, answer)]
    return [{"role": "user", "parts": parts}]


def _marked_text(answer: Answer) -> str:
    """Return the text of an answer for OpenAI, where only the text can mark a failure."""
    return f"Error: {answer.text}" if answer.is_error else answer.text


# -- chat completions ------------------------------------------------------------------------


def _chat_messages(pairs: list[tuple[ModelCall, Answer]]) -> list[Any]:
    """Return a `tool` message for each call, and a `user` message with all media if there are
    any."""
    tool_messages: list[Any] = []
    user_content: list[Any] = []
    for call, answer in pairs:
        text = _marked_text(answer)
        if answer.media:
            text = text or "The result is in the message that follows."
            heading = f"The result of {call.name} ({call.id}):"
            user_content.append({"type": "text", "text": heading})
            user_content += map(_chat_part, answer.media)
        tool_messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    if not user_content:
        return tool_messages
    return [*tool_messages, {"role": "user", "content": user_content}]


def _chat_part(media: Media) -> dict[str, Any]:
    if media.kind == "audio":
        sound = {"data": media.data, "format": _SOUND_FORMATS[media.media_type]}
        return {"type": "input_audio", "input_audio": sound}
    return {"type": "image_url", "image_url": {"url": media.url}}


# -- Responses -------------------------------------------------------------------------------


def _responses_item(call: ModelCall, answer: Answer) -> dict[str, Any]:
    output: Any = _marked_text(answer)
    if answer.media:
        output = [_responses_part(part) for part in answer.parts if part != ""]
    return {"type": "function_call_output", "call_id": call.id, "output": output}


def _responses_part(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    if part.kind == "document":
        return {"type": "input_file", "filename": "document.pdf", "file_data": part.url}
    return {"type": "input_image", "image_url": part.url, "detail": "auto"}


# -- Anthropic -------------------------------------------------------------------------------


def _anthropic_block(call: ModelCall, answer: Answer) -> dict[str, Any]:
    content: Any = answer.text
    if answer.media:
        content = [_anthropic_part(part) for part in answer.parts if part != ""]
    return {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": content,
        "is_error": answer.is_error,
    }


def _anthropic_part(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    return {"type": part.kind, "source": source}


# -- Gemini ----------------------------------------------------------------------------------


def _gemini_parts(call: ModelCall, answer: Answer) -> list[Any]:
    """Return the part that answers a call, and a part for each medium, which every multimodal model
    takes there."""
    response: dict[str, Any] = {
        "name": call.name,
        "response": {"error" if answer.is_error else "output": answer.text},
    }
    if call.id:
        response["id"] = call.id
    media = [{"inlineData": {"mimeType": m.media_type, "data": m.data}} for m in answer.media]
    return [{"functionResponse": response}, *media]
