"""Tool calls on HTTP, from the body of the request to the response.

As on stdio (`stdio_calls`), the package opens sessions and serves every other message. A
`tools/call` that is well-formed, with a valid token, in a session of the handshake era or in the
stateless era, is served here. Whatever is missing or unusual is left to the package, which then
answers it, so that nothing is refused by this module.

The response is a JSON body. It becomes a stream of events when a notification or a request of the
server must be sent before the result, or when the call takes long.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    validate_mcp_param_headers,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

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
from exthost.gateway.call_response import CallResponse
from exthost.gateway.call_session import Caller, make_context
from exthost.gateway.client_requests import ANSWER, ClientRequests
from exthost.gateway.clients import SESSION_HEADER, Client, Clients
from exthost.gateway.exchanges import Context
from exthost.http_server.access import Access
from exthost.http_server.probes import App, Receive, Scope, Send, decode_headers
from exthost.wire import jsontext

__all__ = ["HttpCalls"]

# A longer body is left to the package.
MAX_BODY_BYTES = 2**20

# The package forgets a session that it sees no request of. So it gets one of them this often.
PACKAGE_SECONDS = 30.0

# The stateless clients that are remembered, to describe each of them once.
MAX_CALLERS = 256

Answer = Callable[[Context], Coroutine[Any, Any, dict[str, Any]]]
InputSchema = Callable[[str], Mapping[str, Any] | None]


class _Request:
    """What `ctx.request` is: the request as far as the gateway reads it."""

    __slots__ = ("headers",)

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.headers = headers


class _Session:
    """A session of the handshake era: its calls under way, what its client is asked, and when the
    package last saw it."""

    __slots__ = ("asked", "calls", "seen")

    def __init__(self) -> None:
        self.asked = ClientRequests()
        self.calls: dict[types.RequestId, asyncio.Task[Any]] = {}
        self.seen = 0.0


class HttpCalls:
    """Serves tool calls in front of `app`, the application of the package."""

    def __init__(
        self,
        app: App,
        path: str,
        access: Access,
        clients: Clients,
        answer: Answer,
        input_schema: InputSchema,
    ) -> None:
        self._app = app
        self._path = path
        self._access = access
        self._clients = clients
        self._answer = answer
        self._input_schema = input_schema
        self._sessions: dict[str, _Session] = {}
        self._callers: dict[bytes, Caller] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = self._usual_headers(scope)
        if headers is None:
            await self._app(scope, receive, send)
            return
        body = await _read_body(receive)
        if body is None:  # the client is gone
            return
        if not await self._serve(headers, body, receive, send):
            session = self._sessions.get(headers.get(SESSION_HEADER, ""))
            if session is not None:
                session.seen = time.monotonic()
            await self._app(scope, _Replay(body, receive), send)

    def _usual_headers(self, scope: Scope) -> Mapping[str, str] | None:
        """Return the headers of a request that may be served here."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != self._path:
            return None
        headers = decode_headers(scope)
        length = headers.get("content-length", "")
        is_usual = (
            len(headers) == len(scope["headers"])  # none comes twice
            and "origin" not in headers
            and length.isdecimal()
            and int(length[:10]) <= MAX_BODY_BYTES
            and headers.get("content-type") == "application/json"
            and "application/json" in (accept := headers.get("accept", ""))
            and "text/event-stream" in accept
            and self._access.find_objection(headers) is None
            and self._access.has_token(headers)
        )
        return headers if is_usual else None

    async def _serve(
        self, headers: Mapping[str, str], body: bytes, receive: Receive, send: Send
    ) -> bool:
        """Serve a message; return False if it is for the package."""
        is_call = CALL in body
        if not is_call and CANCELLED not in body and ANSWER not in body:
            return False
        message = decode_message(body)
        if message is None:
            return False
        version = headers.get("mcp-protocol-version", "")
        if version in MODERN_PROTOCOL_VERSIONS:
            return is_call and await self._serve_stateless(headers, message, receive, send)
        if version and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return False
        session = headers.get(SESSION_HEADER, "")
        client = self._clients.in_session(session)
        caller = client.caller if client is not None else None
        if client is None or caller is None:
            return False
        known = self._sessions.get(session) or self._open(session, client)
        if not is_call:
            is_taken = known.asked.take(message) or _cancel(known, message)
            if is_taken:
                await _accept(send)
            return is_taken
        if time.monotonic() - known.seen > PACKAGE_SECONDS:
            return False
        return await self._serve_in_session(session, known, caller, headers, message, send)

    def _open(self, session: str, client: Client) -> _Session:
        known = self._sessions[session] = _Session()

        def close() -> None:
            self._sessions.pop(session, None)
            for task in known.calls.values():
                task.cancel()

        client.on_end = close
        return known

    # -- the handshake era -------------------------------------------------------------------

    async def _serve_in_session(
        self,
        session: str,
        known: _Session,
        caller: Caller,
        headers: Mapping[str, str],
        message: dict[str, Any],
        send: Send,
    ) -> bool:
        id, params = request_id(message.get("id")), message.get("params")
        if message.get("method") != "tools/call" or id is None or not isinstance(params, dict):
            return False
        key = coerce_request_id(id)
        if key in known.calls or types.PROTOCOL_VERSION_META_KEY in (params.get("_meta") or ()):
            return False
        response = CallResponse(send, (SESSION_HEADER.encode(), session.encode()))
        ask = partial(known.asked.ask, response.send)
        ctx = make_context(id, params, caller, response.notify, ask=ask, request=_Request(headers))
        # The end of the connection cancels nothing in this era: only a message of the client does.
        task = known.calls[key] = asyncio.get_running_loop().create_task(self._answer(ctx))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:  # the server ends
            response.close()
            task.cancel()
            raise
        finally:
            del known.calls[key]
        await response.end(_reply(id, task, cancelled=REQUEST_CANCELLED), 200)
        return True

    # -- the stateless era -------------------------------------------------------------------

    async def _serve_stateless(
        self,
        headers: Mapping[str, str],
        message: dict[str, Any],
        receive: Receive,
        send: Send,
    ) -> bool:
        id, params = request_id(message.get("id")), message.get("params")
        if message.get("method") != "tools/call" or id is None or not isinstance(params, dict):
            return False
        caller = self._stateless_caller(headers, message)
        if caller is None or self._is_refused(params, headers):
            return False
        response = CallResponse(send)
        ctx = make_context(id, params, caller, response.notify, request=_Request(headers))
        task = asyncio.get_running_loop().create_task(self._answer(ctx))
        reply = asyncio.get_running_loop().create_task(_send_reply(id, task, response))
        try:
            while (await receive())["type"] != "http.disconnect":  # also at the end of the response
                pass
        finally:
            if not reply.done():  # the client is gone, which cancels its call
                response.close()
                task.cancel()
                reply.cancel()
            await asyncio.wait([task, reply])
        return True

    def _stateless_caller(
        self, headers: Mapping[str, str], message: dict[str, Any]
    ) -> Caller | None:
        route = classify_inbound_request(message, headers=headers)
        if isinstance(route, InboundLadderRejection):
            return None
        meta = message["params"]["_meta"]
        try:
            key = jsontext.encode_fast([meta.get(name) for name in ENVELOPE])
        except (TypeError, ValueError, OverflowError):  # such as a very large number
            return None
        caller = self._callers.get(key)
        if caller is None:
            caller = stateless_caller(route)
            if len(self._callers) >= MAX_CALLERS:
                self._callers.clear()
            self._callers[key] = caller
        return caller

    def _is_refused(self, params: dict[str, Any], headers: Mapping[str, str]) -> bool:
        """Return whether headers that repeat arguments contradict them, or cannot be checked."""
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            return True
        schema = self._input_schema(name)
        if schema is None:
            return False
        return validate_mcp_param_headers(schema, arguments or {}, headers) is not None


