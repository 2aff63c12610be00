"""The queue of pipes that are in the midst of a large frame (one long message).

Each iteration of the event loop reads from one of them, in turn, so that other work is not held up.
After 32 MiB within ten seconds, each read is followed by a pause. The loop and the readers are
fakes.
"""

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
    """A reader inside a frame that does not end: it always wants another turn."""

    def __init__(self) -> None:
        self.reads = 0

    def read_large_frame(self) -> bool:
        self.reads += 1
        return True


def add_readers(loop: FakeLoop, count: int) -> list[EndlessReader]:
    """Add new readers to a queue of this loop, and return them."""
    queue = LargeFrameQueue(cast("asyncio.AbstractEventLoop", loop))
    readers = [EndlessReader() for _ in range(count)]
    for reader in readers:
        queue.add(reader)
        queue.add(reader)  # has no effect: the reader waits already
    return readers


def test_each_iteration_of_the_loop_serves_one_reader_in_turn() -> None:
    loop = FakeLoop()
    readers = add_readers(loop, 3)
    for reads in ([1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1], [2, 2, 1], [2, 2, 2]):
        (step,) = loop.soon
        loop.soon.clear()
        step()
        assert [reader.reads for reader in readers] == reads


def test_after_32_mib_within_ten_seconds_each_read_is_followed_by_a_pause() -> None:
    loop = FakeLoop()
    readers = add_readers(loop, 40)
    while loop.soon:
        loop.soon.pop()()
    reads = sum(reader.reads for reader in readers)
    assert 32 * MIB <= reads * SHARED_READ_BYTES <= 33 * MIB
    for number in range(1, 101):  # the clock stands still: the ten seconds are not over
        (step,) = loop.later
        loop.later.clear()
        step()
        assert not loop.soon
        assert sum(reader.reads for reader in readers) == reads + number
    loop.now = 10.0
    loop.later.pop()()
    assert loop.soon and not loop.later
