"""Handles the tool calls of the gateway's clients on HTTP, from the body of the request to the
response.

This is ASGI middleware in front of the application of the `mcp` package ("the package"), whose
session layer costs more than a call. As on stdio (`stdio_calls`), the package opens the sessions
and handles every other message. This module handles only a well-formed `tools/call` with a valid
token, in both eras of MCP: in a session of the handshake era, or in the stateless era, which has no
sessions. Everything else is left to the package, errors too. The only message that this module
refuses is a request whose id has a type that MCP does not allow, because the package would not
answer it at all.

The response is a JSON body. It becomes a stream of server-sent events if a notification or a
request of the server must be sent before the result, or if the call takes long.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    validate_mcp_param_headers,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from exthost.faces.gateway import call_messages
from exthost.faces.gateway.call_response import CallResponse
from exthost.faces.gateway.call_session import CallingClient, make_context
from exthost.faces.gateway.clients import SESSION_HEADER, Client, Clients
from exthost.faces.gateway.exchanges import Context
from exthost.faces.http_server.access import MISDIRECTED, UNKNOWN_NAME, Access
from exthost.faces.http_server.asgi import (
    App,
    Receive,
    Scope,
    Send,
    decode_headers,
    send_response,
)
from exthost.wire import jsontext


class ReplayedBody:
    """The ASGI `receive` callable for the package, of a request whose body was read already."""

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


async def read_body(receive: Receive) -> bytes | None:
    """Return the body of a request, or None if the client disconnects before its end."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        return bytes(message.get("body", b""))
    chunks = []
    while message["type"] == "http.request":
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)
        message = await receive()
    return None


# Requests with a longer body are left to the package.
MAX_BODY_BYTES = 2**20

# The package expires a session in which it gets no requests, and it does not see the tool calls.
# Therefore, if the package got its last request of a session longer ago than this, the next call is
# preceded by a ping to the package.
PACKAGE_SECONDS = 30.0

# The number of stateless clients whose `CallingClient` is cached instead of made for each call.
MAX_CACHED_CALLERS = 256

AnswerCall = Callable[[Context], Coroutine[Any, Any, dict[str, Any]]]
InputSchema = Callable[[str], Mapping[str, Any] | None]


# The prefix of the ids in `ClientRequests`. The ids of the package's own requests are numbers.
_ID_PREFIX = "exthost-"

# A message without these bytes is not an answer to a request of `ClientRequests`.
ANSWER_MARK = b'"' + _ID_PREFIX.encode()

# A client that reads slowly holds up the end of a cancelled call no longer than this.
_CANCEL_SECONDS = 1.0

SendMessage = Callable[[Mapping[str, Any]], Coroutine[Any, Any, None]]


class ClientRequests:
    """The requests of MCP servers to one client that wait for an answer. A request is sent on the
    response stream of the call that caused it; the answer arrives as a separate HTTP request."""

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._count = 0
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}

    async def ask(self, send: SendMessage, method: str, params: Any) -> dict[str, Any]:
        """Send a request and return the client's result. Raises MCPError if it answers with an
        error."""
        self._count += 1
        id = f"{_ID_PREFIX}{self._count}"
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answer
        try:
            await send(message)
            return await answer
        except asyncio.CancelledError:
            # The server gives the request up, or its call was cancelled.
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await send(_cancellation(id))
            raise
        finally:
            del self._waiting[id]

    def deliver_answer(self, message: Mapping[str, Any]) -> bool:
        """Deliver an answer to the request that waits for it. Return False if the message is not an
        answer to a waiting request, or if the answer is not valid."""
        id = message.get("id")
        answer = self._waiting.get(id) if isinstance(id, str) else None
        if answer is None or answer.done() or "method" in message:
            return False
        result, error = message.get("result"), message.get("error")
        if isinstance(result, dict) and error is None:
            answer.set_result(result)
            return True
        if not isinstance(error, dict) or "result" in message:
            return False
        code, text = error.get("code"), error.get("message")
        if type(code) is not int or not isinstance(text, str):
            return False
        answer.set_exception(MCPError.from_error_data(types.ErrorData.model_validate(error)))
        return True


