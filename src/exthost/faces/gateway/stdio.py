"""The stdio transport of the gateway: serves MCP on stdin and stdout of this process, with the
`mcp` package ("the package").

Meanwhile file descriptor 1 refers to stderr, so that a stray print of a library cannot corrupt the
protocol. Neither pipe is made non-blocking, because that would affect every process that shares it,
such as the shell on a terminal. No thread waits in a read that cannot be interrupted: the event
loop reads and writes when the system reports that it will not block.

A line that is not a message gets a JSON-RPC error. A line with a batch of messages, which the
revision 2025-03-26 allows, gets a reply line for each request. At the end of stdin the requests in
flight are still answered, each within the time limit of its call, unless the client has closed
stdout as well; then the server ends.
"""

import asyncio
import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from typing import Any, NamedTuple, Self

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from exthost.faces.gateway.call_messages import check_request_id, find_leading_id
from exthost.faces.gateway.client_stream import CURRENT_STREAM, ClientLine, ClientStream
from exthost.faces.gateway.line_writer import LineWriter
from exthost.faces.gateway.server import McpServer
from exthost.faces.gateway.stdio_calls import CURRENT_CALLS, StdioCalls
from exthost.wire import jsontext
from exthost.wire.framing import READ_BYTES, Broken, Skipped
from exthost.wire.lines import Lines

# The same limit as for the lines of extensions.
MAX_LINE_BYTES = 64 * 2**20

# The time limit for writing the last answers after the server has ended.
FLUSH_SECONDS = 2.0

# The time limit for answering the requests in flight after stdin has ended. A client that wants the
# gateway to end sooner sends SIGTERM or closes its end of stdout.
ANSWER_SECONDS = 600.0

# Reading pauses while this many lines wait for the package (back-pressure).
MAX_UNHANDLED_LINES = 64

# A request that is answered only at the end of the session, so the end must not wait for its reply.
_ENDLESS_METHOD = "subscriptions/listen"


class ClaimedStdio(NamedTuple):
    """Duplicates of the file descriptors of stdin and stdout, which no other code uses."""

    read_fd: int
    write_fd: int


@contextmanager
def claim_stdio() -> Iterator[ClaimedStdio]:
    """Reserve stdin and stdout for the protocol. Within the block, file descriptor 0 refers to
    /dev/null and file descriptor 1 to stderr."""
    claimed = ClaimedStdio(fcntl(0, F_DUPFD_CLOEXEC, 3), fcntl(1, F_DUPFD_CLOEXEC, 3))
    dev_null = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(dev_null, 0)
        os.dup2(2, 1)
        yield claimed
    finally:
        os.dup2(claimed.read_fd, 0)
        os.dup2(claimed.write_fd, 1)
        for fd in (dev_null, *claimed):
            os.close(fd)


class _PendingRequests:
    """The requests that the package has not answered yet: the numbers of their lines, by id.
    `end_line` is called with the number of a line that gets no reply."""

    def __init__(self, end_line: Callable[[int], None]) -> None:
        self._end_line = end_line
        # The key has the type of the id, because 1 and True are equal in Python. The value is a
        # list, because a client may use an id twice.
        self._numbers: dict[tuple[type, Any], list[int]] = {}
        self._endless: set[tuple[type, Any]] = set()  # the keys of requests of _ENDLESS_METHOD
        self._all_answered = asyncio.Event()
        self._all_answered.set()

    def add(self, message: types.JSONRPCMessage, number: int) -> None:
        """Add the message in the line of this number, which is passed to the package."""
        if isinstance(message, types.JSONRPCRequest):
            key = (type(message.id), message.id)
            self._numbers.setdefault(key, []).append(number)
            if message.method == _ENDLESS_METHOD:
                self._endless.add(key)
            else:
                self._all_answered.clear()
            return
        if (
            isinstance(message, types.JSONRPCNotification)
            and message.method == "notifications/cancelled"  # a cancelled request gets no answer
        ):
            cancelled = self._pop((message.params or {}).get("requestId"))
            if cancelled is not None:
                self._end_line(cancelled)
        self._end_line(number)

    def remove(self, message: types.JSONRPCResponse | types.JSONRPCError) -> int | None:
        """Remove the request that this message answers. Return the number of its line, or None if
        no line is known."""
        return self._pop(message.id)

    def _pop(self, id: Any) -> int | None:
        """Remove the oldest request with this id. Return the number of its line, or None."""
        key = (type(id), id)
        numbers = self._numbers.get(key) if isinstance(id, int | str) else None
        number = numbers.pop(0) if numbers else None
        if numbers is not None and not numbers:
            del self._numbers[key]
            self._endless.discard(key)
        if len(self._numbers) == len(self._endless):
            self._all_answered.set()
        return number

    async def wait_until_answered(self) -> None:
        """Wait until each request is answered."""
        await self._all_answered.wait()


