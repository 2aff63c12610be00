"""`StdoutReader`, which reads the messages of an extension from its stdout, on a real pipe.

A framing divides the bytes into frames, one for each message: `Lines` or `Headers`. Every frame is
delivered once and in order. A frame of more than READ_BYTES is read in a faster way if a call may
be waiting for it (`may_serve_call`). Otherwise it counts as a flood: output that no call waits for
is read slowly, so that it does not hold up other extensions.
"""

import asyncio
import fcntl
import os
import threading
from collections.abc import Callable

import pytest

from exthost.process.flood_budget import PIPE_RATE, FloodBudget
from exthost.process.large_reads import WIDE_PIPE_BYTES
from exthost.process.pipe_ends import FdReadEnd
from exthost.process.stdout_reader import StdoutReader
from exthost.wire.framing import READ_BYTES, Broken, Framing, Item
from exthost.wire.headers import Headers
from exthost.wire.lines import Lines
from tests.extensions.harness import wait_until

MAX_MESSAGE = 32 * 2**20


class Pipe:
    """A pipe and its reader. The attributes record what the reader delivered."""

    def __init__(self, framing: Framing | None = None) -> None:
        self.stdout, self.writer = os.pipe()
        self.framing = framing or Lines(MAX_MESSAGE)
        self.frames: list[bytes] = []
        self.reads = 0
        self.ends = 0
        self.on_frames: Callable[[], None] | None = None
        self.may_serve_call = True
        self.reader = StdoutReader(
            FdReadEnd(self.stdout),
            self.framing,
            asyncio.get_running_loop(),
            on_items=self._on_items,
            on_end=self._on_end,
            may_serve_call=lambda head: self.may_serve_call,
        )

    def _on_items(self, items: list[Item]) -> None:
        self.reads += 1
        for item in items:
            assert isinstance(item, bytes | bytearray | memoryview), item
            self.frames.append(bytes(item))
        if self.on_frames is not None:
            self.on_frames()

    def _on_end(self) -> None:
        self.ends += 1

    def write(self, data: bytes) -> None:
        assert os.write(self.writer, data) == len(data)

    def write_from_a_thread(self, data: bytes) -> threading.Thread:
        """Write as a child does, which waits while the pipe is full; then close the pipe."""

        def write() -> None:
            unwritten = memoryview(data)
            while unwritten:
                unwritten = unwritten[os.write(self.writer, unwritten) :]
            os.close(self.writer)

        thread = threading.Thread(target=write)
        thread.start()
        return thread

    def close(self) -> None:
        self.reader.close()
        self.framing.release()
        os.close(self.stdout)


@pytest.mark.both_loops
async def test_the_complete_frames_of_one_read_are_delivered_together() -> None:
    pipe = Pipe()
    pipe.reader.resume()
    pipe.write(b"one\ntwo\nthr")
    await wait_until(lambda: pipe.frames != [])
    assert pipe.frames == [b"one", b"two"] and pipe.reads == 1
    pipe.write(b"ee\n")
    await wait_until(lambda: len(pipe.frames) == 3)
    assert pipe.frames[2] == b"three" and pipe.reads == 2
    assert pipe.reader.first_output == b"one\ntwo\nthree\n"
    os.close(pipe.writer)
    await wait_until(lambda: pipe.ends == 1)
    pipe.close()


@pytest.mark.both_loops
@pytest.mark.parametrize("framing", [Lines, Headers])
async def test_small_and_large_frames_are_delivered_whole_and_in_order(
    framing: Callable[[int], Framing],
) -> None:
    pipe = Pipe(framing(MAX_MESSAGE))
    sizes = [10, 3 * 2**20, 1, READ_BYTES, 100_000, 5, 2**20, 700]
    payloads = [b"%d" % (n % 10) * size for n, size in enumerate(sizes)]
    data = b"".join(map(framing(MAX_MESSAGE).wrap, payloads))
    pipe.reader.resume()
    thread = pipe.write_from_a_thread(data)
    await wait_until(lambda: pipe.ends == 1)
    thread.join()
    assert pipe.frames == payloads
    assert pipe.framing.end() is None
    pipe.close()


async def test_the_first_large_frame_widens_the_pipe() -> None:
    pipe = Pipe()
    original_size = fcntl.fcntl(pipe.stdout, fcntl.F_GETPIPE_SZ)
    pipe.reader.resume()
    pipe.write(b"small\n")
    await wait_until(lambda: pipe.frames != [])
    assert fcntl.fcntl(pipe.stdout, fcntl.F_GETPIPE_SZ) == original_size
    thread = pipe.write_from_a_thread(b"x" * 2**20 + b"\n")
    await wait_until(lambda: pipe.ends == 1)
    thread.join()
    assert len(pipe.frames[1]) == 2**20
    assert fcntl.fcntl(pipe.stdout, fcntl.F_GETPIPE_SZ) == WIDE_PIPE_BYTES
    pipe.close()


