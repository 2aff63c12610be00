"""u32 lengths: zero is a frame, the cap is inclusive, and a promise costs nothing."""

import tracemalloc

import pytest

from exthost.errors import UsageError
from exthost.wire.framing import Broken
from exthost.wire.prefixed import Prefixed
from tests.wire.play import Played, whole


def test_a_length_of_zero_is_a_frame_of_its_own() -> None:
    assert whole(Prefixed(10), b"\0\0\0\0" * 3) == Played([b"", b"", b""], None)
    assert whole(Prefixed(0), b"\0\0\0\0") == Played([b""], None)


def test_the_prefix_is_four_bytes_big_endian() -> None:
    assert Prefixed(2**20).frame_parts(258) == (b"\0\0\x01\x02", b"")
    assert whole(Prefixed(300), b"\0\0\x01\x02" + b"a" * 258).frames == [b"a" * 258]


def test_the_cap_is_inclusive() -> None:
    assert whole(Prefixed(3), b"\0\0\0\x03abc") == Played([b"abc"], None)
    played = whole(Prefixed(3), b"\0\0\0\x04abcd")
    assert played == Played(
        [Broken("a length of 4 bytes is over the limit of 3", b"\0\0\0\x04")], None
    )


@pytest.mark.parametrize("prefix", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"HTTP", b'{"id'])
def test_a_hostile_length_is_fatal_before_a_byte_is_allocated(prefix: bytes) -> None:
    framing = Prefixed(10 * 2**20)
    tracemalloc.start()
    try:
        (broken,) = framing.feed(prefix + b"and more")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(broken, Broken) and broken.head == prefix
    assert framing.feed(b"\0\0\0\x01a") == [], "nothing is read after it"
    assert peak < 10_000


def test_a_promised_frame_costs_nothing_before_it_comes() -> None:
    framing = Prefixed(2**32)
    tracemalloc.start()
    try:
        assert framing.feed(b"\xff\xff\xff\xff" + b"a") == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (b"\0", "after 1 of 4 bytes of a length"),
        (b"\0\0\0\x05", "after 0 of 5 bytes"),
        (b"\0\0\0\x05ab", "after 2 of 5 bytes"),
    ],
)
def test_the_end_inside_a_frame_says_where(stream: bytes, why: str) -> None:
    ended = whole(Prefixed(10), stream).end
    assert ended is not None and why in ended.why


def test_the_frames_before_a_fatal_error_are_not_lost() -> None:
    played = whole(Prefixed(3), b"\0\0\0\x01a" + b"\0\0\0\x09")
    assert played.frames == [b"a"]
    assert played.broken is not None


def test_a_message_over_the_cap_is_to_be_shortened_and_no_limit_raised() -> None:
    with pytest.raises(UsageError) as caught:
        Prefixed(3).wrap(b"abcd")
    assert caught.value.code == "X1303" and "limit of 3" in caught.value.message
    assert "send less" in caught.value.help and "max_message" not in caught.value.help


def test_a_print_in_the_place_of_a_length_is_named() -> None:
    [broken] = Prefixed(10).feed(b"hello\n")
    assert isinstance(broken, Broken)
    assert broken.why.endswith("these bytes are the text 'hell': was it printed to stdout?")
    [broken] = Prefixed(10).feed(b"\x7f\0\0\0")
    assert isinstance(broken, Broken) and "text" not in broken.why