def _cancellation(id: str) -> dict[str, Any]:
    """Return the message that cancels a request to a client."""
    params = {"requestId": id, "reason": "the answer is not needed any more"}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


class _Request:
    """The HTTP request of a call, as the `request` of its context. The gateway reads only its
    headers."""

    __slots__ = ("headers",)

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.headers = headers


class _Session:
    """A session of the handshake era: its calls in progress, the requests to its client, and the
    time (`time.monotonic`) of the last request that the package got."""

    __slots__ = ("calls", "client_requests", "last_package_request")

    def __init__(self) -> None:
        self.client_requests = ClientRequests()
        self.calls: dict[types.RequestId, asyncio.Task[Any]] = {}
        self.last_package_request = 0.0


class HttpCalls:
    """Handles tool calls in front of `app`, the ASGI application of the package. `path` is the URL
    path of MCP, and `access` checks the token and the headers. `answer_call` returns the result of
    a call, and `input_schema` returns the schema of a tool's arguments."""

    def __init__(
        self,
        app: App,
        path: str,
        access: Access,
        clients: Clients,
        answer_call: AnswerCall,
        input_schema: InputSchema,
    ) -> None:
        self._app = app
        self._path = path
        self._access = access
        self._clients = clients
        self._answer_call = answer_call
        self._input_schema = input_schema
        self._sessions: dict[str, _Session] = {}
        # The clients of the stateless era, by the encoded fields that describe them.
        self._callers: dict[bytes, CallingClient] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on to the package (an ASGI application)."""
        headers = self._read_headers(scope)
        if headers is None:
            # The name in the Host header is checked here, because the package's check accepts any
            # text after a colon as a port.
            if scope["type"] == "http" and not self._access.is_own_name(decode_headers(scope)):
                await send_response(send, MISDIRECTED, "text/plain", UNKNOWN_NAME.encode())
            else:
                await self._app(scope, receive, send)
            return
        body = await read_body(receive)
        if body is None:  # the client has disconnected
            return
        if not await self._handle_message(scope, headers, body, receive, send):
            session = self._sessions.get(headers.get(SESSION_HEADER, ""))
            if session is not None:
                session.last_package_request = time.monotonic()
            body, refusal = call_messages.check_request_id(body)
            if refusal is not None:
                await send_response(send, 400, "application/json", refusal)
                return
            await self._app(scope, ReplayedBody(body, receive), send)

    def _read_headers(self, scope: Scope) -> Mapping[str, str] | None:
        """Return the headers of a request that may be a tool call in the standard form, else None.
        The token is checked here."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != self._path:
            return None
        headers = decode_headers(scope)
        length = headers.get("content-length", "")
        is_standard = (
            len(headers) == len(scope["headers"])  # no header occurs twice
            and "origin" not in headers  # the package checks origins, and adds CORS headers
            and length.isdecimal()
            # The first ten digits suffice, and `int` refuses a text with thousands of digits.
            and int(length[:10]) <= MAX_BODY_BYTES
            and headers.get("content-type") == "application/json"
            and "application/json" in (accept := headers.get("accept", ""))
            and "text/event-stream" in accept
            and self._access.find_objection(headers) is None
            and self._access.has_token(headers)
        )
        return headers if is_standard else None

    async def _handle_message(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        body: bytes,
        receive: Receive,
        send: Send,
    ) -> bool:
        """Handle a message. Return False if it must be left to the package."""
        is_call = call_messages.CALL_MARK in body
        if not is_call and call_messages.CANCELLED_MARK not in body and ANSWER_MARK not in body:
            return False
        message = call_messages.decode_message(body)
        if message is None:
            return False
        version = headers.get("mcp-protocol-version", "")
        if version in MODERN_PROTOCOL_VERSIONS:  # those of the stateless era
            return is_call and await self._call_stateless(headers, message, receive, send)
        if version and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return False
        session_id = headers.get(SESSION_HEADER, "")
        client = self._clients.find_by_session(session_id)
        caller = client.caller if client is not None else None
        if client is None or caller is None:
            return False
        session = self._sessions.get(session_id) or self._add_session(session_id, client)
        if not is_call:
            is_handled = session.client_requests.deliver_answer(message) or _cancel_call(
                session, message
            )
            if is_handled:
                await _send_accepted(send)
            return is_handled
        if time.monotonic() - session.last_package_request > PACKAGE_SECONDS:
            # Before the ping, so that calls at the same time do not send another.
            session.last_package_request = time.monotonic()
            if not await ping_session(self._app, scope):  # the package says why
                session.last_package_request = 0.0
                return False
        return await self._call_in_session(session_id, session, caller, headers, message, send)

    def _add_session(self, session_id: str, client: Client) -> _Session:
        session = self._sessions[session_id] = _Session()

        def close() -> None:
            self._sessions.pop(session_id, None)
            for task in session.calls.values():
                task.cancel()

        client.on_disconnect = close
        return session

    # -- the handshake era -------------------------------------------------------------------

    async def _call_in_session(
        self,
        session_id: str,
        session: _Session,
        caller: CallingClient,
        headers: Mapping[str, str],
        message: dict[str, Any],
        send: Send,
    ) -> bool:
        """Answer a tool call in a session. Return False if it must be left to the package."""
        id, params = call_messages.parse_request_id(message.get("id")), message.get("params")
        if message.get("method") != "tools/call" or id is None or not isinstance(params, dict):
            return False
        key = coerce_request_id(id)
        # The package decides about an id in use, and about a stateless request in a session.
        meta = params.get("_meta")
        describes_client = isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta
        if key in session.calls or describes_client:
            return False
        response = CallResponse(send, (SESSION_HEADER.encode(), session_id.encode()))
        send_request = partial(session.client_requests.ask, response.send)
        ctx = make_context(
            id,
            params,
            caller,
            response.notify,
            send_to_client=send_request,
            request=_Request(headers),
        )
        # In the handshake era a disconnect does not cancel a call; only a message of the client
        # does. So the call runs in a separate task.
        task = session.calls[key] = asyncio.get_running_loop().create_task(self._answer_call(ctx))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:  # the gateway stops
            response.close()
            task.cancel()
            raise
        finally:
            del session.calls[key]
        await response.end(_encode_reply(id, task, cancelled_code=REQUEST_CANCELLED), 200)
        return True

    # -- the stateless era -------------------------------------------------------------------

    async def _call_stateless(
        self,
        headers: Mapping[str, str],
        message: dict[str, Any],
        receive: Receive,
        send: Send,
    ) -> bool:
        """Answer a tool call without a session. Return False if it must be left to the package."""
        id, params = call_messages.parse_request_id(message.get("id")), message.get("params")
        if message.get("method") != "tools/call" or id is None or not isinstance(params, dict):
            return False
        caller = self._find_stateless_caller(headers, message)
        # The package sends the error for a request that is not valid.
        if caller is None or self._contradicts_headers(params, headers):
            return False
        response = CallResponse(send)
        ctx = make_context(id, params, caller, response.notify, request=_Request(headers))
        task = asyncio.get_running_loop().create_task(self._answer_call(ctx))
        reply = asyncio.get_running_loop().create_task(_send_reply(id, task, response))
        try:
            # uvicorn sends `http.disconnect` after the end of the response, too, so this loop ends
            # in both cases.
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            if not reply.done():  # the client has disconnected, which cancels its call
                response.close()
                task.cancel()
                reply.cancel()
            await asyncio.wait([task, reply])
        return True

    def _find_stateless_caller(
        self, headers: Mapping[str, str], message: dict[str, Any]
    ) -> CallingClient | None:
        """Return the client that a stateless request describes in its `_meta`, or None if the
        request is not valid."""
        route = classify_inbound_request(message, headers=headers)
        if isinstance(route, InboundLadderRejection):
            return None
        meta = message["params"]["_meta"]
        try:
            key = jsontext.encode_fast([meta.get(name) for name in call_messages.ENVELOPE_KEYS])
        except (TypeError, ValueError, OverflowError):  # such as an integer beyond 64 bits
            return None
        caller = self._callers.get(key)
        if caller is None:
            caller = call_messages.make_stateless_caller(route)
            if len(self._callers) >= MAX_CACHED_CALLERS:
                self._callers.clear()
            self._callers[key] = caller
        return caller

    def _contradicts_headers(self, params: dict[str, Any], headers: Mapping[str, str]) -> bool:
        """Return whether headers in which the client repeats arguments differ from the arguments,
        or cannot be checked."""
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            return True
        schema = self._input_schema(name)
        if schema is None:
            return False
        return validate_mcp_param_headers(schema, arguments or {}, headers) is not None


