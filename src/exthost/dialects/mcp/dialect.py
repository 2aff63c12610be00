"""mcp: the Model Context Protocol over stdio, JSON-RPC 2.0, one object a line.

Two eras. Since 2026-07-28 there is no handshake: `server/discover`, and every request after it,
carries an envelope in `_meta` (revision, what we can do, who we are). Before, `initialize` and
`notifications/initialized` open the conversation. The first request fixes the era, so discovery
is tried first; whoever does not know it, is silent about it, or dies of it is asked the old way.

Beside it: the words on the wire (`codec`), which keep the era; what is asked of a server
(`calls`), whose answer may be a question (`input_required`) that the host's handlers answer;
the facets. A request's own id is its progress token.
"""

import logging
from types import MappingProxyType
from typing import Any

from exthost._version import __version__
from exthost.dialects.base import Dialect, Traits, method_unknown
from exthost.dialects.codec import Role
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.mcp.calls import (
    ASKING,
    ask_tool,
    asking,
    error_result,
    health,
    list_tools,
    listening,
    set_level,
    settle_tool,
    shown,
    subscribe,
    table,
    text,
    tools,
)
from exthost.dialects.mcp.codec import Codec, our_number
from exthost.dialects.mcp.facets import Completion, Logging, Prompts, Resources
from exthost.dialects.mcp.result import MCP_RESULT
from exthost.dialects.meanings import Log, Meaning, OfferStale, Progress, Unusable
from exthost.dialects.options import FLAG, TEXT
from exthost.dialects.steps import Handshake, MaybeMore, Received, TryRequest, initialized
from exthost.errors import CallFailed, HandshakeFailed, ProtocolViolation
from exthost.messages import Failure, Notification, Reply, Request
from exthost.offer import Offer, Tool
from exthost.shutdown_steps import CloseStdin, Terminate
from exthost.spec import Breaker, Limits, Restart
from exthost.wire.lines import Lines

HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_REVISION = "2026-07-28"

# How long a server may be silent about discovery before it is asked the old way.
DISCOVERY_SECONDS = 10.0

_METHOD_NOT_FOUND = -32601
_UNSUPPORTED_REVISION = -32022

_PREFIX = "io.modelcontextprotocol/"
_REVISION, _CLIENT = f"{_PREFIX}protocolVersion", f"{_PREFIX}clientInfo"
_CAPABILITIES, _LOG_LEVEL = f"{_PREFIX}clientCapabilities", f"{_PREFIX}logLevel"
_SERVER = f"{_PREFIX}serverInfo"


def _codec(role: Role) -> Codec:
    return Codec(role is Role.HOST)


# -- the handshake ---------------------------------------------------------------------------


def _handshake(context: HandshakeContext) -> Handshake:
    """Discovery; whatever it comes to but a stateless server, the handshake of old."""
    heard = yield TryRequest(_discover(context), DISCOVERY_SECONDS)
    told = _stateless(heard)
    if told is None:
        told = yield from _initialize(context, may_discover=True)
    return (yield from _offer(told))


def _fallback(context: HandshakeContext) -> Handshake:
    """With one that dies of an unknown first request: the handshake of old alone."""
    told = yield from _initialize(context, may_discover=False)
    return (yield from _offer(told))


def _discover(context: HandshakeContext) -> Request:
    meta: dict[str, Any] = {
        _REVISION: STATELESS_REVISION,
        _CLIENT: _client(context),
        _CAPABILITIES: _capabilities(context),
    }
    level = context.options.get("log_level")
    if level is not None:
        meta[_LOG_LEVEL] = level
    return Request("server/discover", {"_meta": meta})


def _client(context: HandshakeContext) -> dict[str, str]:
    return {"name": "exthost", "version": context.host_version or __version__}


def _capabilities(context: HandshakeContext) -> dict[str, Any]:
    """What the application can answer; nothing is promised that nobody handles."""
    offered = {
        "roots/list": ("roots", {"listChanged": True}),
        "sampling/createMessage": ("sampling", {}),
        "elicitation/create": ("elicitation", {"form": {}}),
    }
    return dict(what for method, what in offered.items() if method in context.handles)


def _stateless(heard: Received) -> dict[str, Any] | None:
    """What a stateless server told; None if it is to be asked the old way."""
    if isinstance(heard, Failure):
        supported = heard.data.get("supported") if isinstance(heard.data, dict) else None
        named = supported if type(supported) is list else []
        if (
            heard.code == _UNSUPPORTED_REVISION
            and named
            and not set(HANDSHAKE_REVISIONS) & {one for one in named if type(one) is str}
        ):
            raise _unknown_revision(named)
        return None
    told = heard.result if isinstance(heard, Reply) else None
    if type(told) is not dict or type(told.get("supportedVersions")) is not list:
        return None
    if STATELESS_REVISION not in told["supportedVersions"]:
        return None
    meta = told.get("_meta")
    about = meta.get(_SERVER) if type(meta) is dict else None
    return told | {"protocolVersion": STATELESS_REVISION, "serverInfo": about}


