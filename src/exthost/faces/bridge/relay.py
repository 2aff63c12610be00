"""Passes MCP messages between stdin and stdout on one side, and a remote server on the other.

A host starts `exthost bridge URL` for an extension that is a remote MCP server. To the host, the
bridge looks like any MCP server on stdio. If the server cannot be reached, or has ended the
session, the bridge ends with an error: the host then starts another bridge, as after a crash, and
makes a new handshake. If only one answer breaks off, that call gets an error reply.
"""

import asyncio
import contextlib
import logging
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeGuard
from urllib.parse import urlsplit

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from exthost.errors import ExtensionGone, ExthostError
from exthost.faces.bridge.login import (
    browser_login,
    login_failed_error,
    login_needed_error,
    stored_login,
)
from exthost.faces.bridge.request_headers import RequestHeaders
from exthost.faces.bridge.token_file import TokenFile
from exthost.wire import jsontext

# The largest message of either side: the limit that the host has for a message.
_MAX_MESSAGE = 64 * 2**20

# The time limit to connect, and to send a request. An answer may take as long as the host waits.
_TIMEOUT = httpx2.Timeout(30.0, read=None)

# How long the requests in flight may take after stdin has ended. A host that wants the bridge to
# end sooner sends SIGTERM.
_LAST_ANSWERS_SECONDS = 10.0

# How many of the tools that cannot be called are reported for one list.
_MAX_REASONS = 20

# A request that is answered only at the end of the session.
_ENDLESS_METHOD = "subscriptions/listen"
# This notification cancels a request, which is then not answered.
_CANCEL_METHOD = "notifications/cancelled"

# The statuses with which a server that has no streamable HTTP answers a POST at its URL.
_NO_POST = frozenset({400, 404, 405})

_SESSION_HEADER = "mcp-session-id"


@dataclass(slots=True)
class RemoteServer:
    """How a server is reached. `headers` are sent with each request. `transport` is "http", "sse"
    or "auto" (HTTP, or SSE if the server does not support that). `tokens` are those of a login."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    transport: str
    tokens: TokenFile

    @property
    def origin(self) -> str:
        """The scheme and host, for messages: the rest of a URL may be secret."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{host}{'' if parts.port is None else f':{parts.port}'}"


class _NoStreamableHttp(Exception):
    """The server does not accept the first message by POST. `unsent` are the messages to send by
    another transport."""

    def __init__(self, unsent: list[JSONRPCMessage]) -> None:
        super().__init__()
        self.unsent = unsent


async def run_bridge(server: RemoteServer) -> None:
    """Relay messages until stdin ends. Raises ExthostError if the server cannot be used."""
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)  # its errors are raised here
    stdin, write_line = await _open_stdio()
    first = await _read_message(stdin, write_line)
    if first is None:
        return
    unsent = [first]
    if server.transport != "sse":
        try:
            await _Relay(server, stdin, write_line).run(unsent)
            return
        except _NoStreamableHttp as refused:
            unsent = refused.unsent
    await _Relay(server, stdin, write_line, is_sse=True).run(unsent)


async def log_in(server: RemoteServer, seconds: float) -> None:
    """Log in with a browser, and keep the tokens. Raises Refused after this many seconds."""
    try:
        async with (
            asyncio.timeout(seconds),
            browser_login(server.url, server.tokens) as login,
            httpx2.AsyncClient(auth=login, timeout=_TIMEOUT) as client,
        ):
            # Any request that needs the tokens. Its answer does not matter if it is not 401.
            response = await client.post(server.url, json={}, headers=dict(server.headers))
            if response.status_code == httpx2.codes.UNAUTHORIZED:
                raise login_failed_error("the server does not accept its own token")
    except TimeoutError:
        raise login_failed_error(f"it was not completed within {seconds:g} s") from None
    except ExthostError:
        raise
    except Exception as error:
        raise login_failed_error(str(error) or type(error).__name__) from error
    if not server.tokens.exists():
        raise login_failed_error("the server did not ask for one; it can be used without")


