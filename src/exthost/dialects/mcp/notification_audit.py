"""Checks the notifications of an MCP server for `exthost check`, more strictly than the host does.

The host drops a notification that it cannot read, and ignores invalid fields that it does not need.
Official clients validate each notification, and report one that breaks the protocol only in their
own log. So the author of the server learns of a mistake only from `exthost check`:

    {"method": "notifications/progress", "params": {"progressToken": 7, "progress": "half"}}
    in notifications/progress: progress is 'half' and must be a number
"""

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from exthost.dialects.conformance import Problem
from exthost.dialects.mcp.dialect import LEVELS
from exthost.model.messages import Id

_SHOWN_CHARACTERS = 40

_PREFIX = "notifications/"

_METHODS = tuple(
    f"{_PREFIX}{name}"
    for name in (
        "progress",
        "message",
        "cancelled",
        "tools/list_changed",
        "prompts/list_changed",
        "resources/list_changed",
        "resources/updated",
        "elicitation/complete",
    )
)

_TOKEN_FIX = "copy `_meta.progressToken` of the request; without one, send no progress"
_PROGRESS_FIX = (
    '{"progressToken": …, "progress": 1, "total": 3, "message": "…"}; the last two are optional'
)
_MESSAGE_FIX = '{"level": "info", "logger": "…", "data": …}; logger is optional, data is any value'
_PARAMS_FIX = "make `params` an object, or omit it"


def audit_notification(
    message: Mapping[str, Any], request_ids: Collection[Id]
) -> Iterator[Problem]:
    """Yield the problems of a notification. `request_ids` are the ids of all requests that were
    sent so far. Each id is also the progress token of its request."""
    method = message["method"]
    for reason, fix in _audit(method, message, request_ids):
        yield Problem("notification-form", f"in {method}: {reason}", fix=fix)
    if (intended := _find_intended(method)) is not None:
        reason = f"{method} is not a notification of MCP, and is ignored"
        yield Problem("notification-form", reason, fix=f"the notification is called {intended}")


def _audit(
    method: str, message: Mapping[str, Any], request_ids: Collection[Id]
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a notification, and how to fix it."""
    params = message.get("params", {})
    if not isinstance(params, dict):
        yield f"params {_describe(message, 'params')} and must be an object", _PARAMS_FIX
    elif method == "notifications/progress":
        yield from _audit_progress(params, request_ids)
    elif method == "notifications/message":
        yield from _audit_log_message(params)
    elif method == "notifications/cancelled" and not _is_id(params.get("requestId")):
        state = _describe(params, "requestId")
        yield f"requestId {state} and must be an id", "set requestId to the id of the request"
    elif method == "notifications/resources/updated" and not isinstance(params.get("uri"), str):
        yield (
            f"uri {_describe(params, 'uri')} and must be text",
            "set uri to the URI of the resource",
        )


def _audit_progress(
    params: dict[str, Any], request_ids: Collection[Id]
) -> Iterator[tuple[str, str]]:
    token = params.get("progressToken")
    if not _is_id(token):
        state = _describe(params, "progressToken")
        yield f"progressToken {state} and must be text or a whole number", _TOKEN_FIX
    elif token not in request_ids:
        yield f"progressToken is {_shorten(token)}, which no request had", _TOKEN_FIX
    if not _is_number(params.get("progress")):
        yield f"progress {_describe(params, 'progress')} and must be a number", _PROGRESS_FIX
    if "total" in params and not _is_number(params["total"]):
        yield f"total {_describe(params, 'total')} and must be a number", _PROGRESS_FIX
    if not isinstance(params.get("message", ""), str):
        yield f"message {_describe(params, 'message')} and must be text", _PROGRESS_FIX


def _audit_log_message(params: dict[str, Any]) -> Iterator[tuple[str, str]]:
    level = params.get("level")
    if not isinstance(level, str) or level not in LEVELS:
        fix = f"the levels are {', '.join(LEVELS)}"
        yield f"level {_describe(params, 'level')} and must be a level of MCP", fix
    if "data" not in params:
        yield "data, the text or the value to log, is missing", _MESSAGE_FIX
    if not isinstance(params.get("logger", ""), str):
        yield f"logger {_describe(params, 'logger')} and must be text", _MESSAGE_FIX


def _find_intended(method: str) -> str | None:
    """Return the notification that an unknown method is a misspelling of, or None. A server may
    have notifications of its own, which are not mistakes."""
    if method in _METHODS:
        return None
    if f"{_PREFIX}{method}" in _METHODS:
        return f"{_PREFIX}{method}"
    # The cutoff is high because the common prefix makes all names similar.
    return next(iter(difflib.get_close_matches(method, _METHODS, 1, cutoff=0.9)), None)


def _is_id(value: Any) -> bool:
    return type(value) in (int, str)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _describe(fields: Mapping[str, Any], name: str) -> str:
    return f"is {_shorten(fields[name])}" if name in fields else "is missing"


def _shorten(value: Any) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
