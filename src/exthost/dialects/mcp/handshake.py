"""The handshake of MCP, in both eras of the protocol.

Since 2026-07-28 the protocol is stateless: `server/discover` and every later request have an
envelope in `_meta` (revision, capabilities and name of the client). In the older era, the handshake
era, `initialize` and `notifications/initialized` open the session. A server that supports both eras
uses the one of the first request.

`options.era` chooses an era. By default, `initialize` is sent first in two cases: if the host has
handlers for requests of the server, because only the handshake era has such requests; and if the
last process of the server was opened with `initialize`. In all other cases `server/discover` is
sent first. If the server refuses `server/discover`, does not reply in time or exits, `initialize`
is tried. If the server refuses `initialize`, or names the stateless revision in its reply,
`server/discover` is tried, unless the server has refused it already.

The functions that send are generators: they yield a message and are resumed with its reply
(`dialects.steps`).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from exthost._version import __version__
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.mcp import calls
from exthost.dialects.mcp.tasks import TASKS
from exthost.dialects.steps import Handshake, Received, TryRequest, handshake_result
from exthost.errors import NO_EVIDENCE, CallFailed, HandshakeFailed, ProtocolViolation
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.messages import Failure, Notification, Reply, Request
from exthost.model.offer import Offer, OfferWarnings, Tool
from exthost.model.shortened_text import shorten_to
from exthost.wire import jsontext

HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_REVISION = "2026-07-28"

# The warning about a server whose reply to the handshake has no capabilities.
NO_CAPABILITIES = "it does not report its capabilities as an object, so it counts as having none"

# The timeout of the reply to discovery, in seconds. After it, the older handshake is tried. A slow
# server may therefore read both requests.
DISCOVERY_SECONDS = 2.0
# The same for a remote server. Its process has to start and connect first, and nearly all remote
# servers reply.
REMOTE_DISCOVERY_SECONDS = 15.0

# A handler under one of these names only declares that the handler of the method before the colon
# supports URLs or tools as well.
ELICITATION_URL = "elicitation/create:url"
SAMPLING_TOOLS = "sampling/createMessage:tools"

# The handlers of a host whose clients can do everything that a server may ask for.
CLIENT_METHODS = (
    "sampling/createMessage", "elicitation/create", "roots/list", ELICITATION_URL, SAMPLING_TOOLS,
)  # fmt: skip

# A handler under this name, followed by the name of an extension of the protocol, a space and its
# settings as JSON, only declares that the extension is supported.
EXTENSION_PREFIX = "extensions:"

# The requests that a server of the handshake era may send.
_SERVER_REQUESTS = frozenset({"roots/list", "sampling/createMessage", "elicitation/create"})

# The error code of a server that refuses the revision; its data names the supported ones.
_UNSUPPORTED_REVISION = -32022

_PREFIX = "io.modelcontextprotocol/"
_REVISION, _CLIENT = f"{_PREFIX}protocolVersion", f"{_PREFIX}clientInfo"
_CAPABILITIES, _LOG_LEVEL = f"{_PREFIX}clientCapabilities", f"{_PREFIX}logLevel"
_SERVER = f"{_PREFIX}serverInfo"


def handshake(context: HandshakeContext) -> Handshake:
    """Open the session in the era of `options.era`, by default in one that the server supports."""
    era = context.options.get("era", "auto")
    if era == "auto" and (
        not context.handles.isdisjoint(_SERVER_REQUESTS) or _had_handshake(context)
    ):
        answer = yield from _initialize(context, may_discover=True)
    elif era == "handshake":
        answer = yield from _initialize(context, may_discover=False)
    else:
        response = yield from _try_discovery(context)
        answer = _read_discovery(response)
        if answer is None and era == "stateless":
            raise _not_stateless_error(response)
        if answer is None:
            may_discover = not isinstance(response, Failure)
            answer = yield from _initialize(context, may_discover=may_discover)
    return (yield from _request_offer(answer))


def _had_handshake(context: HandshakeContext) -> bool:
    """Return whether the last process of the server was opened in the handshake era. Such a server
    is not sent `server/discover` again: servers of the Python SDK 1.x write hundreds of lines to
    stderr when they refuse it, and some servers do not reply to it at all."""
    return context.last_offer.extra.get("era") == "handshake"


def _try_discovery(context: HandshakeContext) -> Any:
    """Send `server/discover` and return its response. Send it once more if the server refuses the
    revision but names the same revision as supported.

    With `options.era = "stateless"` no other era is tried, so the server may use the whole timeout
    of the handshake.
    """
    attempt: Any = _make_discover_request(context)
    if context.options.get("era") != "stateless":
        seconds = REMOTE_DISCOVERY_SECONDS if context.is_remote else DISCOVERY_SECONDS
        attempt = TryRequest(attempt, seconds)
    response = yield attempt
    if STATELESS_REVISION in _read_supported_revisions(response):
        response = yield attempt
    return response


def fallback(context: HandshakeContext) -> Handshake:
    """Open the session with `initialize` only, for a server that exited at `server/discover`."""
    answer = yield from _initialize(context, may_discover=False)
    return (yield from _request_offer(answer))


def _make_discover_request(context: HandshakeContext) -> Request:
    meta: dict[str, Any] = {
        _REVISION: STATELESS_REVISION,
        _CLIENT: _make_client_info(context),
        _CAPABILITIES: _declare_capabilities(context, {TASKS: {}}),
    }
    level = context.options.get("log_level")
    if level is not None:
        meta[_LOG_LEVEL] = level
    return Request("server/discover", {"_meta": meta})


def _make_client_info(context: HandshakeContext) -> dict[str, str]:
    return {"name": "exthost", "version": context.host_version or __version__}


def _declare_capabilities(
    context: HandshakeContext, own_extensions: Mapping[str, Any] = EMPTY_MAPPING
) -> dict[str, Any]:
    """Return the client capabilities: those for which the application has registered a handler, and
    the extensions of the protocol: `own_extensions`, those in `options.extensions`, and those that
    handlers declare."""
    handles = context.handles
    declared: dict[str, Any] = {}
    extensions = {**own_extensions, **context.options.get("extensions", {})}
    for handler in sorted(handles):
        if handler.startswith(EXTENSION_PREFIX):
            name, _, settings = handler.removeprefix(EXTENSION_PREFIX).partition(" ")
            extensions.setdefault(name, jsontext.decode(settings.encode()))
    if extensions:
        declared["extensions"] = extensions
    if "roots/list" in handles:
        declared["roots"] = {"listChanged": True}
    if "sampling/createMessage" in handles:
        declared["sampling"] = {"tools": {}} if SAMPLING_TOOLS in handles else {}
    if "elicitation/create" in handles:
        declared["elicitation"] = {"form": {}} | ({"url": {}} if ELICITATION_URL in handles else {})
    return declared


def _read_supported_revisions(response: Received) -> list[Any]:
    """Return the revisions that a server names as supported when it refuses the host's revision;
    an empty list for any other response."""
    if not isinstance(response, Failure) or response.code != _UNSUPPORTED_REVISION:
        return []
    supported = response.data.get("supported") if isinstance(response.data, dict) else None
    return supported if type(supported) is list else []


def _read_discovery(response: Received) -> dict[str, Any] | None:
    """Return the reply to `server/discover` with the fields that a reply to `initialize` has, or
    None if the server needs the older handshake."""
    if isinstance(response, Failure):
        supported = _read_supported_revisions(response)
        texts = {item for item in supported if type(item) is str}
        if supported and texts.isdisjoint(HANDSHAKE_REVISIONS):
            raise _unknown_revision_error(supported)
        return None
    answer = response.result if isinstance(response, Reply) else None
    if type(answer) is not dict or type(answer.get("supportedVersions")) is not list:
        return None
    if STATELESS_REVISION not in answer["supportedVersions"]:
        return None
    meta = answer.get("_meta")
    server_info = meta.get(_SERVER) if type(meta) is dict else None
    return answer | {"protocolVersion": STATELESS_REVISION, "serverInfo": server_info}


def _make_initialize_params(context: HandshakeContext) -> dict[str, Any]:
    return {
        "protocolVersion": HANDSHAKE_REVISIONS[-1],
        "capabilities": _declare_capabilities(context),
        "clientInfo": _make_client_info(context),
    }


def _initialize(context: HandshakeContext, *, may_discover: bool) -> Any:
    """Send `initialize`. With `may_discover`, send `server/discover` if the server refuses
    `initialize` or names the stateless revision in its reply. That is also worth trying after a
    `server/discover` that timed out: the server may have been starting still."""
    response = yield Request("initialize", _make_initialize_params(context))
    if may_discover and (isinstance(response, Failure) or _names_stateless_revision(response)):
        answer = _read_discovery((yield from _try_discovery(context)))
        if answer is not None:
            return answer
    return (yield from _finish_initialize(context, response))


def _names_stateless_revision(response: Received) -> bool:
    answer = response.result if isinstance(response, Reply) else None
    return type(answer) is dict and answer.get("protocolVersion") == STATELESS_REVISION


def _finish_initialize(context: HandshakeContext, response: Received) -> Any:
    """Check the response to `initialize`, complete the handshake, and return the reply."""
    answer = handshake_result(response)
    if type(answer) is not dict or type(answer.get("protocolVersion")) is not str:
        raise HandshakeFailed(
            "X0561",
            "its reply to `initialize` is not a reply of an MCP server: it has no protocolVersion",
            help="check the command; for another dialect use --dialect or `dialect = …`",
            evidence=calls.make_evidence(answer),
        )
    if answer["protocolVersion"] not in HANDSHAKE_REVISIONS:
        raise _unknown_revision_error([answer["protocolVersion"]])
    yield Notification("notifications/initialized")
    level = context.options.get("log_level")
    if level is not None and "logging" in calls.object_or_empty(answer.get("capabilities")):
        yield Request("logging/setLevel", {"level": level})
    return answer


def _not_stateless_error(response: Received) -> HandshakeFailed:
    evidence = (
        calls.make_evidence(response.message) if isinstance(response, Failure) else NO_EVIDENCE
    )
    return HandshakeFailed(
        "X0563",
        'it does not support the stateless era of MCP, which options.era = "stateless" requires',
        help='set options.era to "auto" or "handshake"',
        evidence=evidence,
        permanent=True,
    )


def _unknown_revision_error(revisions: list[Any]) -> HandshakeFailed:
    known = ", ".join((*HANDSHAKE_REVISIONS, STATELESS_REVISION))
    offered = ", ".join(shorten_to(40, str(revision)) for revision in revisions[:8])
    return HandshakeFailed(
        "X0560",
        f"it uses MCP revision {offered}, which this host does not support",
        help=f"it supports {known}: update the server, or exthost",
        permanent=True,
    )


def _request_offer(answer: dict[str, Any]) -> Handshake:
    """Request the tools, and return the server's offer (its tools and capabilities).

    `answer` is the reply to the handshake.
    """
    capabilities = calls.object_or_empty(answer.get("capabilities"))
    server_info = calls.object_or_empty(answer.get("serverInfo"))
    revision = answer["protocolVersion"]
    warnings = OfferWarnings()
    if type(answer.get("capabilities")) is not dict:
        warnings.append(NO_CAPABILITIES)
    tools: tuple[Tool, ...] = ()
    if "tools" in capabilities:
        try:
            tools = yield from calls.request_tools(warnings)
        except (CallFailed, ProtocolViolation) as error:
            raise HandshakeFailed(
                "X0562",
                f"it has tools and does not list them: {error.message}",
                help=error.help,
                evidence=error.evidence,
            ) from None
    is_stateless = revision == STATELESS_REVISION
    notifications = {
        f"{kind}ListChanged": True
        for kind in ("tools", "prompts", "resources")
        if calls.object_or_empty(capabilities.get(kind)).get("listChanged") is True
    }
    if is_stateless and notifications:
        yield calls.make_subscription(notifications)
    extra = {
        "protocol": revision,
        "era": "stateless" if is_stateless else "handshake",
        "server_capabilities": capabilities,
    }
    if type(answer.get("instructions")) is str:
        extra["instructions"] = answer["instructions"]
    return Offer(
        tools=tools,
        version=calls.text_or_empty(server_info.get("version")),
        name=calls.text_or_empty(server_info.get("name")),
        warnings=warnings.report(),
        extra=MappingProxyType(extra),
        capabilities=tuple(sorted(capabilities)),
    )
