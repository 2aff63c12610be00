"""The host's ends of the pipes of a process on another node.

They have the methods of a local pipe that does not block, but their data is sent over a connection
in streams: an IncomingStream for stdout and stderr, an OutgoingStream for stdin. `FakeLink` takes
the place of the connection. It records what would be sent, and accepts as many bytes as it has
`room`; `credits` is how many bytes of a stream the other end accepts.
"""

import asyncio
from typing import cast

import pytest

from exthost.cluster.link import Link
from exthost.cluster.multiplexer import CONSUME_BYTES
from exthost.cluster.streams import IncomingStream, OutgoingStream
from tests.cluster.fake_link import FakeLink

STREAM = 5


def make_incoming(*chunks: bytes) -> tuple[IncomingStream, FakeLink]:
    link = FakeLink()
    stream = IncomingStream(cast(Link, link), STREAM, asyncio.get_running_loop())
    link.performed.clear()
    for chunk in chunks:
        stream.feed(chunk)
    return stream, link


def make_outgoing(room: int = 2**20) -> tuple[OutgoingStream, FakeLink]:
    link = FakeLink(room)
    stream = OutgoingStream(cast(Link, link), STREAM, asyncio.get_running_loop())
    link.performed.clear()
    return stream, link


@pytest.mark.parametrize(
    ("chunks", "size", "data", "rest"),
    [
        ([b"abcd"], 4, b"abcd", None),
        ([b"abcd"], 3, b"abc", b"d"),
        ([b"ab", b"cd"], 4, b"abcd", None),
        ([b"ab", b"cd"], 2, b"ab", b"cd"),
        ([b"ab", b"cd"], 3, b"abc", b"d"),
    ],
)
async def test_a_read_returns_at_most_its_size_and_the_next_one_the_rest(
    chunks: list[bytes], size: int, data: bytes, rest: bytes | None
) -> None:
    for use_buffer in (False, True):
        stream, _ = make_incoming(*chunks)
        if use_buffer:
            buffer = bytearray(size)
            assert stream.read_into(memoryview(buffer)) == len(data) and buffer == data
        else:
            assert stream.read(size) == data
        if rest is None:
            with pytest.raises(BlockingIOError):
                stream.read(size)
        else:
            assert stream.read(100) == rest


async def test_a_stream_ends_after_its_data() -> None:
    stream, _ = make_incoming()
    for read in (lambda: stream.read(1), lambda: stream.read_into(memoryview(bytearray(1)))):
        with pytest.raises(BlockingIOError):
            read()
    stream.feed(b"a")
    stream.end()
    assert stream.read(9) == b"a"
    assert stream.read(9) == b"" and stream.read_into(memoryview(bytearray(1))) == 0


@pytest.mark.parametrize("use_buffer", [False, True])
@pytest.mark.parametrize(
    ("size", "reports"),
    [(CONSUME_BYTES - 1, []), (CONSUME_BYTES, [("consume", STREAM, CONSUME_BYTES)])],
)
async def test_bytes_that_were_read_are_reported_in_large_steps(
    size: int, reports: list[tuple[str, int, int]], use_buffer: bool
) -> None:
    stream, link = make_incoming(bytes(size))
    if use_buffer:
        stream.read_into(memoryview(bytearray(size)))
    else:
        stream.read(size)
    assert link.performed == reports


async def test_nothing_is_reported_after_the_end() -> None:
    stream, link = make_incoming(bytes(CONSUME_BYTES))
    stream.end()
    stream.read(CONSUME_BYTES)
    assert link.performed == []


async def test_a_watcher_is_called_while_there_is_something_to_read() -> None:
    stream, _ = make_incoming(b"ab")
    received: list[bytes] = []
    loop = asyncio.get_running_loop()
    stream.watch(loop, lambda: received.append(stream.read(1)))
    stream.watch(loop, lambda: received.append(stream.read(1)))  # schedules no second call
    await asyncio.sleep(0)
    assert received == [b"a"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert received == [b"a", b"b"]
    stream.end()
    assert received == [b"a", b"b", b""]
    stream.unwatch(loop)
    await asyncio.sleep(0)
    assert received == [b"a", b"b", b""]


async def test_an_open_stream_is_reset_when_it_is_closed() -> None:
    stream, link = make_incoming(b"a")
    stream.close()
    stream.close()
    assert link.performed == [("reset", STREAM)] and stream.read(1) == b""
    ended, link = make_incoming()
    ended.end()
    ended.close()
    assert link.performed == []


@pytest.mark.parametrize(
    ("parts", "room", "written"),
    [
        ([b"ab", b"cd"], 9, 4),
        ([b"ab", b"cd"], 3, 3),
        ([b"", b"ab"], 9, 2),
        ([b"a" * 70_000, b"b"], 70_000, 70_000),
        ([b"a" * 70_000, b"b" * 3], 70_002, 70_002),
        ([b"a" * 70_000, b"b"], 9, 9),
    ],
)
async def test_parts_are_written_in_order_as_far_as_there_is_room(
    parts: list[bytes], room: int, written: int
) -> None:
    stream, link = make_outgoing(room)
    assert stream.writev(parts) == written
    assert link.sent == b"".join(parts)[:written]


async def test_a_write_without_room_would_block() -> None:
    stream, _ = make_outgoing(room=0)
    with pytest.raises(BlockingIOError):
        stream.write(b"a")
    with pytest.raises(BlockingIOError):
        stream.writev([b"a", b"b"])
    assert stream.write(b"") == 0


@pytest.mark.parametrize(
    ("room", "credit", "is_broken", "is_called"),
    [
        (1, 1, False, True),
        (0, 1, False, False),
        (1, 0, False, False),
        (0, 0, True, True),
    ],
)
async def test_a_writer_is_called_at_once_if_it_can_write_or_the_stream_is_broken(
    room: int, credit: int, is_broken: bool, is_called: bool
) -> None:
    stream, link = make_outgoing(room)
    link.multiplexer.credits[STREAM] = credit
    stream.is_broken = is_broken
    calls: list[None] = []
    assert not stream.is_watched
    stream.watch(asyncio.get_running_loop(), lambda: calls.append(None))
    await asyncio.sleep(0)
    assert bool(calls) == is_called and stream.is_watched


async def test_an_aborted_stream_reports_it_once_and_refuses_data() -> None:
    stream, _ = make_outgoing()
    stream.abort()
    with pytest.raises(BrokenPipeError):
        stream.write(b"a")
    stream, _ = make_outgoing()
    calls: list[str] = []
    stream.watch(asyncio.get_running_loop(), lambda: calls.append("watch"))
    stream.on_broken = lambda: calls.append("broken")
    stream.abort()
    stream.abort()
    assert calls == ["watch", "broken"]


async def test_a_closed_stream_is_ended_and_calls_nothing() -> None:
    stream, link = make_outgoing()
    stream.watch(asyncio.get_running_loop(), lambda: pytest.fail("it was called"))
    stream.close()
    stream.notify()
    assert link.performed == [("end", STREAM)] and not stream.is_watched
