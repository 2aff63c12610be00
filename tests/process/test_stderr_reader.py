"""`StderrReader`, which reads the stderr of an extension whenever the event loop reports data.

If an extension writes too much (a flood), the loop does not watch the pipe any more. Instead the
reader waits in a queue and reads in short turns, so that other extensions are not held up. The pipe
here is a fake with prepared pieces of data.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any, cast

from exthost.process.flood_queue import TurnEnd
from exthost.process.pipe_ends import ReadEnd
from exthost.process.stderr_reader import StderrReader


class Pipe:
    """A pipe with these pieces of data. An empty piece is the end, and an error is raised."""

    def __init__(self, *pieces: bytes | OSError) -> None:
        self.pieces = list(pieces)
        self.callback: Callable[[], None] | None = None

    def is_watched(self) -> bool:
        return self.callback is not None

    def watch(self, loop: Any, callback: Callable[[], None]) -> None:
        self.callback = callback

    def unwatch(self, loop: Any) -> None:
        self.callback = None

    def read(self, size: int) -> bytes:
        if not self.pieces:
            raise BlockingIOError
        piece = self.pieces.pop(0)
        if isinstance(piece, OSError):
            raise piece
        return piece


def read_from(pipe: Pipe) -> tuple[StderrReader, list[bytes]]:
    received: list[bytes] = []
    loop = asyncio.get_running_loop()
    return StderrReader(cast(ReadEnd, pipe), loop, received.append), received


async def test_each_notification_reads_once_until_the_end() -> None:
    pipe = Pipe(b"one", b"two", b"")
    _, received = read_from(pipe)
    for expected in ([b"one"], [b"one", b"two"], [b"one", b"two"]):
        assert pipe.callback is not None
        pipe.callback()
        assert received == expected
    assert not pipe.is_watched()


async def test_an_error_of_the_pipe_is_its_end() -> None:
    pipe = Pipe(OSError("gone"), b"more")
    reader, received = read_from(pipe)
    assert pipe.callback is not None
    pipe.callback()
    reader.drain(100)
    assert not pipe.is_watched() and received == []


async def test_drain_reads_up_to_its_limit_and_stops_at_an_empty_pipe() -> None:
    pipe = Pipe(b"12", b"34", b"56")
    reader, received = read_from(pipe)
    reader.drain(4)
    assert received == [b"12", b"34"]
    reader.drain(100)
    assert received == [b"12", b"34", b"56"] and pipe.is_watched()
    reader.close()
    reader.close()
    assert not pipe.is_watched()


async def test_a_flood_waits_for_its_turn_and_a_turn_ends_in_time() -> None:
    pipe = Pipe(b"x" * 2**24)  # far more than the budget of a pipe, so a flood
    reader, received = read_from(pipe)
    on_readable = pipe.callback
    assert on_readable is not None
    on_readable()
    pipe.pieces = [b"a", b"b", b"c"]
    on_readable()
    assert received[1:] == [] and not pipe.is_watched()
    # The first argument is the end of the turn: it has passed, so the turn reads only once.
    assert reader.take_turn(-math.inf, may_be_long=False) is TurnEnd.MORE
    assert received[1:] == [b"a"] and not pipe.is_watched()
    assert reader.take_turn(math.inf, may_be_long=False) is TurnEnd.EMPTY
    assert received[1:] == [b"a", b"b", b"c"] and pipe.is_watched()
    reader.close()
    assert reader.take_turn(math.inf, may_be_long=False) is TurnEnd.EMPTY
    assert not pipe.is_watched()