async def _send_reply(
    id: types.RequestId, task: "asyncio.Task[dict[str, Any]]", response: CallResponse
) -> None:
    """Wait until a stateless call is done, and send its reply."""
    await asyncio.wait([task])
    reply = _encode_reply(id, task, cancelled_code=types.CONNECTION_CLOSED, stateless=True)
    await response.end(reply, _http_status(task))


def _encode_reply(
    id: types.RequestId,
    task: "asyncio.Task[dict[str, Any]]",
    *,
    cancelled_code: int,
    stateless: bool = False,
) -> bytes:
    """Return the reply to a call whose task is done. `cancelled_code` is the error code for a
    cancelled call. `stateless` is whether the client is one of the stateless era."""
    if task.cancelled():
        return call_messages.encode_error(
            id, types.ErrorData(code=cancelled_code, message="Request cancelled")
        )
    error = task.exception()
    # Without an error this is the result. An exception such as SystemExit is raised again here.
    if not isinstance(error, Exception):
        return call_messages.encode_result(id, task.result())
    data = call_messages.to_error_data(error, stateless=stateless)
    if stateless and data.data is None:  # leave the field `data` out, in place of a null
        data = types.ErrorData(code=data.code, message=data.message)
    return call_messages.encode_error(id, data)


def _http_status(task: "asyncio.Task[dict[str, Any]]") -> int:
    """Return the HTTP status of the reply to a stateless call."""
    error = None if task.cancelled() else task.exception()
    if not isinstance(error, Exception):
        return 200
    return ERROR_CODE_HTTP_STATUS.get(call_messages.to_error_data(error, stateless=True).code, 200)


