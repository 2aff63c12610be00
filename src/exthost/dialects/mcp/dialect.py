"""mcp: the Model Context Protocol over stdio, JSON-RPC 2.0, one object a line.

The protocol has two eras. Since 2026-07-28 it is stateless: there is no handshake, and
`server/discover` and every later request have an envelope in `_meta` (revision, capabilities and
name of the client). Before, `initialize` and `notifications/initialized` open the session. The
first request decides the era of a server that has both. `options.era` chooses one. By default the
handshake comes first if the host has handlers for requests of the server, which only that era has,
and discovery otherwise. If the server refuses it, is silent or exits, the other is tried.

`codec` encodes messages and remembers the era; `calls` has the operations, whose reply may request
input from the host (`input_required`); `facets` has the facets. The id of a request is its progress
token.
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
    read_tool_result,
    set_level,
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
from exthost.dialects.options import FLAG, TEXT, one_of
from exthost.dialects.steps import Handshake, MaybeMore, Received, TryRequest, initialized
from exthost.errors import NOTHING, CallFailed, HandshakeFailed, ProtocolViolation
from exthost.messages import Failure, Notification, Reply, Request
from exthost.offer import Offer, Tool
from exthost.shutdown_steps import CloseStdin, Terminate
from exthost.spec import Breaker, Limits, Restart
from exthost.wire.lines import Lines

HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_REVISION = "2026-07-28"

# Seconds for the reply to discovery. Then the older handshake is tried: a slow server finds both.
DISCOVERY_SECONDS = 2.0

# A handler under one of these names declares that the handler of the method serves that as well.
ELICITATION_URL = "elicitation/create:url"
SAMPLING_TOOLS = "sampling/createMessage:tools"

# The requests of a server, in the handshake era.
_SERVER_REQUESTS = frozenset({"roots/list", "sampling/createMessage", "elicitation/create"})

_UNSUPPORTED_REVISION = -32022

_PREFIX = "io.modelcontextprotocol/"
_REVISION, _CLIENT = f"{_PREFIX}protocolVersion", f"{_PREFIX}clientInfo"
_CAPABILITIES, _LOG_LEVEL = f"{_PREFIX}clientCapabilities", f"{_PREFIX}logLevel"
_SERVER = f"{_PREFIX}serverInfo"


def _codec(role: Role) -> Codec:
    return Codec(role is Role.HOST)


# -- the handshake ---------------------------------------------------------------------------


def _handshake(context: HandshakeContext) -> Handshake:
    """Open the session in the era that `options.era` chooses, or in one that the server has."""
    era = context.options.get("era", "auto")
    if era == "auto" and not context.handles.isdisjoint(_SERVER_REQUESTS):
        answer = yield from _initialize_or_discover(context)
    elif era == "handshake":
        answer = yield from _initialize(context, may_discover=False)
    else:
        response = yield from _discovery(context)
        answer = _stateless(response)
        if answer is None and era == "stateless":
            raise _not_stateless(response)
        if answer is None:
            answer = yield from _initialize(context, may_discover=True)
    return (yield from _offer(answer))


def _initialize_or_discover(context: HandshakeContext) -> Any:
    """Try the handshake, then discovery if the server replies with an error."""
    response = yield Request("initialize", _opening(context))
    if isinstance(response, Failure):
        answer = _stateless((yield from _discovery(context)))
        if answer is not None:
            return answer
    return (yield from _after_initialize(context, response))


def _discovery(context: HandshakeContext) -> Any:
    """Try discovery; once more if it is refused for a revision that the server has. Where there is
    no other era to try, the server has the whole time of a handshake."""
    attempt: Any = _discover(context)
    if context.options.get("era") != "stateless":
        attempt = TryRequest(attempt, DISCOVERY_SECONDS)
    response = yield attempt
    if STATELESS_REVISION in _supported(response):
        response = yield attempt
    return response


def _fallback(context: HandshakeContext) -> Handshake:
    """Use the older handshake alone, for a server that exits at an unknown first request."""
    answer = yield from _initialize(context, may_discover=False)
    return (yield from _offer(answer))


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
    """Return the client capabilities: only those for which the application has a handler."""
    handles = context.handles
    declared: dict[str, Any] = {}
    if "roots/list" in handles:
        declared["roots"] = {"listChanged": True}
    if "sampling/createMessage" in handles:
        declared["sampling"] = {"tools": {}} if SAMPLING_TOOLS in handles else {}
    if "elicitation/create" in handles:
        declared["elicitation"] = {"form": {}} | ({"url": {}} if ELICITATION_URL in handles else {})
    return declared


def _supported(response: Received) -> list[Any]:
    """Return the revisions that a server names when it refuses ours; else an empty list."""
    if not isinstance(response, Failure) or response.code != _UNSUPPORTED_REVISION:
        return []
    supported = response.data.get("supported") if isinstance(response.data, dict) else None
    return supported if type(supported) is list else []


def _stateless(response: Received) -> dict[str, Any] | None:
    """Return the reply of a stateless server to discovery, or None if the server needs the older
    handshake."""
    if isinstance(response, Failure):
        named = _supported(response)
        if named and not set(HANDSHAKE_REVISIONS) & {one for one in named if type(one) is str}:
            raise _unknown_revision(named)
        return None
    answer = response.result if isinstance(response, Reply) else None
    if type(answer) is not dict or type(answer.get("supportedVersions")) is not list:
        return None
    if STATELESS_REVISION not in answer["supportedVersions"]:
        return None
    meta = answer.get("_meta")
    about = meta.get(_SERVER) if type(meta) is dict else None
    return answer | {"protocolVersion": STATELESS_REVISION, "serverInfo": about}


def _opening(context: HandshakeContext) -> dict[str, Any]:
    return {
        "protocolVersion": HANDSHAKE_REVISIONS[-1],
        "capabilities": _capabilities(context),
        "clientInfo": _client(context),
    }


def _initialize(context: HandshakeContext, *, may_discover: bool) -> Any:
    response = yield Request("initialize", _opening(context))
    if isinstance(response, Failure) and response.code == _UNSUPPORTED_REVISION and may_discover:
        # A slow server: it has now read the discovery request that seemed to be lost.
        answer = _stateless((yield TryRequest(_discover(context), DISCOVERY_SECONDS)))
        if answer is not None:
            return answer
    return (yield from _after_initialize(context, response))


def _after_initialize(context: HandshakeContext, response: Received) -> Any:
    answer = initialized(response)
    if type(answer) is not dict or type(answer.get("protocolVersion")) is not str:
        raise HandshakeFailed(
            "X0561",
            "its reply to `initialize` is not one of an MCP server: it names no protocolVersion",
            help="check the command; for another dialect use --dialect or `dialect = …`",
            evidence=shown(answer),
        )
    if answer["protocolVersion"] not in HANDSHAKE_REVISIONS:
        raise _unknown_revision([answer["protocolVersion"]])
    yield Notification("notifications/initialized")
    level = context.options.get("log_level")
    if level is not None and "logging" in table(answer.get("capabilities")):
        yield Request("logging/setLevel", {"level": level})
    return answer


def _not_stateless(response: Received) -> HandshakeFailed:
    evidence = shown(response.message) if isinstance(response, Failure) else NOTHING
    return HandshakeFailed(
        "X0563",
        'it does not speak the stateless era of MCP, which options.era = "stateless" requires',
        help='set options.era to "auto" or "handshake"',
        evidence=evidence,
        permanent=True,
    )


def _unknown_revision(named: list[Any]) -> HandshakeFailed:
    known = ", ".join((*HANDSHAKE_REVISIONS, STATELESS_REVISION))
    theirs = ", ".join(str(one)[:40] for one in named[:8])
    return HandshakeFailed(
        "X0560",
        f"it speaks MCP of {theirs}, which is not known here",
        help=f"known are {known}: update the server, or exthost",
        permanent=True,
    )


def _offer(answer: dict[str, Any]) -> Handshake:
    """Request the tools, and return the offer of a server with this reply to the handshake."""
    has, about = table(answer.get("capabilities")), table(answer.get("serverInfo"))
    revision = answer["protocolVersion"]
    warnings: list[str] = []
    if type(answer.get("capabilities")) is not dict:
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
    if type(answer.get("instructions")) is str:
        extra["instructions"] = answer["instructions"]
    return Offer(
        tools=listed,
        version=text(about.get("version")),
        name=text(about.get("name")),
        warnings=tuple(warnings),
        extra=MappingProxyType(extra),
        capabilities=tuple(sorted(has)),
    )


# -- notifications ---------------------------------------------------------------------------

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
    fields = table(params)
    if "data" not in fields:
        return Unusable("log messages that could not be read")
    data, level = fields["data"], fields.get("level")
    words = data if type(data) is str else shown(data).bytes
    by = f"{fields['logger']}: " if type(fields.get("logger")) is str else ""
    known = _LEVELS.get(level, logging.INFO) if type(level) is str else logging.INFO
    return Log(known, f"{by}{words}")


def _progress(params: Any) -> Meaning:
    fields = table(params)
    progress, total = fields.get("progress"), fields.get("total")
    if type(progress) not in (int, float) or progress is None:
        return Unusable("progress that could not be read")
    known = total if type(total) in (int, float) else None
    token = our_number(fields.get("progressToken"))
    return Progress(token, progress, known, text(fields.get("message")))


def _refuse(request: Request) -> Reply | Failure:
    return Reply(request.id, {}) if request.method == "ping" else method_unknown(request)


def _cancel_message(request: Request, why: str) -> Notification | None:
    if type(request.id) is not int:  # not sent yet
        return None
    return Notification("notifications/cancelled", {"requestId": request.id, "reason": why})


DIALECT = Dialect(
    name="mcp",
    framing=Lines,
    codec=_codec,
    handshake=_handshake,
    fallback=_fallback,
    operations=MappingProxyType(
        {
            "call_tool": MaybeMore(ask_tool, read_tool_result),
            "list_tools": list_tools,
            "health": health,
        }
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
    cancel_message=_cancel_message,
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
            "era": one_of("auto", "stateless", "handshake").described(
                "The era of the protocol that is used, where the server has both."
            ),
        }
    ),
    traits=Traits(
        first_id=1,  # some servers read the id 0 as no id
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
