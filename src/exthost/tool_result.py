"""The result of a tool call, in one shape for every dialect.

    result = await host.call_tool("ext_weather_forecast", {"city": "Oslo"})
    result.text, result.data, result.is_error

A dialect is the protocol of an extension. A `ToolResult` keeps the dialect's own result and the
dialect's `ResultReader`. It extracts text, data and content blocks lazily, because each call makes
a result and most callers use only one of the three. Whether the tool failed is determined once.

A tool fails in two ways: its extension sends an error reply, or its result is marked as an error.
In both cases the caller gets a `CallFailed`, or with `check=False` a `ToolResult` whose `is_error`
is true. A call without a reply (no process, or a timeout) always raises an error.

Does no I/O and knows no dialect.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

from exthost.errors import NO_EVIDENCE, CallFailed, Evidence, ExthostError

__all__ = [
    "AudioBlock",
    "Block",
    "ImageBlock",
    "ResourceBlock",
    "ResultReader",
    "TextBlock",
    "ToolResult",
    "UnknownBlock",
    "block_text",
    "tool_error",
]

# How much of a result's text an error message and a repr show; `error_message` has all of it.
_MESSAGE_CHARACTERS = 500
_REPR_CHARACTERS = 80


# -- content blocks --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text."""

    text: str
    type: ClassVar[str] = "text"


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image. `data` is base64, as the extension sent it."""

    data: str
    mime_type: str = ""
    type: ClassVar[str] = "image"


@dataclass(frozen=True, slots=True)
class AudioBlock:
    """A sound. `data` is base64, as the extension sent it."""

    data: str
    mime_type: str = ""
    type: ClassVar[str] = "audio"


@dataclass(frozen=True, slots=True)
class ResourceBlock:
    """A resource: its text, or its bytes as base64 in `data`, or neither if it is only a link."""

    uri: str
    mime_type: str = ""
    text: str | None = None
    data: str | None = None
    name: str = ""
    type: ClassVar[str] = "resource"


@dataclass(frozen=True, slots=True)
class UnknownBlock:
    """A block of an unknown type. `raw` is the block as the extension sent it."""

    raw: Any
    type: ClassVar[str] = "unknown"


Block: TypeAlias = TextBlock | ImageBlock | AudioBlock | ResourceBlock | UnknownBlock


def block_text(block: Block) -> str:
    """Return the text of a block. For a block without text, it is a short note in brackets."""
    match block:
        case TextBlock(text):
            return text
        case ResourceBlock(text=str(text)):
            return text
        case ResourceBlock(uri=uri):
            return f"[resource: {uri}]"
        case ImageBlock(mime_type=mime_type) | AudioBlock(mime_type=mime_type):
            return f"[{block.type}: {mime_type}]" if mime_type else f"[{block.type}]"
        case UnknownBlock(raw):
            type_name = raw.get("type") if type(raw) is dict else None
            return f"[{type_name}]" if type_name and type(type_name) is str else "[unknown content]"


# -- the result ------------------------------------------------------------------------------


class ResultReader(NamedTuple):
    """The functions by which a dialect reads its tool results.

    `is_error` is None in a dialect whose results are never errors. If this reader shortens texts
    (`limits.result`), `whole` is the reader that does not. Each function accepts any value, because
    a hook may replace a result with anything. The functions must be defined at the top level of a
    module, so that results can be pickled.
    """

    is_error: Callable[[Any], bool] | None
    text: Callable[[Any], str]
    data: Callable[[Any], Any]
    content: Callable[[Any], tuple[Block, ...]]
    whole: "ResultReader | None" = None


class ToolResult:
    """The result of a tool. Read-only; `str(result)` is its text."""

    __slots__ = ("_is_error", "_raw", "_reader")

    def __init__(self, raw: Any, reader: ResultReader) -> None:
        self._raw = raw
        self._reader = reader
        self._is_error: bool | None = None  # None until it is first needed

    @classmethod
    def from_error_reply(cls, error: CallFailed) -> "ToolResult":
        """Return a failed result for an error reply. `raw` has its code, message and data."""
        raw = {
            "code": error.error_code,
            "message": error.error_message if error.error_message.strip() else error.message,
            "data": error.data,
        }
        return _AnnotatedResult(raw, _ERROR_REPLY, error, ())

    def with_raw(self, raw: Any) -> "ToolResult":
        """Return a result with this value in place of `raw`, read as this one is read."""
        return _AnnotatedResult(raw, self._reader, None, self.warnings)

    def with_text(self, text: str) -> "ToolResult":
        """Return a result with only this text, which failed if this one failed."""
        reader = _FAILED_TEXT if self.is_error else _TEXT
        return _AnnotatedResult(text, reader, None, self.warnings)

    @classmethod
    def of_text(cls, text: str, *, is_error: bool) -> "ToolResult":
        """Return a result that is only a text, as `with_text` does."""
        return ToolResult(text, _FAILED_TEXT if is_error else _TEXT)

    @property
    def is_replaced(self) -> bool:
        """Whether a hook replaced the result by a text (`with_text`)."""
        return self._reader is _TEXT or self._reader is _FAILED_TEXT

    def with_warnings(self, warnings: tuple[str, ...]) -> "ToolResult":
        """Return the same result with these warnings added."""
        all_warnings = self.warnings + warnings
        return _AnnotatedResult(self._raw, self._reader, self.error_reply, all_warnings)

    @property
    def raw(self) -> Any:
        """The result as the extension sent it, or as a hook replaced it."""
        return self._raw

    @property
    def whole(self) -> "ToolResult":
        """The same result without the limit of its text (`limits.result`)."""
        reader = self._reader.whole
        if reader is None:
            return self
        return _AnnotatedResult(self._raw, reader, self.error_reply, self.warnings)

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""
        if self._is_error is None:
            is_error = self._reader.is_error
            self._is_error = is_error is not None and is_error(self._raw)
        return self._is_error

    @property
    def text(self) -> str:
        """The text for a model or a person. A value that is not text is compact JSON.

        Raises ProtocolViolation for a value that is nested too deeply to be written as JSON.
        """
        return self._reader.text(self._raw)

    @property
    def data(self) -> Any:
        """The structured value; None if the tool returned only text or media."""
        return self._reader.data(self._raw)

    @property
    def content(self) -> tuple[Block, ...]:
        """The content blocks: text, images, audio and resources, in the order they were sent."""
        return self._reader.content(self._raw)

    @property
    def error_reply(self) -> CallFailed | None:
        """The error reply of the extension, if it sent one instead of a result."""
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the host about the call, such as a hook that failed and was ignored."""
        return ()

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        try:
            text = repr(_shorten(self.text, _REPR_CHARACTERS))
        except ExthostError:  # nested too deeply
            text = "…"
        return f"ToolResult({text}{', is_error=True' if self.is_error else ''})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolResult):
            return NotImplemented
        return self._reader == other._reader and bool(self._raw == other._raw)

    __hash__ = None  # type: ignore[assignment]  # `raw` may be a dict or a list, which have no hash


