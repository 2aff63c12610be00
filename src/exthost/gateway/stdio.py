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
import select
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from fcntl import F_DUPFD_CLOEXEC, fcntl
from typing import Any, NamedTuple

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from exthost.gateway.server import McpServer
from exthost.wire.framing import READ_BYTES, Broken, Skipped
from exthost.wire.lines import Lines

# The same limit as for the lines of children.
MAX_LINE_BYTES = 64 * 2**20

# The time for the last answers to be written after stdin has ended.
FLUSH_SECONDS = 2.0

# For the requests under way to be answered after stdin has ended. A client that wants us to end
# sooner sends SIGTERM or closes its end of stdout.
ANSWER_SECONDS = 600.0

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
    """The ids of the requests that are not answered yet."""

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
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._none.wait()
        except TimeoutError:
            pass


async def serve(server: McpServer, wire: Wire) -> None:
    """Serve the client at the other end, until it closes stdin or stops reading."""
    received, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    loop = asyncio.get_running_loop()
    under_way = _UnderWay()
    reading = loop.create_task(_read(wire.reads, received, write_stream.clone(), under_way))
    writing = loop.create_task(_write(wire.writes, outgoing, under_way))
    writing.add_done_callback(lambda _: reading.cancel())  # no client is left
    try:
        await server.run(read_stream, write_stream, server.create_initialization_options())
        await asyncio.wait([writing], timeout=FLUSH_SECONDS)
    finally:
        for task in (reading, writing):
            task.cancel()
        await asyncio.wait([reading, writing])
        for stream in (received, outgoing):
            stream.close()


async def _read(
    fd: int,
    received: "MemoryObjectSendStream[SessionMessage | Exception]",
    answers: "MemoryObjectSendStream[SessionMessage]",
    under_way: _UnderWay,
) -> None:
    with received, answers:
        async for line in _lines(fd):
            for message in _messages(line):
                await _take(message, received, answers, under_way)
        await under_way.end()


async def _take(
    line: bytes,
    received: "MemoryObjectSendStream[SessionMessage | Exception]",
    answers: "MemoryObjectSendStream[SessionMessage]",
    under_way: _UnderWay,
) -> None:
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        await answers.send(SessionMessage(_complaint(line)))
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


async def _lines(fd: int) -> AsyncIterator[bytes]:
    framing = Lines(MAX_LINE_BYTES)
    while True:
        await _until(asyncio.get_running_loop().add_reader, _forget_reader, fd)
        data = os.read(fd, READ_BYTES)
        if not data:
            return
        for item in framing.feed(data):
            yield item.head if isinstance(item, Skipped | Broken) else bytes(item)


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


async def _write(
    fd: int, outgoing: "MemoryObjectReceiveStream[SessionMessage]", under_way: _UnderWay
) -> None:
    with outgoing:
        async for item in outgoing:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            left = memoryview(text.encode() + b"\n")
            while left:
                await _until(asyncio.get_running_loop().add_writer, _forget_writer, fd)
                try:
                    # A writable pipe takes this many bytes without blocking.
                    left = left[os.write(fd, left[: select.PIPE_BUF]) :]
                except BrokenPipeError:
                    return
            under_way.remove(item.message)


async def _until(watch: Callable[..., Any], forget: Callable[[int], None], fd: int) -> None:
    """Wait until this descriptor is ready. Regular files always are, and cannot be watched."""
    ready = asyncio.Event()
    try:
        watch(fd, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        forget(fd)


def _forget_reader(fd: int) -> None:
    asyncio.get_running_loop().remove_reader(fd)


def _forget_writer(fd: int) -> None:
    asyncio.get_running_loop().remove_writer(fd)
