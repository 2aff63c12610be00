"""The least that a client in Python does: an id and a future for each call, msgspec, and a pipe
that the event loop watches.

It has no time limits, no check of arguments, no cancellation, and does not notice when the child
ends. So the time that it takes for a call is a bound for `host.call_tool`, which has all of these.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from bench.baselines import READ_BYTES
from bench.children import bare

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class LeanClient:
    """A client of one child. A single request is written at once; others are written together,
    after the current iteration of the event loop."""

    def __init__(self, to: int, back: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._to = to
        self._back = back
        self._last_id = 1000
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._unsent: list[bytes] = []
        self._partial_line = b""

    async def call(self, method: str, params: Any) -> Any:
        """Send a request and return its result."""
        self._last_id = number = self._last_id + 1
        line = _encode({"id": number, "method": method, "params": params}) + b"\n"
        if self._waiting:
            if not self._unsent:
                self._loop.call_soon(self._send)
            self._unsent.append(line)
        else:
            os.write(self._to, line)
        answer = self._waiting[number] = self._loop.create_future()
        return await answer

    def _send(self) -> None:
        data = b"".join(self._unsent)
        self._unsent.clear()
        assert os.write(self._to, data) == len(data), "a block of calls fits into the pipe"

    def read(self) -> None:
        """Read replies, and end their calls."""
        *lines, self._partial_line = (self._partial_line + os.read(self._back, READ_BYTES)).split(
            b"\n"
        )
        for line in lines:
            message = _decode(line)
            self._waiting.pop(message["id"]).set_result(message["result"])


@contextmanager
def lean_client(argv: tuple[str, ...]) -> Iterator[LeanClient]:
    """Start a child behind a `LeanClient` for a `with` block. An event loop must be running."""
    loop = asyncio.get_running_loop()
    with bare(argv) as child:
        client = LeanClient(child.stdin, child.stdout)
        loop.add_reader(child.stdout, client.read)
        try:
            yield client
        finally:
            loop.remove_reader(child.stdout)
