"""Tests of every framing: the same output for any chunks, round trips, and memory use.

A framing cuts a stream of bytes into frames, each of which is one message: `Lines` at newlines,
`Headers` by Content-Length headers, and `Prefixed` by a length of four bytes. Bytes arrive in
chunks of any size, some of them written by hostile programs. `wrap` is the opposite of reading: it
makes a frame.
"""

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exthost.errors import UsageError
from exthost.wire.framing import HEAD_BYTES, LARGE_READ_BYTES, READ_BYTES, Broken, Framing
from exthost.wire.headers import Headers
from exthost.wire.lines import Lines
from exthost.wire.prefixed import Prefixed
from tests.dialects.requirements import shows
from tests.wire.feed_framing import (
    FramingOutput,
    feed_all,
    feed_chunks,
    feed_through_read_buffer,
    split_at,
    split_into_bytes,
)

MakeFraming = Callable[[int], Framing]
FRAMINGS: tuple[MakeFraming, ...] = (Lines, Headers, Prefixed)
every_framing = pytest.mark.parametrize("make_framing", FRAMINGS)

# The maximum size of a frame. The pieces below have frames of up to 40 (0x28) bytes, of 41 (0x29),
# and of more.
max_sizes = st.integers(0, 40)

# Parts of what real extensions and hostile extensions write.
_PIECES: dict[MakeFraming, list[bytes]] = {
    Lines: [
        b"\n",
        b"\r\n",
        b" ",
        b"\t",
        b"\xef\xbb\xbf",
        b'{"id":1}',
        b'{"id":1}\n',
        b"stray text\n",
        b"x" * 20,
        b"y" * 41,
    ],
    Headers: [
        b"\r\n",
        b"\n",
        b"\r",
        b":",
        b"\xef\xbb\xbf",
        b"Content-Length: 2\r\n\r\n{}",
        b"content-length:3\n\nabc",
        b"Content-Length: 0\r\n\r\n",
        b"Content-Length: 12\r\n",
        b"Content-Length: 41\r\n\r\n",
        b"Content-Length: x\r\n",
        b"Content-Type: text\r\n",
        b"> npm start\n",
        b"z" * 300,
    ],
    Prefixed: [
        b"\0\0\0\0",
        b"\0\0\0\x01a",
        b"\0\0\0\x05hello",
        b"\0\0\0\x28",
        b"\0\0\0\x29",
        b"\xff\xff\xff\xff",
        b"\0",
        b"q" * 17,
    ],
}


def streams(make_framing: MakeFraming) -> st.SearchStrategy[bytes]:
    """Return streams of bytes that contain valid and invalid frames."""
    piece = st.sampled_from(_PIECES[make_framing]) | st.binary(max_size=12)
    return st.lists(piece, max_size=24).map(b"".join)


def payloads(make_framing: MakeFraming) -> st.SearchStrategy[bytes]:
    """Return payloads that this framing can carry: a line has no newline and is not blank."""
    if make_framing is not Lines:
        return st.binary(max_size=200)
    return (
        st.binary(min_size=1, max_size=200)
        .map(lambda text: text.replace(b"\n", b"N"))
        .filter(lambda text: not text.isspace() and not text.startswith(b"\xef\xbb\xbf"))
    )


@every_framing
@given(data=st.data(), max_size=max_sizes)
def test_any_chunking_of_the_same_bytes_gives_the_same_items(
    make_framing: MakeFraming, data: st.DataObject, max_size: int
) -> None:
    stream = data.draw(streams(make_framing))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    expected = feed_all(make_framing(max_size), stream)
    assert feed_chunks(make_framing(max_size), split_at(stream, cuts)) == expected
    assert feed_chunks(make_framing(max_size), split_into_bytes(stream)) == expected


@every_framing
@given(data=st.data(), max_size=max_sizes)
def test_the_items_of_a_prefix_are_the_first_items_of_the_whole_stream(
    make_framing: MakeFraming, data: st.DataObject, max_size: int
) -> None:
    stream = data.draw(streams(make_framing))
    prefix = stream[: data.draw(st.integers(0, len(stream)))]
    output = feed_all(make_framing(max_size), prefix).items
    assert output == feed_all(make_framing(max_size), stream).items[: len(output)]


@every_framing
@given(stream=st.binary(max_size=3000), max_size=max_sizes)
def test_a_framing_raises_no_exception_for_any_bytes(
    make_framing: MakeFraming, stream: bytes, max_size: int
) -> None:
    result = feed_all(make_framing(max_size), stream)
    assert all(len(frame) <= max_size for frame in result.frames)
    assert not any(isinstance(item, Broken) for item in result.items[:-1])


