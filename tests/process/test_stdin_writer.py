"""`StdinWriter` on a real pipe: it writes the messages of the host to the stdin of an extension.

Messages keep their order, and no write blocks: what the pipe does not accept stays in a backlog.
`write` writes at once; `gather` waits until the end of the event loop's iteration, so that several
messages are one system call. A reader that reads nothing for a long time is reported as stalled.
"""

import asyncio
import fcntl
import os
import random
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from exthost.process.large_reads import WIDE_PIPE_BYTES
from exthost.process.pipe_ends import FdWriteEnd
from exthost.process.stdin_writer import BATCH_FRAMES, StdinWriter
from tests.extensions.harness import wait_until

# Longer than any test: a reader counts as stalled only when a test fires the timer.
STALL_SECONDS = 300.0


class LoopWithFakeTimers:
    """The running loop, with timers that fire only when a test calls `fire`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, delay: float, callback: Callable[[], None]) -> "FakeTimer":
        self.timers.append((delay, callback))
        return FakeTimer(self.timers, self.timers[-1])

    def fire(self) -> None:
        """Fire all timers that are set."""
        due, self.timers[:] = list(self.timers), []
        for _, callback in due:
            callback()


class FakeTimer(NamedTuple):
    """The handle that `call_later` returns."""

    all_timers: list[tuple[float, Callable[[], None]]]
    timer: tuple[float, Callable[[], None]]

    def cancel(self) -> None:
        if self.timer in self.all_timers:
            self.all_timers.remove(self.timer)


class Pipe:
    """A pipe and its writer. `reported` are the events that the writer reported."""

    def __init__(self, loop: Any = None) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.lock = threading.Lock()
        self.reported: list[str] = []
        loop = loop or asyncio.get_running_loop()
        self.stdin = StdinWriter(
            FdWriteEnd(self.writer),
            loop,
            self.lock,
            stall_seconds=STALL_SECONDS,
            close_pipe=lambda: os.close(self.writer),
            on_stall=lambda: self.reported.append("stalled"),
            on_broken=lambda: self.reported.append("broken"),
        )

    def fill(self) -> int:
        """Fill the pipe without the writer, and return the number of bytes."""
        total = 0
        while True:
            try:
                total += os.write(self.writer, b"." * 4096)
            except BlockingIOError:
                return total

    def read(self, limit: int = 1 << 20) -> bytes:
        try:
            return os.read(self.reader, limit)
        except BlockingIOError:
            return b""

    async def read_exactly(self, size: int) -> bytes:
        data = b""

        def read_more() -> bool:
            nonlocal data
            data += self.read(size - len(data))
            return len(data) == size

        await wait_until(read_more)
        return data

    def end(self) -> bool:
        everything_was_written = self.stdin.close()
        os.close(self.reader)
        return everything_was_written


async def test_a_lone_message_is_in_the_pipe_when_write_returns() -> None:
    pipe = Pipe()
    pipe.stdin.write(b"now")
    assert pipe.read() == b"now"
    assert pipe.end() is True


async def test_gathered_messages_are_written_together_at_the_end_of_the_iteration() -> None:
    pipe = Pipe()
    for n in range(5):
        pipe.stdin.gather(b"%d" % n)
    assert pipe.read() == b""
    await asyncio.sleep(0)
    assert pipe.read() == b"01234"
    assert pipe.end() is True


async def test_many_messages_of_one_iteration_are_written_in_batches() -> None:
    pipe = Pipe()
    for _ in range(BATCH_FRAMES):
        pipe.stdin.gather(b"x")
    assert pipe.read() == b"x" * BATCH_FRAMES
    pipe.stdin.gather(b"y")
    assert pipe.read() == b""
    await asyncio.sleep(0)
    assert pipe.read() == b"y"
    assert pipe.end() is True


@pytest.mark.parametrize("end", ["read", "closed", "broken"])
async def test_drained_returns_when_the_backlog_is_read_or_the_pipe_ends(
    end: str,
) -> None:
    pipe = Pipe()
    await pipe.stdin.drained()  # returns immediately without a backlog
    filler_bytes = pipe.fill()
    pipe.stdin.write(b"x" * 1000)
    waiting = asyncio.create_task(pipe.stdin.drained())
    await asyncio.sleep(0)
    assert not waiting.done() and pipe.stdin.unwritten_bytes == 1000
    if end == "read":
        await pipe.read_exactly(filler_bytes + 1000)
    elif end == "closed":
        assert pipe.stdin.close() is False
    else:
        os.close(pipe.reader)
    await asyncio.wait_for(waiting, 120)
    assert pipe.stdin.unwritten_bytes == 0
    pipe.stdin.close()
    if end != "broken":
        os.close(pipe.reader)


async def test_drained_waits_also_for_messages_that_were_gathered_before() -> None:
    pipe = Pipe()
    pipe.fill()
    pipe.stdin.gather(b"gathered")
    asyncio.get_running_loop().call_soon(pipe.read)  # makes room, in the next iteration
    async with asyncio.timeout(10):
        await pipe.stdin.drained()
    assert pipe.read() == b"gathered"
    assert pipe.end() is True


async def test_a_write_does_not_overtake_data_that_was_gathered_before_it() -> None:
    pipe = Pipe()
    pipe.stdin.gather(b"first ")
    pipe.stdin.write_parts(b"second ", b"of ", b"parts")
    await asyncio.sleep(0)
    assert pipe.read() == b"first second of parts"
    assert pipe.end() is True


@pytest.mark.both_loops
async def test_messages_keep_their_order_while_the_pipe_is_full() -> None:
    pipe = Pipe()
    filler_bytes = pipe.fill()
    rng = random.Random(5)
    expected = b""
    for n in range(300):
        size = rng.choice([1, 10, 70_000])
        data = (b"<%d>" % n) * (size // 4 + 1)
        expected += data
        if rng.random() < 0.5:
            pipe.stdin.gather(data)
        else:
            pipe.stdin.write_parts(data[:3], data[3:])
        if rng.random() < 0.1:
            await asyncio.sleep(0)
    assert await pipe.read_exactly(filler_bytes) == b"." * filler_bytes
    assert await pipe.read_exactly(len(expected)) == expected
    assert pipe.end() is True
    assert pipe.reported == []


@pytest.mark.both_loops
async def test_a_stalled_reader_is_reported_and_a_slow_reader_is_not() -> None:
    loop = LoopWithFakeTimers()
    pipe = Pipe(loop)
    filler_bytes = pipe.fill()
    for _ in range(10):
        pipe.stdin.write(b"x" * 60_000)  # each message is too small to widen the pipe
    for _ in range(4):  # after each read the timer is set again
        [timer_before] = loop.timers
        unwritten_bytes = pipe.stdin.unwritten_bytes
        await pipe.read_exactly(filler_bytes // 4)
        await wait_until(lambda before=unwritten_bytes: pipe.stdin.unwritten_bytes < before)  # type: ignore[misc]
        [timer_after] = loop.timers
        assert timer_after is not timer_before and timer_after[0] == STALL_SECONDS
    assert pipe.reported == []
    loop.fire()
    assert pipe.reported == ["stalled"]
    assert pipe.end() is False  # the rest was dropped


async def test_closing_with_a_backlog_reports_dropped_data() -> None:
    pipe = Pipe()
    pipe.fill()
    pipe.stdin.write(b"never read")
    assert pipe.stdin.close() is False
    assert pipe.stdin.close() is True  # no data was left to drop
    pipe.stdin.write(b"after the end")
    os.close(pipe.reader)
    assert pipe.reported == []


async def test_closing_in_the_same_iteration_still_sends_the_gathered_data() -> None:
    pipe = Pipe()
    pipe.stdin.gather(b"last message")
    assert pipe.stdin.close() is True
    assert pipe.read() == b"last message"
    os.close(pipe.reader)
    await asyncio.sleep(0)


@pytest.mark.both_loops
@pytest.mark.parametrize("when", ["at once", "with a backlog"])
async def test_a_reader_that_closed_is_reported_as_broken(when: str) -> None:
    pipe = Pipe()
    if when == "with a backlog":
        pipe.fill()
        pipe.stdin.write(b"x")
        os.close(pipe.reader)
    else:
        os.close(pipe.reader)
        pipe.stdin.write(b"x")
    await wait_until(lambda: pipe.reported != [])
    assert pipe.reported == ["broken"]
    assert pipe.stdin.close() is False  # "x" was lost


async def test_a_large_message_widens_the_pipe_once() -> None:
    pipe = Pipe()
    original_size = fcntl.fcntl(pipe.writer, fcntl.F_GETPIPE_SZ)
    pipe.stdin.write(b"x" * 1000)
    assert fcntl.fcntl(pipe.writer, fcntl.F_GETPIPE_SZ) == original_size
    pipe.stdin.write(b"x" * 500_000)
    assert fcntl.fcntl(pipe.writer, fcntl.F_GETPIPE_SZ) == WIDE_PIPE_BYTES
    assert len(await pipe.read_exactly(501_000)) == 501_000
    pipe.end()


@pytest.mark.both_loops
async def test_many_threads_and_the_loop_write_whole_messages_into_a_full_pipe() -> None:
    """The blocking API writes from its callers' threads, under the lock."""
    pipe = Pipe()
    filler_bytes = pipe.fill()

    def make_writer(number: int) -> Callable[[], None]:
        def write() -> None:
            for n in range(200):
                with pipe.lock:
                    pipe.stdin.write(b"<%d:%03d>" % (number, n))

        return write

    threads = [threading.Thread(target=make_writer(number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for n in range(200):
        with pipe.lock:
            pipe.stdin.write(b"<%d:%03d>" % (9, n))
        if n % 20 == 0:
            await asyncio.sleep(0)
    await pipe.read_exactly(filler_bytes)
    data = await pipe.read_exactly(5 * 200 * len(b"<9:000>"))
    for thread in threads:
        thread.join()
    messages = data.decode().replace("<", "").split(">")[:-1]
    for number in (0, 1, 2, 3, 9):
        assert [message for message in messages if message[0] == str(number)] == [
            f"{number}:{n:03d}" for n in range(200)
        ]
    assert pipe.end() is True


@pytest.mark.parametrize("size", [100, 1_200_000])
@pytest.mark.parametrize("is_full", [False, True])
async def test_an_exception_in_another_thread_leaves_no_part_of_a_message(
    size: int, is_full: bool
) -> None:
    """A signal handler may raise KeyboardInterrupt in any line of a write in the main thread."""
    first, second = b"a" * size + b"\n", b"second\n"

    def write_until_line(pipe: Pipe, last_line: int) -> bool:
        """Write the first message, and raise in this line. Return whether that line was reached."""
        lines = 0

        def trace(frame: Any, event: str, _: Any) -> Any:
            nonlocal lines
            if not frame.f_code.co_filename.endswith("stdin_writer.py"):
                return None
            lines += event == "line"
            if lines == last_line:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        try:
            with pipe.lock:
                sys.settrace(trace)
                pipe.stdin.write(first)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    was_reached, last_line = True, 0
    while was_reached:
        last_line += 1
        pipe = Pipe()
        filler_bytes = pipe.fill() if is_full else 0
        was_reached = await asyncio.to_thread(write_until_line, pipe, last_line)
        pipe.stdin.recover()
        with pipe.lock:
            pipe.stdin.write(second)
        assert len(await pipe.read_exactly(filler_bytes)) == filler_bytes
        data = await pipe.read_exactly(len(second))
        if data != second:  # the first message was written: all of it
            data += await pipe.read_exactly(len(first))
            assert data == first + second
        assert not pipe.read() and pipe.stdin.unwritten_bytes == 0
        assert pipe.end() is True
    assert last_line > 3
