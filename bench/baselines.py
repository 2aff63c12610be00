"""What the same machine does without exthost: the denominators.

The raw ones are as lean as Python can be, on purpose: they hold no codec, match no ids and know
no time limit. `Streams` is the client that one would write in an afternoon.
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
# Above any line that is measured, else StreamReader ends at 64 KiB.
STREAM_LIMIT = 1 << 28
# A child that has said nothing for so long has hung.
SILENCE_MS = 20_000

_HEAD, _TAIL = b'{"id":1000,"method":"echo","params":{"text":"', b'"}}\n'
# Params that make a request of exthost's a line of 100 bytes, with an id of four digits.
SMALL: dict[str, str] = {"text": "x" * (LINE_BYTES - len(_HEAD) - len(_TAIL))}
SMALL_LINE = _HEAD + SMALL["text"].encode() + _TAIL
assert len(SMALL_LINE) == LINE_BYTES
# The same call as an MCP host sends it.
MCP_LINE = (
    b'{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":{"name":"echo","arguments":'
    b'{"text":"%b"}}}\n' % SMALL["text"].encode()
)
# json.dumps with separators would build an encoder for each call.
_COMPACT = json.JSONEncoder(separators=(",", ":")).encode


def ping_pong(child: Bare, calls: int, line: bytes = SMALL_LINE) -> Callable[[], None]:
    """`calls` rounds of one line, blocking: the 1.00 of every latency row."""
    to, back = child.stdin, child.stdout
    write, read = os.write, os.read

    def block() -> None:
        for _ in range(calls):
            write(to, line)
            while not read(back, READ_BYTES).endswith(b"\n"):
                pass

    return block


def large_line(size: int) -> bytes:
    """A request whose text has `size` bytes."""
    return _HEAD + b"x" * size + _TAIL


def round_trip(child: Bare, line: bytes, expected: int) -> Callable[[], None]:
    """One large line out and `expected` bytes back, both at once.

    Each trip reads straight into memory of its own, as whoever wants to keep the bytes must.
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
    """How long the answer to a request of ours is."""
    return len(line) - len(b'"method":"echo","params":') + len(b'"result":')


def start_many(argv: tuple[str, ...], count: int) -> list[subprocess.Popen[bytes]]:
    """`count` children started, each asked once, then each answer read. The caller ends them."""
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
    """asyncio streams + json: ids, futures and one reading task; no time limits, no supervision."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1000)
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    async def call(self, method: str, params: Any) -> Any:
        """Ask, and wait for the answer."""
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        request = {"id": number, "method": method, "params": params}
        self._writer.write(_COMPACT(request).encode() + b"\n")
        return await answer

    async def read(self) -> None:
        """Until end of input."""
        while line := await self._reader.readline():
            message = json.loads(line)
            self._waiting.pop(message["id"]).set_result(message["result"])


@asynccontextmanager
async def streams(argv: tuple[str, ...]) -> AsyncIterator[Streams]:
    """A child behind asyncio streams for the length of an `async with` block."""
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
