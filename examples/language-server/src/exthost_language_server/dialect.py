"""The dialect: how a language server is started, spoken to and shut down."""

import logging
import os
from types import MappingProxyType
from typing import Any

from exthost.dialects.base import Dialect, Traits, method_unknown
from exthost.dialects.codec import Role
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.json_codec import JsonRpc, failure_of, noise
from exthost.dialects.meanings import DialectEvent, Log, Unusable
from exthost.dialects.options import TEXT
from exthost.dialects.steps import Handshake, handshake_result
from exthost.errors import HandshakeFailed
from exthost.model.messages import Failure, Incoming, Notification, Reply, Request
from exthost.model.offer import Offer
from exthost.model.shutdown_steps import CloseStdin, Say
from exthost.model.spec import Limits, Restart
from exthost.wire.framing import Bytes
from exthost.wire.headers import Headers
from exthost_language_server import tools
from exthost_language_server.documents import Documents
from exthost_language_server.positions import uri_of

# The numbers of MessageType, and what the logging module calls them.
_LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG}


# -- bytes and messages ----------------------------------------------------------------------


class Codec(JsonRpc):
    """JSON-RPC 2.0 by the book; the same at both ends."""

    __slots__ = ()

    def read(self, fields: dict[str, Any], frame: Bytes) -> Incoming:
        """Return the message in an object that is not the plainest of replies."""
        id, method = fields.get("id"), fields.get("method")
        if isinstance(method, str):
            if "id" in fields:
                return Request(method, fields.get("params"), id)
            return Notification(method, fields.get("params"))
        if "error" in fields:
            return failure_of(id, fields["error"], "unknown error")
        if id is not None and "result" in fields:
            return Reply(id, fields["result"])
        return noise(frame, "neither a request nor a reply")


def _codec(role: Role) -> Codec:
    return Codec()


# -- the handshake ---------------------------------------------------------------------------


def _handshake(context: HandshakeContext) -> Handshake:
    folder = str(context.options.get("folder", context.cwd))
    root = uri_of(folder, "/")
    params = {
        "processId": os.getpid(),  # a server exits when this process is gone
        "clientInfo": {"name": "exthost", "version": context.host_version},
        "rootUri": root,
        "workspaceFolders": [{"uri": root, "name": context.extension}],
        "capabilities": {
            "textDocument": {
                "hover": {"contentFormat": ["markdown", "plaintext"]},
                "publishDiagnostics": {},
            }
        },
        "initializationOptions": context.config,
    }
    result = handshake_result((yield Request("initialize", params)))
    capabilities = result.get("capabilities") if isinstance(result, dict) else None
    if not isinstance(capabilities, dict):
        raise HandshakeFailed(
            "X0502",
            "its answer to `initialize` has no capabilities",
            help="is it a language server?",
        )
    yield Notification("initialized", {})
    about = result.get("serverInfo")
    about = about if isinstance(about, dict) else {}
    return Offer(
        tools=tools.offered(capabilities),
        name=str(about.get("name", "")),
        version=str(about.get("version", "")),
        capabilities=tuple(sorted(capabilities)),
        extra={"folder": folder},
    )


# -- what the server sends unasked -----------------------------------------------------------


def _message(params: Any) -> Log | Unusable:
    if not isinstance(params, dict) or not isinstance(params.get("message"), str):
        return Unusable("a message without text")
    return Log(_LEVELS.get(params.get("type", 0), logging.INFO), params["message"])


def _diagnostics(params: Any) -> DialectEvent | Unusable:
    if not isinstance(params, dict) or not isinstance(params.get("uri"), str):
        return Unusable("diagnostics of no document")
    return DialectEvent("diagnostics", params)


def _answer(request: Request) -> Reply | Failure:
    """Answer what a server asks of every editor: we have no settings and no progress windows."""
    if request.method == "workspace/configuration":
        items = request.params.get("items", []) if isinstance(request.params, dict) else []
        return Reply(request.id, [None] * len(items))
    if request.method in _GRANTED:
        return Reply(request.id, None)
    return method_unknown(request)


_GRANTED = (
    "client/registerCapability",
    "client/unregisterCapability",
    "window/workDoneProgress/create",
    "workspace/workspaceFolders",
)


def _cancel(request: Request, reason: str) -> Notification:
    return Notification("$/cancelRequest", {"id": request.id})


DIALECT = Dialect(
    name="language-server",
    framing=Headers,
    codec=_codec,
    handshake=_handshake,
    operations=MappingProxyType({"call_tool": tools.call_tool}),
    cancel_message=_cancel,
    notifications=MappingProxyType(
        {
            "window/logMessage": _message,
            "window/showMessage": _message,
            "textDocument/publishDiagnostics": _diagnostics,
        }
    ),
    refuse=_answer,
    facets=MappingProxyType({"documents": Documents}),
    options=MappingProxyType({"folder": TEXT.described("The folder that the server works on.")}),
    traits=Traits(
        first_id=1,
        limits=Limits(
            start=60,
            handshake=30,
            call=30,
            write=30,
            stop=5,
            max_message=64 * 2**20,
            max_in_flight=64,
        ),
        restart=Restart(
            strategy="exponential", initial_delay=0.2, max_delay=10, max_retries=5, window=300
        ),
        shutdown_steps=(
            Say(Request("shutdown", None), wait=3),
            Say(Notification("exit", None), wait=0),
            CloseStdin(wait=2),
        ),
    ),
)