class _AnnotatedResult(ToolResult):
    """A result with an error reply or with warnings, which most results do not have."""

    __slots__ = ("_error_reply", "_warnings")

    def __init__(
        self,
        raw: Any,
        reader: ResultReader,
        error_reply: CallFailed | None,
        warnings: tuple[str, ...],
    ) -> None:
        super().__init__(raw, reader)
        self._error_reply = error_reply
        self._warnings = warnings

    @property
    def error_reply(self) -> CallFailed | None:
        return self._error_reply

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._warnings


class ErrorResult(CallFailed):
    """The error for a result that is marked as an error; `data` is the result."""


def tool_error(
    result: ToolResult,
    tool: str,
    *,
    extension: str = "",
    evidence: Evidence = NO_EVIDENCE,
    help: str = "",
) -> CallFailed:
    """Return the error for a result of this tool that is marked as an error. `help` is what to do
    next; "" for general advice."""
    if result.error_reply is not None:
        return result.error_reply
    text = result.text
    reason = _shorten(text, _MESSAGE_CHARACTERS) if text.strip() else "it gives no reason"
    return ErrorResult(
        "X0702",
        f"{tool} failed: {reason}",
        error_message=text,
        data=result.raw,
        extension=extension,
        help=help
        or "the tool reports this itself: check the arguments, or the log of the extension; in "
        "Python, `data` of the error has the whole result, and check=False returns it",
        evidence=evidence,
    )


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


# -- error replies ---------------------------------------------------------------------------


def _reply_is_error(raw: Any) -> bool:
    return True


def _reply_text(raw: Any) -> str:
    text: str = raw["message"]
    return text


def _reply_data(raw: Any) -> Any:
    return raw["data"]


def _reply_content(raw: Any) -> tuple[Block, ...]:
    return (TextBlock(raw["message"]),)


_ERROR_REPLY = ResultReader(_reply_is_error, _reply_text, _reply_data, _reply_content)


# -- texts -----------------------------------------------------------------------------------


def _text(raw: Any) -> str:
    return str(raw)


def _no_data(raw: Any) -> Any:
    return None


def _text_content(raw: Any) -> tuple[Block, ...]:
    return (TextBlock(str(raw)),)


_TEXT = ResultReader(None, _text, _no_data, _text_content)
_FAILED_TEXT = ResultReader(_reply_is_error, _text, _no_data, _text_content)