class _OutgoingStream:
    """The stream that the package sends its messages to. It implements the part of anyio's
    `ObjectSendStream` that the package uses."""

    def __init__(self, stream: ClientStream, pending_requests: _PendingRequests) -> None:
        self._stream = stream
        self._pending_requests = pending_requests

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message of the package to the client: as a reply if it answers a known line."""
        stream, message = self._stream, item.message
        await stream.wait_for_room()
        if stream.is_broken:
            raise anyio.BrokenResourceError
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            number = self._pending_requests.remove(message)
            if number is not None:
                stream.write_reply(number, line)
                return
        if isinstance(message, types.JSONRPCRequest):
            stream.write_request(line)
        else:
            stream.write(line)

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class StdioStream(LineWriter):
    """Reads lines from one file descriptor, when the system reports that a read will not block, and
    writes lines to another one."""

    plain_names: bool | None = None

    def __init__(self, claimed: ClaimedStdio) -> None:
        super().__init__(claimed.write_fd, self._report_broken)
        self.client_info: dict[str, Any] = {}
        self._read_fd = claimed.read_fd
        self._handle_line: Callable[[bytes, int], bool] = lambda *_: False
        self._on_client_gone: Callable[[], object] = lambda: None
        self._framing = Lines(MAX_LINE_BYTES)
        self._number = 0
        self._unhandled: deque[ClientLine] = deque()
        self._change = asyncio.Event()
        self._is_reading = False
        self._has_ended = False

    def open(
        self, handle_line: Callable[[bytes, int], bool], on_broken: Callable[[], object]
    ) -> None:
        self._handle_line, self._on_client_gone = handle_line, on_broken

    def _report_broken(self) -> None:
        self._on_client_gone()

    async def next(self) -> ClientLine | None:
        """Return the next line that `handle_line` has not handled; None at the end of stdin."""
        while not self._unhandled:
            if self._has_ended:
                return None
            self._change.clear()
            self._resume()
            await self._change.wait()
        return self._unhandled.popleft()

    def _resume(self) -> None:
        if self._is_reading:
            return
        try:
            self._loop.add_reader(self._read_fd, self._read)
            self._is_reading = True
        except PermissionError:  # a regular file is always ready, and cannot be watched
            self._loop.call_soon(self._read)

    def pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._read_fd)

    def _read(self) -> None:
        """Read what is there. Handle the complete lines, or queue them for `next`."""
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except BlockingIOError:  # another process that shares the pipe has read it
            return
        except OSError:  # a terminal that was closed, or a folder as stdin
            data = b""
        if not data:
            self._has_ended = True
            self.pause()
        for item in self._framing.feed(data) if data else ():
            self._number += 1
            line = item if isinstance(item, Skipped | Broken) else bytes(item)
            if not isinstance(line, bytes) or not self._handle_line(line, self._number):
                self._unhandled.append(ClientLine(self._number, line))
        if len(self._unhandled) >= MAX_UNHANDLED_LINES:
            self.pause()
        # A file that cannot be watched is read once for each call of `_resume`, so `next` goes on.
        if self._unhandled or self._has_ended or not self._is_reading:
            self._change.set()


async def serve(server: McpServer, claimed: ClaimedStdio) -> None:
    """Serve the client at the other end of the pipes, until it closes stdin or its end of
    stdout."""
    await serve_client(server, StdioStream(claimed))


async def serve_client(server: McpServer, stream: ClientStream) -> None:
    """Serve the client at the other end of a stream, until it closes either direction."""
    to_package, package_input = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    pending_requests = _PendingRequests(stream.end_line)
    CURRENT_STREAM.set(stream)
    calls = StdioCalls(server.gateway.answer_call, stream)
    package_output = _OutgoingStream(stream, pending_requests)

    async def read() -> None:
        """Pass the lines of the client on to the package. After the last one, wait until each
        request is answered, and then close the package's input, which ends the server."""
        with to_package:  # closing it at the end tells the package that the client sends no more
            try:
                while (line := await stream.next()) is not None:
                    number, text = line
                    if not isinstance(text, bytes):
                        reason = f"this line is longer than {MAX_LINE_BYTES:,} bytes"
                        stream.write_reply(number, _encode_parse_error(text.head, reason))
                        continue
                    for message in _split_batch(text):
                        await _pass_to_package(
                            ClientLine(number, message), to_package, stream, pending_requests
                        )
            finally:
                stream.pause()
            stream.watch_client()
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await calls.wait_until_answered()
                    await pending_requests.wait_until_answered()
                    await stream.flush()

    read_task = asyncio.get_running_loop().create_task(read())
    stream.open(calls.handle_line, read_task.cancel)
    CURRENT_CALLS.set(calls)
    try:
        await server.run(package_input, package_output, server.create_initialization_options())
    finally:
        read_task.cancel()
        await asyncio.wait([read_task])
        await calls.close()  # it writes a reply to each call, which `flush` waits for
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                await stream.flush()
        stream.close()
        to_package.close()
        await server.gateway.processes.end_client(stream)