@pytest.mark.both_loops
@pytest.mark.parametrize("framing", [Lines, Headers])
async def test_a_large_frame_that_no_call_waits_for_is_a_flood(
    framing: Callable[[int], Framing],
) -> None:
    pipe = Pipe(framing(MAX_MESSAGE))
    original_size = fcntl.fcntl(pipe.stdout, fcntl.F_GETPIPE_SZ)
    pipe.may_serve_call = False
    pipe.reader.resume()
    payload = b"x" * 10 * READ_BYTES
    thread = pipe.write_from_a_thread(pipe.framing.wrap(payload)[:-1])
    await wait_until(lambda: pipe.reader.is_flooded)
    assert pipe.frames == [] and not pipe.reader._large_frames.readers
    await wait_until(lambda: pipe.ends == 1)
    thread.join()
    assert pipe.frames == [] and pipe.framing.end() is not None
    assert pipe.reader.budget.level(asyncio.get_running_loop().time()) > 0
    assert fcntl.fcntl(pipe.stdout, fcntl.F_GETPIPE_SZ) == original_size
    pipe.close()


async def test_a_large_frame_becomes_a_flood_when_its_call_has_ended() -> None:
    pipe = Pipe()
    flooded_at_frames: list[bool] = []
    pipe.on_frames = lambda: flooded_at_frames.append(pipe.reader.is_flooded)
    pipe.reader.resume()
    # Two frames of two parts: a call waits for the first frame, and none for the second.
    for may_serve_call in (True, False):
        pipe.may_serve_call = may_serve_call
        pipe.write(b"x" * READ_BYTES)
        await wait_until(lambda: pipe.framing.read_size > READ_BYTES)
        pipe.write(b"x\n")
        await wait_until(lambda: pipe.framing.read_size == READ_BYTES)
    await wait_until(lambda: len(pipe.frames) == 2)
    assert flooded_at_frames == [False, True]
    os.close(pipe.writer)
    pipe.close()


async def test_after_a_large_frame_that_no_call_waited_for_the_next_is_a_flood() -> None:
    pipe = Pipe()
    flooded_at_frames: list[bool] = []

    def on_frames() -> None:
        flooded_at_frames.append(pipe.reader.is_flooded)
        pipe.reader.unawaited_units += 1000

    pipe.on_frames = on_frames
    pipe.reader.resume()
    for count in (1, 2):
        pipe.write(b"x" * READ_BYTES)
        await wait_until(lambda: pipe.framing.read_size > READ_BYTES)
        pipe.write(b"x\n")
        await wait_until(lambda count=count: len(pipe.frames) == count)  # type: ignore[misc]
        assert pipe.reader.is_flooded
        if count == 1:
            pipe.reader.is_flooded = False  # as if some time had passed
            pipe.reader.budget = FloodBudget(PIPE_RATE)
    assert flooded_at_frames == [False, True]
    os.close(pipe.writer)
    pipe.close()


@pytest.mark.both_loops
async def test_a_paused_pipe_is_not_read_until_it_is_resumed() -> None:
    pipe = Pipe()
    pipe.on_frames = pipe.reader.pause
    pipe.reader.resume()
    pipe.write(b"one\n")
    await wait_until(lambda: pipe.frames == [b"one"])
    assert not pipe.reader.is_reading
    pipe.write(b"two\n")
    os.close(pipe.writer)
    for _ in range(5):
        await asyncio.sleep(0.001)
    assert (pipe.frames, pipe.ends) == ([b"one"], 0)
    pipe.on_frames = None
    pipe.reader.resume()
    pipe.reader.resume()  # the second call has no effect
    await wait_until(lambda: pipe.ends == 1)
    assert pipe.frames == [b"one", b"two"]
    pipe.close()


@pytest.mark.both_loops
async def test_the_end_of_the_pipe_is_reported_once_with_an_unfinished_frame() -> None:
    pipe = Pipe()
    pipe.reader.resume()
    pipe.write(b"whole\nunfinished")
    os.close(pipe.writer)
    await wait_until(lambda: pipe.ends == 1)
    assert pipe.frames == [b"whole"] and not pipe.reader.is_reading
    assert isinstance(pipe.framing.end(), Broken)
    for _ in range(5):
        await asyncio.sleep(0.001)
    assert pipe.ends == 1
    pipe.close()


async def test_read_now_reads_the_available_bytes_and_an_empty_pipe_is_not_the_end() -> None:
    pipe = Pipe()
    pipe.reader.resume()
    pipe.reader.read_now()
    assert (pipe.frames, pipe.ends) == ([], 0)
    pipe.write(b"now\n")
    pipe.reader.read_now()
    assert pipe.frames == [b"now"]
    os.close(pipe.writer)
    pipe.close()


async def test_a_closed_reader_does_not_read_and_cannot_be_resumed() -> None:
    pipe = Pipe()
    pipe.reader.resume()
    pipe.reader.close()
    pipe.write(b"too late\n")
    pipe.reader.resume()
    for _ in range(5):
        await asyncio.sleep(0.001)
    assert pipe.frames == [] and not pipe.reader.is_reading and pipe.reader.is_closed
    os.close(pipe.writer)
    pipe.close()


async def test_the_memory_for_large_frames_is_released_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("exthost.process.stdout_reader._KEPT_SECONDS", 0.01)
    releases = []

    class ReleaseCounter(Lines):
        def release(self) -> None:
            releases.append(True)
            super().release()

    pipe = Pipe(ReleaseCounter(MAX_MESSAGE))
    pipe.reader.resume()
    thread = pipe.write_from_a_thread(b"x" * 2**20 + b"\n")
    await wait_until(lambda: pipe.ends == 1)
    thread.join()
    await wait_until(lambda: releases != [])
    pipe.close()