class _Relay:
    """One connection to a server."""

    def __init__(
        self,
        server: RemoteServer,
        stdin: asyncio.StreamReader,
        write_line: Callable[[bytes], Any],
        *,
        is_sse: bool = False,
    ) -> None:
        self._server = server
        self._stdin = stdin
        self._write_line = write_line
        self._is_sse = is_sse
        self._headers = RequestHeaders()
        self._failure: Exception | None = None
        self._is_accepted = is_sse  # whether the server has accepted a message by POST
        self._unsent: list[JSONRPCMessage] = []  # the messages that were sent before that
        self._has_ended = False  # whether stdin has ended
        self._unanswered: set[RequestId] = set()
        self._answered = asyncio.Event()  # set by each answer

    async def run(self, first: list[JSONRPCMessage]) -> None:
        """Relay messages, beginning with these."""
        try:
            async with (
                self._connect() as (received, send),
                anyio.create_task_group() as group,
            ):

                async def pass_on_input() -> None:
                    for message in first:
                        await self._send(message, send)
                    while True:
                        message_read = await _read_message(self._stdin, self._write_line)
                        if message_read is None:
                            break
                        await self._send(message_read, send)
                    self._has_ended = True
                    with anyio.move_on_after(_LAST_ANSWERS_SECONDS):
                        await self._wait_for_answers()
                    group.cancel_scope.cancel()

                group.start_soon(pass_on_input)
                async for item in received:
                    if isinstance(item, Exception):
                        raise item
                    await self._deliver(item.message)
                group.cancel_scope.cancel()
        except Exception as error:
            if not self._has_ended:
                raise self._translate(error) from error
        if not self._has_ended:
            raise self._translate(None)

    @contextlib.asynccontextmanager
    async def _connect(self) -> AsyncIterator[Any]:
        """Yield a stream of received messages, and a stream for messages to send."""
        server = self._server
        login = stored_login(server.url, server.tokens) if server.tokens.exists() else None
        if self._is_sse:
            async with sse_client(
                server.url,
                dict(server.headers),
                timeout=30.0,
                sse_read_timeout=None,  # type: ignore[arg-type]
                auth=login,
            ) as streams:
                yield streams
            return
        client = httpx2.AsyncClient(
            headers=dict(server.headers),
            auth=login,
            timeout=_TIMEOUT,
            event_hooks={"response": [self._see_response]},
        )
        async with (
            client,
            streamable_http_client(
                server.url, http_client=client, max_sse_event_size=_MAX_MESSAGE
            ) as streams,
        ):
            yield streams

    async def _see_response(self, response: httpx2.Response) -> None:
        """Raise the error of a response after which the connection is of no use."""
        request, status = response.request, response.status_code
        # The requests of a login, such as for a new token, go to other URLs.
        is_login_step = str(request.url) != str(httpx2.URL(self._server.url))
        if is_login_step:
            return
        if status == httpx2.codes.UNAUTHORIZED and not self._server.tokens.exists():
            self._fail(login_needed_error(self._server.url))
        has_session = _SESSION_HEADER in request.headers and request.method != "DELETE"
        if status == httpx2.codes.NOT_FOUND and has_session:
            self._fail(self._gone_error("it has ended the session"))
        if request.method == "POST" and not self._is_accepted:
            is_json = response.headers.get("content-type", "").startswith("application/json")
            if status in _NO_POST and not is_json and self._server.transport == "auto":
                self._fail(_NoStreamableHttp(self._unsent))
            if status != httpx2.codes.UNAUTHORIZED:  # which is followed by a login
                self._is_accepted, self._unsent = True, []

    def _fail(self, error: Exception) -> None:
        self._failure = error
        raise error

    async def _send(self, message: JSONRPCMessage, send: Any) -> None:
        """Send a message of the host to the server."""
        if self._is_sse and _is_discovery(message):
            await self._deliver(_discovery_error(message))
            return
        if not self._is_accepted:
            self._unsent.append(message)
        await send.send(self._stamped(message))

    async def _wait_for_answers(self) -> None:
        while self._unanswered:
            self._answered.clear()
            await self._answered.wait()

    def _stamped(self, message: JSONRPCMessage) -> SessionMessage:
        """Return a message with its HTTP headers. Remember a request as unanswered."""
        if isinstance(message, JSONRPCRequest):
            if message.method != _ENDLESS_METHOD:
                self._unanswered.add(message.id)
            headers = self._headers.for_request(message)
        else:
            if isinstance(message, JSONRPCNotification) and message.method == _CANCEL_METHOD:
                self._unanswered.discard((message.params or {}).get("requestId"))
            headers = self._headers.negotiated_version()
        return SessionMessage(message, metadata=ClientMessageMetadata(headers=headers))

    async def _deliver(self, message: JSONRPCMessage) -> None:
        """Write a message of the server to stdout."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            reasons = self._headers.process_reply(message)
            for reason in reasons[:_MAX_REASONS]:
                print(reason, file=sys.stderr, flush=True)
            if len(reasons) > _MAX_REASONS:
                more = len(reasons) - _MAX_REASONS
                noun = "tool" if more == 1 else "tools"
                print(f"{more} more {noun} cannot be called", file=sys.stderr, flush=True)
        await self._write_line(
            message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        )
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._unanswered.discard(message.id)
            self._answered.set()

    def _translate(self, error: Exception | None) -> Exception:
        """Return the error to raise for an error of the connection (None: it has ended without
        one). Errors of the transports come in groups."""
        if self._failure is not None:
            return self._failure
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, ExthostError):
            return error
        if isinstance(error, httpx2.HTTPStatusError):
            if error.response.status_code == httpx2.codes.UNAUTHORIZED:
                return login_needed_error(self._server.url)
            return self._gone_error(f"it answers with HTTP status {error.response.status_code}")
        if isinstance(error, httpx2.TransportError):
            return self._gone_error(f"it cannot be reached: {str(error) or type(error).__name__}")
        if error is None or isinstance(
            error, anyio.ClosedResourceError | anyio.BrokenResourceError
        ):
            return self._gone_error("it has closed the connection")
        return self._gone_error(f"{type(error).__name__}: {error}")

    def _gone_error(self, reason: str) -> ExtensionGone:
        return ExtensionGone(
            "X1809",
            f"the remote server at {self._server.origin} is gone: {reason}",
            help="check its URL and headers, and whether it runs",
        )


def _is_discovery(message: JSONRPCMessage) -> TypeGuard[JSONRPCRequest]:
    """Return whether this is the first request of a host that tries the stateless era of MCP."""
    return isinstance(message, JSONRPCRequest) and message.method == "server/discover"


def _discovery_error(request: JSONRPCRequest) -> JSONRPCError:
    """Return the answer to a client that asks for the stateless era of MCP (the versions without a
    handshake), which servers on SSE do not support."""
    error = ErrorData(code=METHOD_NOT_FOUND, message="a server on SSE needs initialize")
    return JSONRPCError(jsonrpc="2.0", id=request.id, error=error)


async def _open_stdio() -> tuple[asyncio.StreamReader, Callable[[bytes], Any]]:
    """Return a reader of stdin, and a function that writes a line to stdout and waits while the
    pipe is full. Both can be files."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_MAX_MESSAGE)
    if _is_file(sys.stdin.buffer):
        reader.feed_data(sys.stdin.buffer.read())
        reader.feed_eof()
    else:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    if _is_file(sys.stdout.buffer):

        async def write_to_file(line: bytes) -> None:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

        return reader, write_to_file
    # The transport closes its file, and the command line flushes sys.stdout after that.
    stdout = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, stdout)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def write_line(line: bytes) -> None:
        writer.write(line)
        await writer.drain()

    return reader, write_line


