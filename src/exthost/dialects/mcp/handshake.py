"""The handshake of MCP, in both eras of the protocol.

Since 2026-07-28 the protocol is stateless: `server/discover` and every later request have an
envelope in `_meta` (revision, capabilities and name of the client). Before, `initialize` and
`notifications/initialized` open the session. The first request decides the era of a server that has
both. `options.era` chooses one. By default the handshake comes first if the host has handlers for
requests of the server, which only that era has, and discovery otherwise. If the server refuses it,
is silent or exits, the other is tried.
"""

from types import MappingProxyType
from typing import Any

from exthost._version import __version__
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.mcp.calls import listening, shown, table, text, tools
from exthost.dialects.steps import Handshake, Received, TryRequest, handshake_result
from exthost.errors import NO_EVIDENCE, CallFailed, HandshakeFailed, ProtocolViolation
from exthost.messages import Failure, Notification, Reply, Request
from exthost.offer import Offer, Tool

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


def handshake(context: HandshakeContext) -> Handshake:
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


def fallback(context: HandshakeContext) -> Handshake:
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
        if named and not set(HANDSHAKE_REVISIONS) & {item for item in named if type(item) is str}:
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
    answer = handshake_result(response)
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
    evidence = shown(response.message) if isinstance(response, Failure) else NO_EVIDENCE
    return HandshakeFailed(
        "X0563",
        'it does not speak the stateless era of MCP, which options.era = "stateless" requires',
        help='set options.era to "auto" or "handshake"',
        evidence=evidence,
        permanent=True,
    )


def _unknown_revision(named: list[Any]) -> HandshakeFailed:
    known = ", ".join((*HANDSHAKE_REVISIONS, STATELESS_REVISION))
    offered = ", ".join(str(revision)[:40] for revision in named[:8])
    return HandshakeFailed(
        "X0560",
        f"it speaks MCP of {offered}, which is not known here",
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