def _cancel_call(session: _Session, message: dict[str, Any]) -> bool:
    """Cancel the call that this message names. Return False if the message cancels no call of the
    session."""
    id = call_messages.parse_cancelled_id(message)
    task = session.calls.get(coerce_request_id(id)) if id is not None else None
    return task is not None and task.cancel()


async def _send_accepted(send: Send) -> None:
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 202, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


# The package answers a ping itself, at once, so this limit is generous.
_PING_SECONDS = 5.0

# Each ping has a new id: of two requests with one id at the same time, the package answers one.
_ping_numbers = itertools.count(1)


async def ping_session(app: App, scope: Scope) -> bool:
    """Send a ping with the headers of this request to the package. Return whether it was answered:
    an unknown or expired session is refused.

    The package expires a session in which it gets no requests, and tool calls bypass it. The call
    itself is not passed to the package in place of a ping: the package would answer it with an
    event stream, and some clients refuse an event of more than 1 MiB.
    """
    # An id that no client uses for a request of its own.
    ping = b'{"jsonrpc":"2.0","id":"exthost/ping/%d","method":"ping"}' % next(_ping_numbers)
    headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
    headers.append((b"content-length", str(len(ping)).encode()))
    status = 0

    async def keep_status(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]

    try:
        async with asyncio.timeout(_PING_SECONDS):
            await app({**scope, "headers": headers}, ReplayedBody(ping, _wait_for_end), keep_status)
    except TimeoutError:
        return False
    return status == 200


async def _wait_for_end() -> Any:
    """Wait until cancelled. This stands for the client of a ping, which does not disconnect: the
    package waits for a disconnect until it has sent its response."""
    await asyncio.Event().wait()
