r"""Frames that begin with their length as an unsigned 32-bit integer: b"\0\0\0\x03abc".

The bytes come from a program that may be hostile, so an announced length must not allocate memory.
"""

import tracemalloc

import pytest

from exthost.errors import UsageError
from exthost.wire.framing import Broken
from exthost.wire.prefixed import Prefixed
from tests.wire.feed_framing import FramingOutput, feed_all

# Bytes: far less than the lengths that the tests announce.
SMALL_MEMORY = 10_000


def test_a_length_of_zero_is_an_empty_frame() -> None:
    assert feed_all(Prefixed(10), b"\0\0\0\0" * 3) == FramingOutput([b"", b"", b""], None)
    assert feed_all(Prefixed(0), b"\0\0\0\0") == FramingOutput([b""], None)


def test_the_prefix_is_four_bytes_big_endian() -> None:
    assert Prefixed(2**20).frame_parts(258) == (b"\0\0\x01\x02", b"")
    assert feed_all(Prefixed(300), b"\0\0\x01\x02" + b"a" * 258).frames == [b"a" * 258]


def test_a_frame_may_have_exactly_the_maximum_size() -> None:
    assert feed_all(Prefixed(3), b"\0\0\0\x03abc") == FramingOutput([b"abc"], None)
    output = feed_all(Prefixed(3), b"\0\0\0\x04abcd")
    assert output == FramingOutput(
        [Broken("a length of 4 bytes is over the limit of 3", b"\0\0\0\x04")], None
    )


@pytest.mark.parametrize("prefix", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"HTTP", b'{"id'])
def test_a_length_over_the_limit_is_fatal_and_allocates_nothing(prefix: bytes) -> None:
    framing = Prefixed(10 * 2**20)
    tracemalloc.start()
    try:
        (broken,) = framing.feed(prefix + b"and more")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(broken, Broken) and broken.head == prefix
    assert framing.feed(b"\0\0\0\x01a") == [], "nothing is read after a fatal error"
    assert peak < SMALL_MEMORY


def test_memory_for_a_frame_is_not_allocated_before_its_bytes_arrive() -> None:
    framing = Prefixed(2**32)
    tracemalloc.start()
    try:
        assert framing.feed(b"\xff\xff\xff\xff" + b"a") == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < SMALL_MEMORY


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"\0", "after 1 of 4 bytes of a length"),
        (b"\0\0\0\x05", "after 0 of 5 bytes"),
        (b"\0\0\0\x05ab", "after 2 of 5 bytes"),
    ],
)
def test_the_error_for_an_incomplete_frame_says_where_it_ended(stream: bytes, reason: str) -> None:
    error = feed_all(Prefixed(10), stream).end
    assert error is not None and reason in error.reason


def test_the_frames_before_a_fatal_error_are_not_lost() -> None:
    output = feed_all(Prefixed(3), b"\0\0\0\x01a" + b"\0\0\0\x09")
    assert output.frames == [b"a"]
    assert output.broken is not None


def test_the_error_for_a_message_over_the_limit_does_not_suggest_to_raise_it() -> None:
    with pytest.raises(UsageError) as caught:
        Prefixed(3).wrap(b"abcd")
    assert caught.value.code == "X1303" and "limit of 3" in caught.value.message
    assert "send less" in caught.value.help and "max_message" not in caught.value.help


def test_text_in_the_place_of_a_length_is_quoted_in_the_error() -> None:
    [broken] = Prefixed(10).feed(b"hello\n")
    assert isinstance(broken, Broken)
    assert broken.reason.endswith("these bytes are the text 'hell': was it printed to stdout?")
    [broken] = Prefixed(10).feed(b"\x7f\0\0\0")
    assert isinstance(broken, Broken) and "text" not in broken.reason
