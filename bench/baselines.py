"""The baselines: what the same machine does without exthost.

The raw baselines are as lean as Python allows: they have no codec, match no ids and know no time
limit. `Streams` is a simple client of asyncio streams and json.
"""

import asyncio
import itertools
import json
import os
import select
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from bench.children import STOP_S, Bare, end, popen

LINE_BYTES = 100
READ_BYTES = 65536
# Above any line that is measured; the default of StreamReader is 64 KiB.
STREAM_LIMIT = 1 << 28
# A child that is silent for this long hangs.
SILENCE_MS = 20_000

_HEAD, _TAIL = b'{"id":1000,"method":"echo","params":{"text":"', b'"}}\n'
# With these params and an id of four digits a request of exthost is a line of 100 bytes.
SMALL: dict[str, str] = {"text": "x" * (LINE_BYTES - len(_HEAD) - len(_TAIL))}
SMALL_LINE = _HEAD + SMALL["text"].encode() + _TAIL
assert len(SMALL_LINE) == LINE_BYTES
# The same call as a nexo host and an MCP host send it.
NEXO_LINE = (
    b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"text":"%b"}},'
    b'"id":1000}\n' % SMALL["text"].encode()
)
MCP_LINE = (
    b'{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":{"name":"echo","arguments":'
    b'{"text":"%b"}}}\n' % SMALL["text"].encode()
)
# json.dumps with separators would build an encoder for each call.
_COMPACT = json.JSONEncoder(separators=(",", ":")).encode


def ping_pong(child: Bare, calls: int, line: bytes = SMALL_LINE) -> Callable[[], None]:
    """Send `calls` lines, one after another, and read each echo, blocking. Every latency row is a
    ratio to this."""
    to, back = child.stdin, child.stdout
    write, read = os.write, os.read

    def block() -> None:
        for _ in range(calls):
            write(to, line)
            while not read(back, READ_BYTES).endswith(b"\n"):
                pass

    return block


def large_line(size: int) -> bytes:
    """Return a request whose text has `size` bytes."""
    return _HEAD + b"x" * size + _TAIL


def round_trip(child: Bare, line: bytes, expected: int) -> Callable[[], None]:
    """Send one large line and read `expected` bytes at the same time.

    Each trip reads into memory of its own, as a program does that keeps the bytes.
    """
    child.widen()
    to, back = child.stdin, child.stdout

    def block() -> None:
        space = memoryview(bytearray(expected))
        poll = select.poll()
        poll.register(to, select.POLLOUT)
        poll.register(back, select.POLLIN)
        out, got = memoryview(line), 0
        while got < expected:
            ready = poll.poll(SILENCE_MS)
            if not ready:
                raise TimeoutError(f"the child stopped after {got} of {expected} bytes")
            for fd, _ in ready:
                if fd == back:
                    count = os.readv(back, [space[got:]])
                    if count == 0:
                        raise EOFError(f"the child ended after {got} of {expected} bytes")
                    got += count
                else:
                    out = out[os.write(to, out) :]
                    if not out:
                        poll.unregister(to)

    return block


def reply_bytes(line: bytes) -> int:
    """Return the length of the reply to a request."""
    return len(line) - len(b'"method":"echo","params":') + len(b'"result":')


def start_many(argv: tuple[str, ...], count: int) -> list[subprocess.Popen[bytes]]:
    """Start `count` children, send each a request, then read each reply. The caller ends them."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            processes.append(popen(argv))
            os.write(Bare(processes[-1]).stdin, SMALL_LINE)
        for process in processes:
            while not os.read(Bare(process).stdout, READ_BYTES).endswith(b"\n"):
                pass
    except BaseException:
        for process in processes:
            end(process)
        raise
    return processes


class Streams:
    """A client on asyncio streams and json: ids, futures and one reading task; no time limits, no
    supervision."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1000)
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    async def call(self, method: str, params: Any) -> Any:
        """Send a request and return its result."""
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        request = {"id": number, "method": method, "params": params}
        self._writer.write(_COMPACT(request).encode() + b"\n")
        return await answer

    async def read(self) -> None:
        """Read replies until end of input."""
        while line := await self._reader.readline():
            message = json.loads(line)
            self._waiting.pop(message["id"]).set_result(message["result"])


@asynccontextmanager
async def streams(argv: tuple[str, ...]) -> AsyncIterator[Streams]:
    """Start a child behind asyncio streams for an `async with` block."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=pipe, stdout=pipe, limit=STREAM_LIMIT
    )
    assert process.stdin is not None and process.stdout is not None
    client = Streams(process.stdout, process.stdin)
    reading = asyncio.create_task(client.read())
    try:
        yield client
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()
        await reading
