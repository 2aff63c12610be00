"""Tool calls on stdio, from the line of the request to the line of the reply.

The package's session layer costs several times what a call costs here. So once it has opened a
connection, `tools/call` and its cancellation are served by this module, with the host's own codec;
every other message, and any of these two that is unusual, is left to the package. Either way the
same code answers, and both write to one `LineWriter`, so a notification that is sent before a
result arrives before it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data

from exthost.gateway.call_session import Caller, make_context
from exthost.gateway.exchanges import Context
from exthost.gateway.line_writer import LineWriter
from exthost.gateway.meta import is_stateless
from exthost.wire import jsontext

__all__ = ["CONNECTION", "DirectCalls"]

_log = logging.getLogger("exthost.gateway")

# A message without these bytes is not for this module.
_CALL = b'"tools/call"'
_CANCELLED = b'"notifications/cancelled"'

_ENVELOPE = (
    types.PROTOCOL_VERSION_META_KEY,
    types.CLIENT_CAPABILITIES_META_KEY,
    types.CLIENT_INFO_META_KEY,
)

Answer = Callable[[Context], Coroutine[Any, Any, dict[str, Any]]]


class _Call:
    """One call: its id, its task, and whether the client has cancelled it."""

    __slots__ = ("id", "is_cancelled", "stateless", "task")

    def __init__(self, id: types.RequestId, stateless: bool, task: "asyncio.Task[dict[str, Any]]"):
        self.id = id
        self.stateless = stateless
        self.task = task
        self.is_cancelled = False

    def reply(self) -> bytes:
        """Return the reply, when the task is done."""
        try:
            return _reply(self.id, self.task.result())
        except asyncio.CancelledError:  # by the end of this process, since a client gets no reply
            closed = types.ErrorData(code=types.CONNECTION_CLOSED, message="Connection closed")
            return _error_reply(self.id, closed)
        except Exception as error:
            return _error_reply(self.id, _error_data(error, stateless=self.stateless))


class DirectCalls:
    """The tool calls of one connection. `answer` returns the result of one."""

    def __init__(self, answer: Answer, writer: LineWriter) -> None:
        self._answer = answer
        self._writer = writer
        self._session: ServerSession | None = None
        self._caller: Caller | None = None  # of the handshake, or of the latest stateless call
        self._envelope: Mapping[str, Any] = {}  # of the latest stateless call
        self._calls: dict[asyncio.Task[dict[str, Any]], _Call] = {}
        self._by_id: dict[types.RequestId, _Call] = {}

    def open(self, session: ServerSession) -> None:
        """Serve the calls of this connection, which the package has opened."""
        if self._session is None:
            self._session = session
            if not is_stateless(session.protocol_version):
                self._caller = Caller(
                    session.protocol_version, session.client_params, session.client_capabilities
                )

    def take(self, line: bytes) -> bool:
        """Serve this line; return False if it is for the package."""
        if self._session is None:
            return False
        if _CALL in line:
            return self._start(line, self._session)
        return bool(self._calls) and _CANCELLED in line and self._cancel(line)

    def _start(self, line: bytes, session: ServerSession) -> bool:
        message = _decode(line)
        if message is None or message.get("method") != "tools/call":
            return False
        id, params = _request_id(message.get("id")), message.get("params")
        if id is None or not isinstance(params, dict):
            return False
        caller = self._caller_of(params, session)
        if caller is None:
            return False
        ctx = make_context(id, params, session, caller)
        task = asyncio.get_running_loop().create_task(self._answer(ctx))
        call = _Call(id, is_stateless(caller.version), task)
        self._calls[task] = self._by_id[coerce_request_id(id)] = call
        task.add_done_callback(self._finish)
        return True

    def _caller_of(self, params: dict[str, Any], session: ServerSession) -> Caller | None:
        """Return the client of a call; None if the package must judge the request."""
        meta = params.get("_meta")
        is_enveloped = isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta
        if not is_stateless(session.protocol_version):
            return None if is_enveloped else self._caller
        if not isinstance(meta, dict) or not is_enveloped:
            return None
        envelope = {key: meta[key] for key in _ENVELOPE if key in meta}
        if envelope != self._envelope or self._caller is None:
            route = classify_inbound_request({"method": "tools/call", "params": params})
            if isinstance(route, InboundLadderRejection):
                return None
            described = Connection.from_envelope(
                route.protocol_version, route.client_info, route.client_capabilities
            )
            self._envelope = envelope
            self._caller = Caller(
                described.protocol_version, described.client_params, described.client_capabilities
            )
        return self._caller

    def _cancel(self, line: bytes) -> bool:
        message = _decode(line)
        if message is None or message.get("method") != "notifications/cancelled":
            return False
        params = message.get("params")
        id = _request_id(params.get("requestId")) if isinstance(params, dict) else None
        call = self._by_id.get(coerce_request_id(id)) if id is not None else None
        if call is None or "id" in message:
            return False
        call.is_cancelled = True
        call.task.cancel()
        return True

    def _finish(self, task: "asyncio.Task[dict[str, Any]]") -> None:
        call = self._calls.pop(task)
        key = coerce_request_id(call.id)
        if self._by_id.get(key) is call:  # a client may use an id twice
            del self._by_id[key]
        if not call.is_cancelled:
            self._writer.write(call.reply())
        elif not task.cancelled():
            task.exception()  # of a cleanup that failed: nobody waits for it

    async def end(self) -> None:
        """Wait until each call is answered."""
        if self._calls:
            await asyncio.wait(self._calls)

    async def close(self) -> None:
        """Cancel each call: its reply says that the connection is closed."""
        tasks = list(self._calls)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


CONNECTION: ContextVar[DirectCalls | None] = ContextVar("CONNECTION", default=None)
"""The connection on stdio whose message the package handles; None on HTTP."""


def _decode(line: bytes) -> dict[str, Any] | None:
    """Return a message; None for anything that is unusual."""
    try:
        message = jsontext.decode_fast(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return None
    return message


def _request_id(value: Any) -> types.RequestId | None:
    return value if type(value) is int or type(value) is str else None


def _reply(id: types.RequestId, result: dict[str, Any]) -> bytes:
    try:
        return jsontext.encode_fast({"jsonrpc": "2.0", "id": id, "result": result}) + b"\n"
    except (TypeError, ValueError, RecursionError, OverflowError):  # such as a very large number
        return _dump(types.JSONRPCResponse(jsonrpc="2.0", id=id, result=result))


def _error_data(error: Exception, *, stateless: bool) -> types.ErrorData:
    """Return an error as the package would."""
    known = handler_exception_to_error_data(error)
    if known is not None:
        return known
    _log.error("tools/call failed", exc_info=error)
    if stateless:
        return types.ErrorData(code=types.INTERNAL_ERROR, message="Internal server error")
    return types.ErrorData(code=0, message=str(error))


def _error_reply(id: types.RequestId, error: types.ErrorData) -> bytes:
    return _dump(types.JSONRPCError(jsonrpc="2.0", id=id, error=error))


def _dump(message: types.JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