def _is_file(stream: BinaryIO) -> bool:
    # The event loop can connect to pipes and terminals, but not to regular files and /dev/null.
    mode = os.fstat(stream.fileno()).st_mode
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not stream.isatty())


async def _read_message(
    stdin: asyncio.StreamReader, write_line: Callable[[bytes], Any]
) -> JSONRPCMessage | None:
    """Return the next message; None at the end of stdin. Lines that are not messages are skipped. A
    request among them, such as one with a lone surrogate, is answered with an error."""
    while line := await stdin.readline():
        try:
            return jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            if line.strip():
                print("a line on stdin is not a message of MCP", file=sys.stderr, flush=True)
            id = _request_id(line)
            if id is not None:
                error = {"code": INVALID_REQUEST, "message": "the bridge cannot send this request"}
                answer = {"jsonrpc": "2.0", "id": id, "error": error}
                await write_line(jsontext.encode(answer) + b"\n")
    return None


def _request_id(line: bytes) -> RequestId | None:
    """Return the id of a request that is not a valid message of MCP; None if there is none."""
    try:
        message = jsontext.decode(line)
    except jsontext.NotJson:
        return None
    if not isinstance(message, dict) or "method" not in message:
        return None
    id = message.get("id")
    return id if type(id) in (int, str) else None
