"""Tool calls on stdio, from the line of the request to the line of the reply.

The package's session layer costs several times what a call costs here. So once it has opened a
connection, `tools/call` and its cancellation are served by this module, with the host's own codec;
every other message, and any of these two that is unusual, is left to the package. Either way the
same code answers, and both write to one `LineWriter`, so a notification that is sent before a
result arrives before it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request

from exthost.gateway.call_messages import (
    CALL,
    CANCELLED,
    ENVELOPE,
    cancelled_id,
    decode_message,
    encode_error,
    encode_result,
    error_data,
    request_id,
    stateless_caller,
)
from exthost.gateway.call_session import Caller, make_context
from exthost.gateway.exchanges import Context
from exthost.gateway.line_writer import LineWriter
from exthost.gateway.meta import is_stateless

__all__ = ["CONNECTION", "StdioCalls"]

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
            return encode_result(self.id, self.task.result())
        except asyncio.CancelledError:  # by the end of this process, since a client gets no reply
            closed = types.ErrorData(code=types.CONNECTION_CLOSED, message="Connection closed")
            return encode_error(self.id, closed)
        except Exception as error:
            return encode_error(self.id, error_data(error, stateless=self.stateless))


class StdioCalls:
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
        if CALL in line:
            return self._start(line, self._session)
        return bool(self._calls) and CANCELLED in line and self._cancel(line)

    def _start(self, line: bytes, session: ServerSession) -> bool:
        message = decode_message(line)
        if message is None or message.get("method") != "tools/call":
            return False
        id, params = request_id(message.get("id")), message.get("params")
        if id is None or not isinstance(params, dict):
            return False
        caller = self._caller_of(params, session)
        if caller is None:
            return False
        ctx = make_context(id, params, caller, session.send_notification, connection=session)
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
        envelope = {key: meta[key] for key in ENVELOPE if key in meta}
        if envelope != self._envelope or self._caller is None:
            route = classify_inbound_request({"method": "tools/call", "params": params})
            if isinstance(route, InboundLadderRejection):
                return None
            self._envelope, self._caller = envelope, stateless_caller(route)
        return self._caller

    def _cancel(self, line: bytes) -> bool:
        message = decode_message(line)
        id = cancelled_id(message) if message is not None else None
        call = self._by_id.get(coerce_request_id(id)) if id is not None else None
        if call is None:
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
            self._writer.write(call.reply() + b"\n")
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


CONNECTION: ContextVar[StdioCalls | None] = ContextVar("CONNECTION", default=None)
"""The connection on stdio whose message the package handles; None on HTTP."""
