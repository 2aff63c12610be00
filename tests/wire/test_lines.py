"""Frames that are lines: blank lines, byte order marks, incomplete lines and over-long lines.

A frame is the bytes of one message. `feed_all(Lines(100), data)` cuts the data into frames of at
most 100 bytes. A line that is too long is a `Skipped` item with its first bytes, and a line without
a newline at the end of the input is a `Broken` error.
"""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.wire.framing import EVIDENCE_BYTES, READ_BYTES, Broken, Skipped
from exthost.wire.lines import Lines
from tests.wire.feed_framing import FramingOutput, feed_all

MIB = 2**20


def test_blank_lines_are_not_frames() -> None:
    assert feed_all(Lines(100), b"\n \n\r\n\t\n{}\n\n") == FramingOutput([b"{}"], None)


def test_a_line_may_end_in_crlf() -> None:
    # The carriage return stays in the frame: JSON allows it as white space.
    assert feed_all(Lines(100), b"{}\r\n[]\r\n").frames == [b"{}\r", b"[]\r"]


def test_a_byte_order_mark_is_dropped_only_at_the_start_of_the_output() -> None:
    mark = b"\xef\xbb\xbf"
    assert feed_all(Lines(100), mark + b"{}\n" + mark + b"{}\n").frames == [b"{}", mark + b"{}"]
    assert feed_all(Lines(100), b"\n" + mark + b"{}\n").frames == [mark + b"{}"]


def test_a_byte_order_mark_after_an_over_long_first_line_is_kept() -> None:
    mark = b"\xef\xbb\xbf"
    stream = b"x" * 11 + b"\n" + mark + b"{}\n"
    assert feed_all(Lines(10), stream).items == [Skipped("too long", b"x" * 11, 11), mark + b"{}"]


@pytest.mark.parametrize("white_space", [b"", b" ", b"\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf \t"])
def test_white_space_at_the_end_is_not_an_incomplete_frame(white_space: bytes) -> None:
    assert feed_all(Lines(100), white_space).end is None


def test_text_without_a_newline_at_the_end_is_an_incomplete_frame() -> None:
    error = feed_all(Lines(100), b'{}\n{"id":').end
    assert error == Broken("the output ended inside a line", b'{"id":')
    error = feed_all(Lines(4), b"{}\nabcdefgh").end
    assert error == Broken("the output ended inside an over-long line", b"abcdefgh")


def test_the_frames_around_an_over_long_line_are_kept() -> None:
    output = feed_all(Lines(4), b"one\n" + b"x" * 5 + b"\ntwo\n")
    assert output == FramingOutput([b"one", Skipped("too long", b"xxxxx", 5), b"two"], None)


@given(limit=st.integers(0, 200), length=st.integers(1, 200))
def test_a_line_is_too_long_exactly_when_it_is_longer_than_the_limit(
    limit: int, length: int
) -> None:
    (item,) = feed_all(Lines(limit), b"x" * length + b"\n").items
    assert isinstance(item, Skipped) == (length > limit)


def test_only_the_first_bytes_of_an_over_long_line_are_reported() -> None:
    line = bytes(range(65, 91)) * 1000
    (item,) = feed_all(Lines(100), line + b"\n").items
    assert item == Skipped("too long", line[:EVIDENCE_BYTES], EVIDENCE_BYTES)


def test_an_over_long_line_is_reported_before_its_newline() -> None:
    framing = Lines(2 * EVIDENCE_BYTES)
    line = b'{"id":7,"result":"' + b"x" * 3 * EVIDENCE_BYTES
    report = Skipped("too long", line[:EVIDENCE_BYTES], 2 * EVIDENCE_BYTES + 1)
    assert framing.feed(line) == [report]
    assert framing.feed(line) == []
    assert framing.feed(b"\n{}\n") == [b"{}"]


@pytest.mark.parametrize("first", [b"", b"{}\n"], ids=["as the first line", "later"])
def test_an_over_long_line_of_128_mb_is_discarded_in_constant_memory(first: bytes) -> None:
    framing = Lines(MIB)
    framing.feed(first)
    chunk = b"x" * READ_BYTES
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        items = []
        for _ in range(128 * MIB // READ_BYTES):
            items += framing.feed(chunk)
            assert framing.read_size <= MIB
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # At most: the maximum line, the reserve of a growing bytearray, and the last reads.
    assert peak - before < 2 * MIB + 4 * READ_BYTES
    assert items == [Skipped("too long", chunk[:EVIDENCE_BYTES], MIB + 1)]
    assert framing.feed(b"\n{}\n") == [b"{}"]


def test_a_stream_of_newlines_has_no_frames() -> None:
    assert feed_all(Lines(100), b"\n" * READ_BYTES) == FramingOutput([], None)


@given(st.lists(st.sampled_from([b"a", b"\n", b"bc\n", b"x" * 20])))
def test_is_at_line_start_is_true_directly_after_a_newline(parts: list[bytes]) -> None:
    lines = Lines(8)
    for part in parts:
        lines.feed(part)
    data = b"".join(parts)
    assert lines.is_at_line_start == data.endswith(b"\n")
