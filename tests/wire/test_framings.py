"""What holds for every framing: chunking, prefixes, the way there and back, the four outcomes."""

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
from tests.wire.play import Played, bytewise, cut, play, read_into, whole

Make = Callable[[int], Framing]
FRAMINGS: tuple[Make, ...] = (Lines, Headers, Prefixed)
every_framing = pytest.mark.parametrize("make", FRAMINGS)

caps = st.integers(0, 40)

# Made of what children really write, and of what a hostile one would.
_PIECES: dict[Make, list[bytes]] = {
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


def streams(make: Make) -> st.SearchStrategy[bytes]:
    piece = st.sampled_from(_PIECES[make]) | st.binary(max_size=12)
    return st.lists(piece, max_size=24).map(b"".join)


def payloads(make: Make) -> st.SearchStrategy[bytes]:
    """What can be said in this framing: a line holds no newline, and is not blank."""
    if make is not Lines:
        return st.binary(max_size=200)
    return (
        st.binary(min_size=1, max_size=200)
        .map(lambda text: text.replace(b"\n", b"N"))
        .filter(lambda text: not text.isspace() and not text.startswith(b"\xef\xbb\xbf"))
    )


@every_framing
@given(data=st.data(), cap=caps)
def test_any_chunking_of_the_same_bytes_gives_the_same_items(
    make: Make, data: st.DataObject, cap: int
) -> None:
    stream = data.draw(streams(make))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    at_once = whole(make(cap), stream)
    assert play(make(cap), cut(stream, cuts)) == at_once
    assert play(make(cap), bytewise(stream)) == at_once


@every_framing
@given(data=st.data(), cap=caps)
def test_the_reading_of_a_prefix_is_the_beginning_of_the_reading_of_the_whole(
    make: Make, data: st.DataObject, cap: int
) -> None:
    stream = data.draw(streams(make))
    prefix = stream[: data.draw(st.integers(0, len(stream)))]
    output = whole(make(cap), prefix).items
    assert output == whole(make(cap), stream).items[: len(output)]


@every_framing
@given(stream=st.binary(max_size=3000), cap=caps)
def test_no_bytes_at_all_make_a_framing_raise(make: Make, stream: bytes, cap: int) -> None:
    played = whole(make(cap), stream)
    assert all(len(frame) <= cap for frame in played.frames)
    assert not any(isinstance(item, Broken) for item in played.items[:-1])


@every_framing
@given(data=st.data())
def test_frames_of_one_end_are_read_back_by_the_other(make: Make, data: st.DataObject) -> None:
    output = data.draw(st.lists(payloads(make), max_size=8))
    host, guest = make(1000), make(1000)
    down = whole(guest, b"".join(host.wrap(payload) for payload in output))
    up = whole(host, b"".join(guest.wrap(payload) for payload in output))
    assert down == up == Played([*output], None)


@every_framing
@given(data=st.data())
def test_two_frames_in_one_read_are_two_frames(make: Make, data: st.DataObject) -> None:
    first, second = data.draw(payloads(make)), data.draw(payloads(make))
    framing = make(1000)
    assert framing.feed(framing.wrap(first) + framing.wrap(second)) == [first, second]


@every_framing
def test_a_frame_of_exactly_the_cap_passes_and_one_byte_more_does_not(make: Make) -> None:
    at_the_cap, over = b"a" * 10, b"a" * 11
    assert whole(make(10), make(11).wrap(at_the_cap)).frames == [at_the_cap]
    played = whole(make(10), make(11).wrap(over))
    assert played.frames == []
    assert played.broken is not None or played.skipped


@shows("synaps-frame-09")
def test_values_sent_in_headers_are_not_capped() -> None:
    assert Headers(10).wrap(b"a" * 11) == b"Content-Length: 11\r\n\r\n" + b"a" * 11


@pytest.mark.parametrize("make", [Lines, Prefixed])
def test_a_message_over_the_cap_is_not_written_and_one_of_the_cap_is(make: Make) -> None:
    framing = make(10)
    framing.wrap(b"a" * 10)
    framing.frame_parts(10)
    for ask in (lambda: framing.wrap(b"a" * 11), lambda: framing.frame_parts(11)):
        with pytest.raises(UsageError) as refused:
            ask()
        assert refused.value.code == "X1303"
        assert "11" in refused.value.message and "10" in refused.value.message


@every_framing
@given(data=st.data())
def test_a_payload_too_large_to_be_copied_gets_the_same_frame_around_it(
    make: Make, data: st.DataObject
) -> None:
    payload, framing = data.draw(payloads(make)), make(1000)
    before, after = framing.frame_parts(len(payload))
    assert before + payload + after == framing.wrap(payload)


@every_framing
def test_the_end_between_frames_is_an_end_and_inside_a_frame_an_error(make: Make) -> None:
    frame = make(100).wrap(b"hello")
    for at in range(len(frame)):
        framing = make(100)
        assert framing.feed(frame + frame[:at]) == [b"hello"]
        ended = framing.end()
        assert (ended is None) == (at == 0), frame[:at]
        if ended is not None:
            assert type(ended) is Broken and "the output ended" in ended.why
    assert make(100).end() is None


@every_framing
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_may_be_fed(make: Make, kind: Callable[[bytes], Any]) -> None:
    framing = make(100)
    frame = framing.wrap(b"hello")
    assert framing.feed(kind(frame + frame[:3])) == [b"hello"]
    assert framing.feed(kind(frame[3:])) == [b"hello"]


@every_framing
def test_a_buffer_that_was_fed_may_be_used_again(make: Make) -> None:
    framing = make(100)
    frame = framing.wrap(b"hello")
    scratch = bytearray(frame[:-2])
    items = framing.feed(scratch)
    scratch[:] = b"#" * len(scratch)
    items += framing.feed(frame[-2:])
    assert items == [b"hello"]


@every_framing
def test_large_reads_are_wanted_only_inside_a_large_frame(make: Make) -> None:
    framing = make(2**20)
    stream = framing.wrap(b"a" * (3 * READ_BYTES))
    assert framing.read_size == READ_BYTES
    assert framing.feed(stream[: 2 * READ_BYTES]) == []
    assert framing.read_size == LARGE_READ_BYTES
    assert len(framing.feed(stream[2 * READ_BYTES :])) == 1
    assert framing.read_size == READ_BYTES


@every_framing
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_reading_into_the_framings_own_memory_gives_the_same(
    make: Make, data: st.DataObject
) -> None:
    cap = data.draw(st.sampled_from([READ_BYTES, 3 * READ_BYTES, 2**20]))
    sizes = data.draw(
        st.lists(st.sampled_from([0, 5, READ_BYTES, 2 * READ_BYTES, cap, cap + 1]), max_size=4)
    )
    fill = data.draw(st.sampled_from([b"a", b" ", b"\xef\xbb\xbf"]))
    maker = make(2 * cap)
    stream = b"".join(maker.wrap((fill * size)[:size]) for size in sizes)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    unended = stream[: data.draw(st.integers(0, len(stream)))]
    for output in (stream, unended):
        assert read_into(make(cap), cut(output, cuts)) == play(make(cap), cut(output, cuts))


def test_memory_for_long_lines_is_kept_until_it_is_released() -> None:
    framing = Lines(2**20)
    asked: list[int] = []

    def allocate(size: int) -> bytearray:
        asked.append(size)
        return bytearray(size)

    def long_line() -> None:
        framing.feed(b"a" * (2 * READ_BYTES))
        space = framing.read_buffer(allocate)
        assert space is not None
        space[:2] = b"a\n"
        assert [len(item) for item in framing.commit(2)] == [2 * READ_BYTES + 1]

    long_line()
    long_line()
    assert len(asked) == 1
    framing.release()
    long_line()
    assert len(asked) == 2


def test_a_long_line_is_still_gathered_where_there_is_no_memory_for_it() -> None:
    framing = Lines(2**20)
    framing.feed(b"a" * (2 * READ_BYTES))
    assert framing.read_buffer(lambda size: None) is None
    assert [len(item) for item in framing.feed(memoryview(b"a\n"))] == [2 * READ_BYTES + 1]


@every_framing
def test_a_slow_loris_gets_its_64_kib_frame_through_byte_by_byte(make: Make) -> None:
    payload = bytes(range(48, 112)) * 1024
    framing = make(len(payload))
    items = [
        (at, item)
        for at, byte in enumerate(bytewise(framing.wrap(payload)))
        for item in framing.feed(byte)
    ]
    assert items == [(len(framing.wrap(payload)) - 1, payload)]


@every_framing
def test_the_work_of_a_read_does_not_grow_with_the_bytes_already_kept(make: Make) -> None:
    """Counted in calls, since a clock would only guess; that nothing is copied is shown next."""
    framing = make(2**20)
    stream = framing.wrap(b"a" * 500_000)
    framing.feed(stream[:1000])
    early = _calls_made(lambda: framing.feed(stream[1000:1100]))
    framing.feed(stream[1100:400_000])
    late = _calls_made(lambda: framing.feed(stream[400_000:400_100]))
    assert late == early


@every_framing
def test_the_buffer_that_grew_is_itself_the_frame(make: Make) -> None:
    framing = make(2**20)
    # Not the first frame: that one may lose a byte-order mark.
    framing.feed(framing.wrap(b"first"))
    stream = framing.wrap(b"a" * 300_000)
    framing.feed(stream[:200_000])
    kept = [
        value
        for name in ("_partial_line", "_body", "_buffer")
        if isinstance(value := getattr(framing, name, None), bytearray)
    ]
    (frame,) = framing.feed(stream[200_000:])
    assert [frame is buffer for buffer in kept] == [True]


def _calls_made(work: Callable[[], object]) -> int:
    count = 0

    def profiler(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # its callbacks would be counted
    sys.setprofile(profiler)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


@pytest.mark.parametrize("make", [Lines, Headers])
def test_the_head_of_an_incomplete_frame_is_known(make: Make) -> None:
    framing = make(10 * READ_BYTES)
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