def _initialize(context: HandshakeContext, *, may_discover: bool) -> Any:
    asked = {
        "protocolVersion": HANDSHAKE_REVISIONS[-1],
        "capabilities": _capabilities(context),
        "clientInfo": _client(context),
    }
    heard = yield Request("initialize", asked)
    if isinstance(heard, Failure) and heard.code == _UNSUPPORTED_REVISION and may_discover:
        # Slow to start, it has found our first request in the pipe after all.
        told = _stateless((yield TryRequest(_discover(context), DISCOVERY_SECONDS)))
        if told is not None:
            return told
    told = initialized(heard)
    if type(told) is not dict or type(told.get("protocolVersion")) is not str:
        raise HandshakeFailed(
            "X0561",
            "its reply to `initialize` is not one of an MCP server: it names no protocolVersion",
            help="check the command; for another dialect use --dialect or `dialect = …`",
            evidence=shown(told),
        )
    if told["protocolVersion"] not in HANDSHAKE_REVISIONS:
        raise _unknown_revision([told["protocolVersion"]])
    yield Notification("notifications/initialized")
    level = context.options.get("log_level")
    if level is not None and "logging" in table(told.get("capabilities")):
        yield Request("logging/setLevel", {"level": level})
    return told


def _unknown_revision(named: list[Any]) -> HandshakeFailed:
    known = ", ".join((*HANDSHAKE_REVISIONS, STATELESS_REVISION))
    theirs = ", ".join(str(one)[:40] for one in named[:8])
    return HandshakeFailed(
        "X0560",
        f"it speaks MCP of {theirs}, which is not known here",
        help=f"known are {known}: update the server, or exthost",
        permanent=True,
    )


def _offer(told: dict[str, Any]) -> Handshake:
    """The offer of a server that told this; asks for its tools."""
    has, about = table(told.get("capabilities")), table(told.get("serverInfo"))
    revision = told["protocolVersion"]
    warnings: list[str] = []
    if type(told.get("capabilities")) is not dict:
        warnings.append(
            "it does not tell its capabilities, as an object, and is taken to have none"
        )
    listed: tuple[Tool, ...] = ()
    if "tools" in has:
        try:
            listed = yield from tools(warnings)
        except (CallFailed, ProtocolViolation) as error:
            raise HandshakeFailed(
                "X0562",
                f"it has tools and does not tell which: {error.message}",
                help=error.help,
                evidence=error.evidence,
            ) from None
    stateless = revision == STATELESS_REVISION
    wanted = {
        f"{kind}ListChanged": True
        for kind in ("tools", "prompts", "resources")
        if table(has.get(kind)).get("listChanged") is True
    }
    if stateless and wanted:
        yield listening(wanted)
    extra = {
        "protocol": revision,
        "era": "stateless" if stateless else "handshake",
        "server_capabilities": has,
    }
    if type(told.get("instructions")) is str:
        extra["instructions"] = told["instructions"]
    return Offer(
        tools=listed,
        version=text(about.get("version")),
        name=text(about.get("name")),
        warnings=tuple(warnings),
        extra=MappingProxyType(extra),
        capabilities=tuple(sorted(has)),
    )


# -- what it says of its own accord ----------------------------------------------------------

_LEVELS = MappingProxyType(
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


def _message(params: Any) -> Meaning:
    told = table(params)
    if "data" not in told:
        return Unusable("log messages that could not be read")
    data, level = told["data"], told.get("level")
    words = data if type(data) is str else shown(data).bytes
    by = f"{told['logger']}: " if type(told.get("logger")) is str else ""
    known = _LEVELS.get(level, logging.INFO) if type(level) is str else logging.INFO
    return Log(known, f"{by}{words}")


def _progress(params: Any) -> Meaning:
    told = table(params)
    progress, total = told.get("progress"), told.get("total")
    if type(progress) not in (int, float) or progress is None:
        return Unusable("progress that could not be read")
    known = total if type(total) in (int, float) else None
    token = our_number(told.get("progressToken"))
    return Progress(token, progress, known, text(told.get("message")))


def _refuse(request: Request) -> Reply | Failure:
    return Reply(request.id, {}) if request.method == "ping" else method_unknown(request)


def _withdraw(request: Request, why: str) -> Notification | None:
    if type(request.id) is not int:  # between two of its requests
        return None
    return Notification("notifications/cancelled", {"requestId": request.id, "reason": why})


DIALECT = Dialect(
    name="mcp",
    framing=Lines,
    codec=_codec,
    handshake=_handshake,
    fallback=_fallback,
    operations=MappingProxyType(
        {"call_tool": MaybeMore(ask_tool, settle_tool), "list_tools": list_tools, "health": health}
    ),
    methods=MappingProxyType(
        {
            **{method: asking(method) for method in sorted(ASKING)},
            "logging/setLevel": set_level,
            "resources/subscribe": subscribe,
        }
    ),
    notifications=MappingProxyType(
        {
            "notifications/message": _message,
            "notifications/progress": _progress,
            "notifications/tools/list_changed": lambda params: OfferStale(),
        }
    ),
    cancel_message=_withdraw,
    refuse=_refuse,
    facets=MappingProxyType(
        {
            "resources": Resources,
            "prompts": Prompts,
            "completion": Completion,
            "logging": Logging,
        }
    ),
    result_reader=MCP_RESULT,
    error_result=error_result,
    options=MappingProxyType(
        {
            "log_level": TEXT.described("The level of log messages that it is asked to send."),
            "context_passthrough": FLAG.described(
                "Whether a call's context is sent along in `_meta`."
            ),
        }
    ),
    traits=Traits(
        first_id=1,  # some servers take a question under 0 for one without an id
        limits=Limits(
            start=180,
            handshake=60,
            call=60,
            write=30,
            stop=5,
            max_message=64 * 2**20,
            max_in_flight=1024,
        ),
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
