"""The protocol on stdin and stdout of this process.

While it is served, stdout carries the protocol alone: descriptor 1 leads to stderr, so that a stray
print of a library lands there. Neither pipe is made non-blocking, because that would affect every
process that shares it, such as a terminal. No thread waits in an uninterruptible read: reads and
writes are made when the system reports that they will not block.

A line that is not a message gets the error of JSON-RPC. A line with several messages, which the
revision 2025-03-26 allows, gets a reply line for each. At the end of stdin, requests in flight are
answered first, each within the limits of its own call; then the server ends.
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

from exthost.gateway.line_writer import LineWriter
from exthost.gateway.server import McpServer
from exthost.gateway.stdio_calls import CONNECTION, StdioCalls
from exthost.wire.framing import READ_BYTES, Broken, Skipped
from exthost.wire.lines import Lines

# The same limit as for the lines of children.
MAX_LINE_BYTES = 64 * 2**20

# The time for the last answers to be written after stdin has ended.
FLUSH_SECONDS = 2.0

# For the requests under way to be answered after stdin has ended. A client that wants us to end
# sooner sends SIGTERM or closes its end of stdout.
ANSWER_SECONDS = 600.0

# Lines that wait for the package; meanwhile no more is read.
MAX_LINES_LEFT = 64

# A request that ends with the session, and not before.
_OPEN_END = "subscriptions/listen"


class Wire(NamedTuple):
    """Two descriptors that no other code uses."""

    reads: int
    writes: int


@contextmanager
def claimed() -> Iterator[Wire]:
    """Take over stdin and stdout as the wire; meanwhile descriptor 0 leads to /dev/null and
    descriptor 1 to stderr."""
    wire = Wire(fcntl(0, F_DUPFD_CLOEXEC, 3), fcntl(1, F_DUPFD_CLOEXEC, 3))
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield wire
    finally:
        os.dup2(wire.reads, 0)
        os.dup2(wire.writes, 1)
        for fd in (nothing, *wire):
            os.close(fd)


class _UnderWay:
    """The ids of the requests at the package that are not answered yet."""

    def __init__(self) -> None:
        self._ids: set[tuple[type, Any]] = set()
        self._none = asyncio.Event()
        self._none.set()

    def add(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest) and message.method != _OPEN_END:
            self._ids.add((type(message.id), message.id))
            self._none.clear()
        elif (
            isinstance(message, types.JSONRPCNotification)
            and message.method == "notifications/cancelled"  # such a request is not answered
        ):
            self._discard((message.params or {}).get("requestId"))

    def remove(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._discard(message.id)

    def _discard(self, id: Any) -> None:
        if isinstance(id, int | str):
            self._ids.discard((type(id), id))
        if not self._ids:
            self._none.set()

    async def end(self) -> None:
        """Wait until each of them is answered."""
        await self._none.wait()


class _Outgoing:
    """Where the package writes its messages."""

    def __init__(self, writer: LineWriter, under_way: _UnderWay) -> None:
        self._writer = writer
        self._under_way = under_way

    async def send(self, item: SessionMessage, /) -> None:
        await self._writer.ready()
        if self._writer.is_broken:
            raise anyio.BrokenResourceError
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._writer.write(text.encode() + b"\n")
        self._under_way.remove(item.message)

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class _Lines:
    """The lines of a descriptor, read when the system reports that a read will not block. Each goes
    to `take` at once; those that it returns False for are to be fetched by `next`."""

    def __init__(self, fd: int, take: Callable[[bytes], bool]) -> None:
        self._fd = fd
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._framing = Lines(MAX_LINE_BYTES)
        self._left: deque[bytes] = deque()
        self._change = asyncio.Event()
        self._is_reading = False
        self._has_ended = False

    async def next(self) -> bytes | None:
        """Return the next line that was left, None at the end."""
        while not self._left:
            if self._has_ended:
                return None
            self._change.clear()
            self._resume()
            await self._change.wait()
        return self._left.popleft()

    def _resume(self) -> None:
        if self._is_reading:
            return
        try:
            self._loop.add_reader(self._fd, self._read)
            self._is_reading = True
        except PermissionError:  # a regular file is always ready, and cannot be watched
            self._loop.call_soon(self._read)

    def pause(self) -> None:
        """Read nothing more for now."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def _read(self) -> None:
        data = os.read(self._fd, READ_BYTES)
        if not data:
            self._has_ended = True
            self.pause()
        for item in self._framing.feed(data) if data else ():
            line = item.head if isinstance(item, Skipped | Broken) else bytes(item)
            if not self._take(line):
                self._left.append(line)
        if len(self._left) >= MAX_LINES_LEFT:
            self.pause()
        if self._left or self._has_ended or not self._is_reading:
            self._change.set()


async def serve(server: McpServer, wire: Wire) -> None:
    """Serve the client at the other end, until it closes stdin or stops reading."""
    received, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    under_way = _UnderWay()
    writer = LineWriter(wire.writes, lambda: reading.cancel())  # no client is left
    calls = StdioCalls(server.gateway.answer_call, writer)
    lines = _Lines(wire.reads, calls.take)
    outgoing = _Outgoing(writer, under_way)

    async def read() -> None:
        with received:
            try:
                while (line := await lines.next()) is not None:
                    for message in _messages(line):
                        await _take(message, received, writer, under_way)
            finally:
                lines.pause()
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await calls.end()
                    await under_way.end()
                    await writer.flush()

    reading = asyncio.get_running_loop().create_task(read())
    CONNECTION.set(calls)
    try:
        await server.run(read_stream, outgoing, server.create_initialization_options())
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        await calls.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                await writer.flush()
        writer.close()
        received.close()


async def _take(
    line: bytes,
    received: "MemoryObjectSendStream[SessionMessage | Exception]",
    writer: LineWriter,
    under_way: _UnderWay,
) -> None:
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        complaint = _complaint(line).model_dump_json(by_alias=True, exclude_unset=True)
        writer.write(complaint.encode() + b"\n")
    else:
        under_way.add(message)
        await received.send(SessionMessage(message))


def _messages(line: bytes) -> list[bytes]:
    """Return the messages in a line, usually one."""
    if line[:1] == b"[":
        try:
            several = json.loads(line)
            return [json.dumps(message).encode() for message in several] or [line]
        except (ValueError, RecursionError):
            pass
    return [line]


def _complaint(line: bytes) -> types.JSONRPCError:
    """Return the JSON-RPC error for a line that is not a message."""
    id = None
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        code, why = types.PARSE_ERROR, "this line is not JSON"
    else:
        code, why = types.INVALID_REQUEST, "this line is no JSON-RPC message"
        found = read.get("id") if isinstance(read, dict) else None
        id = found if type(found) in (int, str) else None
    return types.JSONRPCError(jsonrpc="2.0", id=id, error=types.ErrorData(code=code, message=why))