@every_framing
@given(data=st.data())
def test_payloads_are_read_back_in_both_directions(
    make_framing: MakeFraming, data: st.DataObject
) -> None:
    output = data.draw(st.lists(payloads(make_framing), max_size=8))
    host, guest = make_framing(1000), make_framing(1000)  # the guest is the extension
    read_by_guest = feed_all(guest, b"".join(host.wrap(payload) for payload in output))
    read_by_host = feed_all(host, b"".join(guest.wrap(payload) for payload in output))
    assert read_by_guest == read_by_host == FramingOutput([*output], None)


@every_framing
@given(data=st.data())
def test_two_frames_in_one_read_are_two_frames(
    make_framing: MakeFraming, data: st.DataObject
) -> None:
    first, second = data.draw(payloads(make_framing)), data.draw(payloads(make_framing))
    framing = make_framing(1000)
    assert framing.feed(framing.wrap(first) + framing.wrap(second)) == [first, second]


@every_framing
def test_a_frame_over_the_maximum_size_is_refused(make_framing: MakeFraming) -> None:
    largest, too_large = b"a" * 10, b"a" * 11
    assert feed_all(make_framing(10), make_framing(11).wrap(largest)).frames == [largest]
    result = feed_all(make_framing(10), make_framing(11).wrap(too_large))
    assert result.frames == []
    assert result.broken is not None or result.skipped


@shows("synaps-frame-09")
def test_the_size_of_sent_messages_with_headers_is_not_limited() -> None:
    assert Headers(10).wrap(b"a" * 11) == b"Content-Length: 11\r\n\r\n" + b"a" * 11


@pytest.mark.parametrize("make_framing", [Lines, Prefixed])
def test_a_message_over_the_maximum_size_cannot_be_sent(make_framing: MakeFraming) -> None:
    framing = make_framing(10)
    framing.wrap(b"a" * 10)
    framing.frame_parts(10)
    for send in (lambda: framing.wrap(b"a" * 11), lambda: framing.frame_parts(11)):
        with pytest.raises(UsageError) as caught:
            send()
        assert caught.value.code == "X1303"  # the message is too large
        assert "11" in caught.value.message and "10" in caught.value.message


@every_framing
@given(data=st.data())
def test_frame_parts_are_the_bytes_around_the_payload(
    make_framing: MakeFraming, data: st.DataObject
) -> None:
    payload, framing = data.draw(payloads(make_framing)), make_framing(1000)
    before, after = framing.frame_parts(len(payload))
    assert before + payload + after == framing.wrap(payload)


@every_framing
def test_the_end_of_the_output_within_a_frame_is_an_error(make_framing: MakeFraming) -> None:
    frame = make_framing(100).wrap(b"hello")
    for length in range(len(frame)):
        framing = make_framing(100)
        assert framing.feed(frame + frame[:length]) == [b"hello"]
        error = framing.end()
        assert (error is None) == (length == 0), frame[:length]
        if error is not None:
            assert type(error) is Broken and "the output ended" in error.reason
    assert make_framing(100).end() is None


@every_framing
@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_any_type_of_buffer_can_be_fed(
    make_framing: MakeFraming, buffer_type: Callable[[bytes], Any]
) -> None:
    framing = make_framing(100)
    frame = framing.wrap(b"hello")
    assert framing.feed(buffer_type(frame + frame[:3])) == [b"hello"]
    assert framing.feed(buffer_type(frame[3:])) == [b"hello"]


@every_framing
def test_a_buffer_that_was_fed_can_be_overwritten(make_framing: MakeFraming) -> None:
    framing = make_framing(100)
    frame = framing.wrap(b"hello")
    buffer = bytearray(frame[:-2])
    items = framing.feed(buffer)
    buffer[:] = b"#" * len(buffer)
    items += framing.feed(frame[-2:])
    assert items == [b"hello"]


@every_framing
def test_large_reads_are_requested_only_within_a_large_frame(make_framing: MakeFraming) -> None:
    framing = make_framing(2**20)
    stream = framing.wrap(b"a" * (3 * READ_BYTES))
    assert framing.read_size == READ_BYTES
    assert framing.feed(stream[: 2 * READ_BYTES]) == []
    assert framing.read_size == LARGE_READ_BYTES
    assert len(framing.feed(stream[2 * READ_BYTES :])) == 1
    assert framing.read_size == READ_BYTES


