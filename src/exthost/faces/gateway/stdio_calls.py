"""Handles the tool calls of the gateway's clients on stdio, and of those that a relay connects,
from the line of the request to that of the reply.

The session layer of the `mcp` package costs several times as much as a call. Therefore, once the
package has opened the connection, this module handles `tools/call` and its cancellation with the
host's own JSON codec. Every other message, and each of these two in an unusual form, is left to the
package. In both cases the same request handlers answer, and all output goes through one
`ClientStream`, so that a notification that is sent before a result also arrives before it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar, copy_context
from typing import Any

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request

from exthost.faces.gateway import call_messages
from exthost.faces.gateway.call_session import CallingClient, make_context
from exthost.faces.gateway.client_stream import ClientStream
from exthost.faces.gateway.exchanges import Context
from exthost.faces.gateway.meta import is_stateless

AnswerCall = Callable[[Context], Coroutine[Any, Any, dict[str, Any]]]


class _Call:
    """One call in progress. `id` is the id of its request, `number` the number of its line,
    `stateless` is whether its client is one of the stateless era of MCP (each request describes its
    client, and there are no sessions), and `task` computes its result.
    `is_cancelled` is set if the client has cancelled the call."""

    __slots__ = ("id", "is_cancelled", "number", "stateless", "task")

    def __init__(
        self,
        id: types.RequestId,
        number: int,
        stateless: bool,
        task: "asyncio.Task[dict[str, Any]]",
    ):
        self.id = id
        self.number = number
        self.stateless = stateless
        self.task = task
        self.is_cancelled = False

    def encode_reply(self) -> bytes:
        """Return the reply. The task must be done."""
        try:
            return call_messages.encode_result(self.id, self.task.result())
        except asyncio.CancelledError:  # by `close`; a call that its client cancels gets no reply
            closed_error = types.ErrorData(
                code=types.CONNECTION_CLOSED, message="Connection closed"
            )
            return call_messages.encode_error(self.id, closed_error)
        except Exception as error:
            return call_messages.encode_error(
                self.id, call_messages.to_error_data(error, stateless=self.stateless)
            )


class StdioCalls:
    """The tool calls of one connection. `answer_call` is called with the context of a call and
    returns its result. `stream` is the connection."""

    def __init__(self, answer_call: AnswerCall, stream: ClientStream) -> None:
        self._answer_call = answer_call
        self.stream = stream
        # Calls run in this context, with the context variables of the connection. The event loop
        # reads lines in another context.
        self._context = copy_context()
        self._session: ServerSession | None = None
        # The client that the handshake described, or else the latest stateless call.
        self._caller: CallingClient | None = None
        # The fields of `_meta` from which the caller of the latest stateless call was made.
        self._client_fields: Mapping[str, Any] = {}
        self._calls: dict[asyncio.Task[dict[str, Any]], _Call] = {}
        self._by_id: dict[types.RequestId, _Call] = {}

    def open(self, session: ServerSession) -> None:
        """Begin to handle the calls of this connection, which the package has opened."""
        if self._session is None:
            self._session = session
            if not is_stateless(session.protocol_version):
                self._caller = CallingClient(
                    session.protocol_version, session.client_params, session.client_capabilities
                )

    def handle_line(self, line: bytes, number: int) -> bool:
        """Handle a line, which has this number. Return False if it must be left to the package."""
        if self._session is None:
            return False
        if call_messages.CALL_MARK in line:
            return self._start_call(line, number, self._session)
        is_cancellation = bool(self._calls) and call_messages.CANCELLED_MARK in line
        return is_cancellation and self._cancel_call(line, number)

    def _start_call(self, line: bytes, number: int, session: ServerSession) -> bool:
        """Start the call that a line requests. Return False if the line must be left to the
        package."""
        message = call_messages.decode_message(line)
        if message is None or message.get("method") != "tools/call":
            return False
        id, params = call_messages.parse_request_id(message.get("id")), message.get("params")
        if id is None or not isinstance(params, dict):
            return False
        caller = self._find_caller(params, session)
        if caller is None:
            return False
        ctx = make_context(
            id, params, caller, session.send_notification, connection_session=session
        )
        task = asyncio.get_running_loop().create_task(self._answer_call(ctx), context=self._context)
        call = _Call(id, number, is_stateless(caller.version), task)
        self._calls[task] = self._by_id[coerce_request_id(id)] = call
        task.add_done_callback(self._on_call_done)
        return True

    def _find_caller(self, params: dict[str, Any], session: ServerSession) -> CallingClient | None:
        """Return the client of a call, or None if the request must be left to the package."""
        meta = params.get("_meta")
        describes_client = isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta
        if not is_stateless(session.protocol_version):
            return None if describes_client else self._caller
        if not isinstance(meta, dict) or not describes_client:
            return None
        client_fields = {key: meta[key] for key in call_messages.ENVELOPE_KEYS if key in meta}
        if client_fields != self._client_fields or self._caller is None:
            route = classify_inbound_request({"method": "tools/call", "params": params})
            if isinstance(route, InboundLadderRejection):
                return None
            self._client_fields, self._caller = (
                client_fields,
                call_messages.make_stateless_caller(route),
            )
        return self._caller

    def _cancel_call(self, line: bytes, number: int) -> bool:
        """Cancel the call that a line names. Return False if it names no call in progress."""
        message = call_messages.decode_message(line)
        id = call_messages.parse_cancelled_id(message) if message is not None else None
        call = self._by_id.get(coerce_request_id(id)) if id is not None else None
        if call is None:
            return False
        call.is_cancelled = True
        call.task.cancel()
        self.stream.end_line(number)
        return True

    def _on_call_done(self, task: "asyncio.Task[dict[str, Any]]") -> None:
        """Send the reply of a call, unless the client has cancelled it."""
        call = self._calls.pop(task)
        key = coerce_request_id(call.id)
        # The client may have used the same id for another call meanwhile.
        if self._by_id.get(key) is call:
            del self._by_id[key]
        if not call.is_cancelled:
            self.stream.write_reply(call.number, call.encode_reply() + b"\n")
            return
        self.stream.end_line(call.number)
        if not task.cancelled():
            # Retrieved, so that asyncio does not log the error of a failed cleanup: the client has
            # cancelled the call, and does not wait for its outcome.
            task.exception()

    async def wait_until_answered(self) -> None:
        """Wait until each call is answered."""
        if self._calls:
            await asyncio.wait(self._calls)

    async def close(self) -> None:
        """Cancel each call. Its reply is the error "Connection closed"."""
        tasks = list(self._calls)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


CURRENT_CALLS: ContextVar[StdioCalls | None] = ContextVar("CURRENT_CALLS", default=None)
"""The calls of the connection whose message the package is handling; None on HTTP."""