class _Replay:
    """The `receive` of a request whose body has been read already."""

    __slots__ = ("_body", "_receive")

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> dict[str, Any]:
        if self._body is None:
            message: dict[str, Any] = await self._receive()
            return message
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _read_body(receive: Receive) -> bytes | None:
    """Return the body of a request; None if the client is gone before its end."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        return bytes(message.get("body", b""))
    parts = []
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
    return None


async def _send_reply(
    id: types.RequestId, task: "asyncio.Task[dict[str, Any]]", response: CallResponse
) -> None:
    await asyncio.wait([task])
    reply = _reply(id, task, cancelled=types.CONNECTION_CLOSED, stateless=True)
    await response.end(reply, _status(task))


def _reply(
    id: types.RequestId,
    task: "asyncio.Task[dict[str, Any]]",
    *,
    cancelled: int,
    stateless: bool = False,
) -> bytes:
    """Return the reply of a call that is done."""
    if task.cancelled():
        return encode_error(id, types.ErrorData(code=cancelled, message="Request cancelled"))
    error = task.exception()
    if not isinstance(error, Exception):
        return encode_result(id, task.result())
    data = error_data(error, stateless=stateless)
    if stateless and data.data is None:  # then it has no such member
        data = types.ErrorData(code=data.code, message=data.message)
    return encode_error(id, data)


def _status(task: "asyncio.Task[dict[str, Any]]") -> int:
    error = None if task.cancelled() else task.exception()
    if not isinstance(error, Exception):
        return 200
    return ERROR_CODE_HTTP_STATUS.get(error_data(error, stateless=True).code, 200)


def _cancel(session: _Session, message: dict[str, Any]) -> bool:
    """Cancel the call that this message is about, if it is one of ours."""
    id = cancelled_id(message)
    task = session.calls.get(coerce_request_id(id)) if id is not None else None
    return task is not None and task.cancel()


async def _accept(send: Send) -> None:
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 202, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