@pytest.mark.more
@every_framing
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_reading_into_the_buffer_of_the_framing_gives_the_same_items(
    make_framing: MakeFraming, data: st.DataObject
) -> None:
    max_size = data.draw(st.sampled_from([READ_BYTES, 3 * READ_BYTES, 2**20]))
    sizes = data.draw(
        st.lists(
            st.sampled_from([0, 5, READ_BYTES, 2 * READ_BYTES, max_size, max_size + 1]), max_size=4
        )
    )
    content = data.draw(st.sampled_from([b"a", b" ", b"\xef\xbb\xbf"]))
    sender = make_framing(2 * max_size)
    stream = b"".join(sender.wrap((content * size)[:size]) for size in sizes)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    incomplete_stream = stream[: data.draw(st.integers(0, len(stream)))]
    for output in (stream, incomplete_stream):
        assert feed_through_read_buffer(
            make_framing(max_size), split_at(output, cuts)
        ) == feed_chunks(make_framing(max_size), split_at(output, cuts))


def test_memory_for_long_lines_is_kept_until_it_is_released() -> None:
    framing = Lines(2**20)
    allocated_sizes: list[int] = []

    def allocate(size: int) -> bytearray:
        allocated_sizes.append(size)
        return bytearray(size)

    def feed_long_line() -> None:
        framing.feed(b"a" * (2 * READ_BYTES))
        space = framing.read_buffer(allocate)
        assert space is not None
        space[:2] = b"a\n"
        assert [len(item) for item in framing.commit(2)] == [2 * READ_BYTES + 1]

    feed_long_line()
    feed_long_line()
    assert len(allocated_sizes) == 1
    framing.release()
    feed_long_line()
    assert len(allocated_sizes) == 2


def test_a_long_line_is_read_even_if_no_buffer_can_be_allocated() -> None:
    framing = Lines(2**20)
    framing.feed(b"a" * (2 * READ_BYTES))
    assert framing.read_buffer(lambda size: None) is None
    assert [len(item) for item in framing.feed(memoryview(b"a\n"))] == [2 * READ_BYTES + 1]


@every_framing
def test_a_frame_of_64_kib_can_arrive_byte_by_byte(make_framing: MakeFraming) -> None:
    payload = bytes(range(48, 112)) * 1024
    framing = make_framing(len(payload))
    items = [
        (offset, item)
        for offset, byte in enumerate(split_into_bytes(framing.wrap(payload)))
        for item in framing.feed(byte)
    ]
    assert items == [(len(framing.wrap(payload)) - 1, payload)]


@every_framing
def test_the_work_of_a_read_does_not_grow_with_the_bytes_already_kept(
    make_framing: MakeFraming,
) -> None:
    """Otherwise a large frame in small reads would take quadratic time. The work is counted in
    function calls; the next test shows that nothing is copied."""
    framing = make_framing(2**20)
    stream = framing.wrap(b"a" * 500_000)
    framing.feed(stream[:1000])
    calls_early = _count_calls(lambda: framing.feed(stream[1000:1100]))
    framing.feed(stream[1100:400_000])
    calls_late = _count_calls(lambda: framing.feed(stream[400_000:400_100]))
    assert calls_late == calls_early


@every_framing
def test_the_buffer_becomes_the_frame_without_a_copy(make_framing: MakeFraming) -> None:
    framing = make_framing(2**20)
    # The first frame is copied if it begins with a byte order mark, so the second is tested.
    framing.feed(framing.wrap(b"first"))
    stream = framing.wrap(b"a" * 300_000)
    framing.feed(stream[:200_000])
    # The attribute with the incomplete frame has another name in each framing.
    attributes = [getattr(framing, name, None) for name in ("_partial_line", "_body", "_buffer")]
    (buffer,) = [value for value in attributes if isinstance(value, bytearray)]
    (frame,) = framing.feed(stream[200_000:])
    assert frame is buffer


def _count_calls(function: Callable[[], object]) -> int:
    count = 0

    def profiler(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # callbacks of the garbage collector would be counted
    sys.setprofile(profiler)
    try:
        function()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


@pytest.mark.parametrize("make_framing", [Lines, Headers])
def test_the_head_of_an_incomplete_frame_is_known(make_framing: MakeFraming) -> None:
    """By its first bytes, the host decides how fast it reads the rest of a large message."""
    framing = make_framing(10 * READ_BYTES)
    assert framing.incomplete_head() == b""
    payload = b"head of " + b"x" * 3 * READ_BYTES
    data = framing.wrap(b"small") + framing.wrap(payload)
    framing.feed(data[:-READ_BYTES])
    assert framing.incomplete_head() == payload[:HEAD_BYTES]
    if framing.read_buffer(bytearray) is not None:  # the frame is now in other memory
        assert framing.incomplete_head() == payload[:HEAD_BYTES]


def test_the_head_of_a_frame_with_a_length_prefix_is_not_examined() -> None:
    framing = Prefixed(10 * READ_BYTES)
    framing.feed(framing.wrap(b"x" * 2 * READ_BYTES)[:-1])
    assert framing.incomplete_head() == b""
