"""Keeps the texts that extensions inject into a session at its start.

A session is a conversation of a user with a model. Its start calls the hook `on_session_start` of
the extensions, which may return a text for the model, such as the rules of a project. A program
adds such a text to its system prompt, which must stay the same, byte by byte, as long as the
session lasts. So the text of the first `on_session_start` of a session is kept until its
`on_session_end`, and a later start of the same session changes nothing.

The texts of all extensions together are limited (`INJECTED_BYTES`).
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from exthost.model.empty_mapping import EMPTY_MAPPING

_log = logging.getLogger("exthost.hooks")

# Around every text of extensions, so that a model does not take it for the words of its user.
FIRST_LINE = "[context from extensions, which the user has not written]"
LAST_LINE = "[end of the context from extensions]"

# A program that never ends a session must not fill the memory; the oldest are forgotten.
MAX_SESSIONS = 1024

# How many bytes extensions may inject together at one event. A model reads all of it.
INJECTED_BYTES = 64 * 1024

# Ends a text that was cut to this limit.
_CUT_OFF = " … [cut off]"


def add_text(texts: str, text: str, extension: str) -> str:
    """Return the texts to inject with one more, of this extension. What exceeds INJECTED_BYTES is
    cut off, with a warning in the log."""
    joined = f"{texts}\n\n{text}" if texts else text
    data = joined.encode("utf-8", "replace")
    if len(data) <= INJECTED_BYTES:
        return joined
    _log.warning("[%s] its text to inject is cut: the limit is %d bytes", extension, INJECTED_BYTES)
    return data[: INJECTED_BYTES - len(_CUT_OFF.encode())].decode("utf-8", "ignore") + _CUT_OFF


def guarded_text(text: str) -> str:
    """Return a text, enclosed in the two lines that mark it; "" for no text."""
    for line in (FIRST_LINE, LAST_LINE):  # the text must not seem to end before its end
        text = text.replace(line, f"({line[1:-1]})")
    return f"{FIRST_LINE}\n{text}\n{LAST_LINE}" if text else ""


class SessionTexts:
    """The texts of the sessions of one host, by session id."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()

    def __getitem__(self, session_id: str) -> str:
        """Return what the program adds to the system prompt of this session; "" for nothing."""
        return guarded_text(self._texts.get(session_id, ""))

    def update(self, hook: str, event: Mapping[str, Any], text: str) -> str:
        """Return the text to inject after a hook was called, which is `text` for most hooks. If the
        hook begins a session, return the text of the session's first start, and keep it. If the
        hook ends the session, forget the text of the session."""
        if hook not in ("on_session_start", "on_session_end"):
            return text
        context = event.get("context") or EMPTY_MAPPING
        session_id = event.get("session_id") or context.get("session_id")
        if not isinstance(session_id, str) or not session_id:
            return text
        if hook == "on_session_end":
            self._texts.pop(session_id, None)
            return text
        kept = self._texts.setdefault(session_id, text)
        while len(self._texts) > MAX_SESSIONS:
            self._texts.popitem(last=False)
        return kept