async def _pass_to_package(
    client_line: ClientLine,
    to_package: "MemoryObjectSendStream[SessionMessage | Exception]",
    stream: ClientStream,
    pending_requests: _PendingRequests,
) -> None:
    """Pass a message on to the package, or reply with an error if it is not a message."""
    number, text = client_line
    assert isinstance(text, bytes)
    line, refusal = check_request_id(text)
    if refusal is not None:
        stream.write_reply(number, refusal + b"\n")
        return
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        stream.write_reply(number, _encode_line_error(line))
    else:
        pending_requests.add(message, number)
        await to_package.send(SessionMessage(message))


def _split_batch(line: bytes) -> list[bytes]:
    """Return the messages in a line: the items of a JSON array, or else the line itself."""
    if line.lstrip()[:1] == b"[":
        try:
            batch = json.loads(line)
            # An empty array is not a valid batch. It is kept as it is, and gets an error.
            return [json.dumps(message).encode() for message in batch] or [line]
        except (ValueError, RecursionError):
            pass
    return [line]


def _encode_line_error(line: bytes) -> bytes:
    """Return the JSON-RPC error for a line that is not a message."""
    try:
        value = jsontext.decode(line)
    except jsontext.NotJson as reason:
        return _encode_parse_error(line, f"this line is {reason}")
    raw_id = value.get("id") if isinstance(value, dict) else None
    id = raw_id if type(raw_id) in (int, str) else None
    return _encode_error(id, types.INVALID_REQUEST, "this line is not a JSON-RPC message")


def _encode_parse_error(head: bytes, reason: str) -> bytes:
    """Return the JSON-RPC error for a line that cannot be read. `head` is its beginning, from which
    the id is taken if possible, so that the client finds the request to which the error belongs."""
    return _encode_error(find_leading_id(head), types.PARSE_ERROR, reason)


def _encode_error(id: types.RequestId | None, code: int, reason: str) -> bytes:
    error = types.JSONRPCError(
        jsonrpc="2.0", id=id, error=types.ErrorData(code=code, message=reason)
    )
    return error.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
