"""Shortens results of tools that are too long for a model, and keeps the whole results for a while.

The limit is `limits.result` of the config. A client of the gateway gets the beginning and the end
of the text. The whole result can be read as the resource `exthost://results/ID` for ten minutes.
The id cannot be guessed, so only the client that got it can read the result. The store is bounded:
the oldest results make room for new ones.
"""

import secrets
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from exthost.model.result_limit import (
    MAX_MEDIA_CHARS,
    is_too_large,
    limit_texts,
    media_note,
    structured_note,
)
from exthost.wire import jsontext

PREFIX: Final = "exthost://results/"

# The limit of a gateway whose clients search for tools, if none is set.
SEARCH_MODE_BYTES: Final = 100_000

_KEPT_SECONDS: Final = 600.0
_MAX_RESULTS: Final = 1000
# All results together, in characters. A larger result is not kept.
_MAX_CHARS: Final = 64_000_000

_TOO_LARGE_TO_KEEP: Final = "the whole is too large to be kept: ask for less"


class _WholeResult(NamedTuple):
    text: str
    media_type: str
    expires_at: float


class WholeResults:
    """The results of one gateway that can still be read. `now` is a monotonic clock."""

    def __init__(self, now: Any = time.monotonic) -> None:
        self._now = now
        self._results: dict[str, _WholeResult] = {}
        self._chars = 0

    def limit(self, result: dict[str, Any], limit: int | None) -> dict[str, Any]:
        """Return an MCP result with at most `limit` bytes of text (None: any), and keep the whole
        if something is left out."""
        if limit is None or not isinstance(result.get("content"), list):
            return result
        uri = f"{PREFIX}{secrets.token_urlsafe(24)}"
        where = f"the resource {uri} has all of it for {_KEPT_SECONDS / 60:g} minutes"
        limited = limit_result(result, limit, where)
        if limited is result:
            return result
        if not self._keep(uri, result):
            return limit_result(result, limit, _TOO_LARGE_TO_KEEP)
        return limited

    def read(self, uri: str) -> dict[str, Any] | None:
        """Return the result of `resources/read`; None if there is no such result any more."""
        self._forget_old()
        kept = self._results.get(uri)
        if kept is None:
            return None
        return {"contents": [{"uri": uri, "mimeType": kept.media_type, "text": kept.text}]}

    def _keep(self, uri: str, result: dict[str, Any]) -> bool:
        """Keep a whole result under this URI. Return False if it is too large."""
        blocks = result["content"]
        if "structuredContent" not in result and all(map(_is_text, blocks)):
            text, media_type = "\n".join(block["text"] for block in blocks), "text/plain"
        else:
            text, media_type = jsontext.encode(result).decode(), "application/json"
        if len(text) > _MAX_CHARS:
            return False
        self._results[uri] = _WholeResult(text, media_type, self._now() + _KEPT_SECONDS)
        self._chars += len(text)
        self._forget_old()
        return True

    def _forget_old(self) -> None:
        # The oldest is the first, because every result is kept for the same time.
        while self._results:
            uri, oldest = next(iter(self._results.items()))
            is_full = self._chars > _MAX_CHARS or len(self._results) > _MAX_RESULTS
            if not is_full and oldest.expires_at > self._now():
                return
            del self._results[uri]
            self._chars -= len(oldest.text)


def limit_result(result: dict[str, Any], limit: int, where: str) -> dict[str, Any]:
    """Return an MCP result whose text has at most `limit` bytes; the same object if nothing is left
    out. `where` is a sentence about where the whole result is."""
    blocks = [_without_large_media(block, where) for block in result["content"]]
    is_changed = any(new is not old for new, old in zip(blocks, result["content"], strict=True))
    texts = limit_texts(list(map(_block_text, blocks)), limit, where)
    if texts is not None:
        is_changed = True
        blocks = [
            {**block, "text": text} if _is_text(block) else _as_text(block, text)
            for block, text in zip(blocks, texts, strict=True)
            if text or not _block_text(block)  # a block whose text is left out entirely is dropped
        ]
    limited = {**result, "content": blocks}
    if is_too_large(result.get("structuredContent"), limit):
        is_changed = True
        del limited["structuredContent"]
        blocks.append({"type": "text", "text": structured_note(where)})
    return limited if is_changed else result


def _is_text(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text"


def _block_text(block: Any) -> str:
    """Return the text of a text block or of an embedded resource; "" for any other block."""
    if not isinstance(block, Mapping):
        return ""
    source = block.get("resource") if block.get("type") == "resource" else block
    text = source.get("text") if isinstance(source, Mapping) else None
    return text if isinstance(text, str) else ""


def _as_text(block: Any, text: str) -> Any:
    """Return an embedded resource with this text as a text block, and other blocks as they are."""
    return {"type": "text", "text": text} if _block_text(block) else block


def _without_large_media(block: Any, where: str) -> Any:
    """Return a block with too much base64 data (an image, audio or blob) as a text block that says
    so, and other blocks as they are."""
    if not isinstance(block, Mapping):
        return block
    resource = block.get("resource")
    source = resource if isinstance(resource, Mapping) else block
    data = source.get("blob") if source is resource else source.get("data")
    if not isinstance(data, str) or len(data) <= MAX_MEDIA_CHARS:
        return block
    note = media_note(str(block.get("type")), str(source.get("mimeType", "")), len(data), where)
    return {"type": "text", "text": note}
