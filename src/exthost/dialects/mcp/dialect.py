"""The dialect mcp: the Model Context Protocol over stdio, as JSON-RPC 2.0 with one object per line.

The protocol has two eras (since 2026-07-28 it is stateless, before that it had a handshake).
`handshake` opens the session in one of them, and `codec` encodes messages for it. `calls` has the
operations, whose replies may request input from the host (`input_required`). `facets` has the
attributes that only extensions of this dialect have. This module reads notifications and builds
the `Dialect`. The id of a request is also its progress token.
"""

import logging
from types import MappingProxyType
from typing import Any

from exthost.dialects.base import Dialect, Traits, method_unknown
from exthost.dialects.codec import Role
from exthost.dialects.mcp import calls
from exthost.dialects.mcp.codec import McpCodec, normalize_id
from exthost.dialects.mcp.facets import ArgumentCompletion, Logging, Prompts, Resources
from exthost.dialects.mcp.handshake import fallback, handshake
from exthost.dialects.mcp.result import MCP_RESULT
from exthost.dialects.meanings import (
    Log,
    Meaning,
    OfferStale,
    Progress,
    RequestCancelled,
    Unusable,
)
from exthost.dialects.options import FLAG, TABLES, TEXT, one_of
from exthost.dialects.steps import OneRequestOrMore
from exthost.model.messages import Failure, Notification, Reply, Request
from exthost.model.shutdown_steps import CloseStdin, Terminate
from exthost.model.spec import Breaker, Limits, Restart
from exthost.wire.lines import Lines


def _make_codec(role: Role) -> McpCodec:
    return McpCodec(role is Role.HOST)


# -- notifications ---------------------------------------------------------------------------

# The levels of syslog, which the protocol uses, as those of Python.
LEVELS = MappingProxyType(
    {
        "debug": logging.DEBUG,
        "info": logging.INFO,
        "notice": logging.INFO,
        "warning": logging.WARNING,
        "error": logging.ERROR,
        "critical": logging.CRITICAL,
        "alert": logging.CRITICAL,
        "emergency": logging.CRITICAL,
    }
)


def _read_log_message(params: Any) -> Meaning:
    fields = calls.object_or_empty(params)
    if "data" not in fields:
        return Unusable("log messages that could not be read")
    data, level = fields["data"], fields.get("level")
    message = data if type(data) is str else calls.make_evidence(data).bytes
    logger = f"{fields['logger']}: " if type(fields.get("logger")) is str else ""
    number = LEVELS.get(level, logging.INFO) if type(level) is str else logging.INFO
    return Log(number, f"{logger}{message}")


def _read_progress(params: Any) -> Meaning:
    fields = calls.object_or_empty(params)
    progress, total = fields.get("progress"), fields.get("total")
    if type(progress) not in (int, float) or progress is None:
        return Unusable("progress that could not be read")
    checked_total = total if type(total) in (int, float) else None
    token = normalize_id(fields.get("progressToken"))
    return Progress(token, progress, checked_total, calls.text_or_empty(fields.get("message")))


def _read_cancellation(params: Any) -> Meaning:
    id = calls.object_or_empty(params).get("requestId")
    return None if id is None else RequestCancelled(id)


def _refuse(request: Request) -> Reply | Failure:
    return Reply(request.id, {}) if request.method == "ping" else method_unknown(request)


def _cancel_message(request: Request, reason: str) -> Notification | None:
    # Without a number, the request was not sent: its call waits for an answer of the host, and the
    # server has no open request that could be cancelled.
    if type(request.id) is not int:
        return None
    return Notification("notifications/cancelled", {"requestId": request.id, "reason": reason})


DIALECT = Dialect(
    name="mcp",
    framing=Lines,
    codec=_make_codec,
    handshake=handshake,
    fallback=fallback,
    operations={
        "call_tool": OneRequestOrMore(calls.make_tool_request, calls.read_tool_result),
        "list_tools": calls.list_tools,
        "health": calls.check_health,
    },
    methods={
        **{method: calls.make_input_operation(method) for method in sorted(calls.INPUT_METHODS)},
        "logging/setLevel": calls.set_level,
        "resources/subscribe": calls.subscribe,
    },
    methods_without_tools=frozenset(
        {
            *("prompts/get", "prompts/list", "resources/list", "resources/read"),
            *("resources/subscribe", "resources/templates/list", "resources/unsubscribe"),
            *("completion/complete", "logging/setLevel"),
        }
    ),
    notifications={
        "notifications/message": _read_log_message,
        "notifications/progress": _read_progress,
        "notifications/tools/list_changed": lambda params: OfferStale(),
        "notifications/cancelled": _read_cancellation,
    },
    cancel_message=_cancel_message,
    refuse=_refuse,
    facets={
        "resources": Resources,
        "prompts": Prompts,
        "completion": ArgumentCompletion,
        "logging": Logging,
    },
    result_reader=MCP_RESULT,
    error_result=calls.error_result,
    options={
        "log_level": TEXT.described("The level of log messages that it sends."),
        "context_passthrough": FLAG.described("Whether a call's context is sent along in `_meta`."),
        "extensions": TABLES.described(
            "Extensions of the protocol that your program supports, by their names, each with "
            "its settings; they are declared to the server."
        ),
        "era": one_of("auto", "stateless", "handshake").described(
            "The era of the protocol that is used, where the server has both."
        ),
    },
    traits=Traits(
        first_id=1,  # some servers treat the id 0 as a missing id
        limits=Limits(start=180, handshake=60, call=60, max_message=64 * 2**20),
        progress_multiplier=10,
        environment="minimal",
        variables=("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG"),
        restart=Restart(
            strategy="exponential", initial_delay=1, max_delay=16, max_retries=5, window=300
        ),
        breaker=Breaker(failures=5, open=10, max_open=120, successes=2, count_error_replies=False),
        shutdown_steps=(CloseStdin(wait=2), Terminate(wait=2)),
    ),
)
