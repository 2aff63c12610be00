"""Readers of large frames read in turn, and pause between reads after 32 MiB."""

import asyncio
from collections.abc import Callable
from typing import cast

from exthost.process.large_frame_queue import SHARED_READ_BYTES, LargeFrameQueue

MIB = 2**20


class FakeLoop:
    """An event loop whose time moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: list[Callable[[], None]] = []
        self.later: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        assert seconds > 0
        self.later.append(callback)


class EndlessReader:
    """A reader inside a frame that does not end."""

    def __init__(self) -> None:
        self.reads = 0

    def read_large_frame(self) -> bool:
        self.reads += 1
        return True


def add_readers(loop: FakeLoop, count: int) -> list[EndlessReader]:
    """Add new readers to a queue of this loop, each of them twice, and return them."""
    queue = LargeFrameQueue(cast("asyncio.AbstractEventLoop", loop))
    readers = [EndlessReader() for _ in range(count)]
    for reader in readers:
        queue.add(reader)
        queue.add(reader)
    return readers


def test_one_reader_reads_in_each_iteration() -> None:
    loop = FakeLoop()
    readers = add_readers(loop, 3)
    for _ in range(6):
        (step,) = loop.soon
        loop.soon.clear()
        step()
    assert [reader.reads for reader in readers] == [2, 2, 2]


def test_readers_pause_after_each_read_from_32_mib_on_for_ten_seconds() -> None:
    loop = FakeLoop()
    readers = add_readers(loop, 40)
    while loop.soon:
        loop.soon.pop()()
    read_bytes = sum(reader.reads for reader in readers) * SHARED_READ_BYTES
    assert 32 * MIB <= read_bytes <= 33 * MIB
    for _ in range(100):
        (step,) = loop.later
        loop.later.clear()
        step()
        assert not loop.soon
    loop.now = 10.0
    loop.later.pop()()
    assert loop.soon and not loop.later
