"""Lines: what children really print, and over-long lines in flat memory."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.wire.framing import EVIDENCE_BYTES, READ_BYTES, Broken, Skipped
from exthost.wire.lines import Lines
from tests.wire.play import Played, whole

MIB = 2**20


def test_blank_lines_are_not_frames() -> None:
    assert whole(Lines(100), b"\n \n\r\n\t\n{}\n\n") == Played([b"{}"], None)


def test_a_line_may_end_in_crlf() -> None:
    # The carriage return is left in: to JSON it is white space.
    assert whole(Lines(100), b"{}\r\n[]\r\n").frames == [b"{}\r", b"[]\r"]


def test_a_byte_order_mark_is_dropped_at_the_very_beginning_and_only_there() -> None:
    mark = b"\xef\xbb\xbf"
    assert whole(Lines(100), mark + b"{}\n" + mark + b"{}\n").frames == [b"{}", mark + b"{}"]
    assert whole(Lines(100), b"\n" + mark + b"{}\n").frames == [mark + b"{}"]


def test_an_over_long_first_line_uses_the_beginning_up() -> None:
    mark = b"\xef\xbb\xbf"
    stream = b"x" * 11 + b"\n" + mark + b"{}\n"
    assert whole(Lines(10), stream).items == [Skipped("too long", b"x" * 11, 11), mark + b"{}"]


@pytest.mark.parametrize("rest", [b"", b" ", b"\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf \t"])
def test_nothing_but_white_space_left_over_is_an_end_between_frames(rest: bytes) -> None:
    assert whole(Lines(100), rest).end is None


def test_text_without_its_newline_is_an_end_inside_a_frame() -> None:
    ended = whole(Lines(100), b'{}\n{"id":').end
    assert ended == Broken("the output ended inside a line", b'{"id":')
    ended = whole(Lines(4), b"{}\nabcdefgh").end
    assert ended == Broken("the output ended inside an over-long line", b"abcdefgh")


def test_the_frames_around_an_over_long_line_are_kept() -> None:
    played = whole(Lines(4), b"one\n" + b"x" * 5 + b"\ntwo\n")
    assert played == Played([b"one", Skipped("too long", b"xxxxx", 5), b"two"], None)


@given(cap=st.integers(0, 200), length=st.integers(1, 200))
def test_a_line_is_too_long_exactly_when_it_is_longer_than_the_cap(cap: int, length: int) -> None:
    (item,) = whole(Lines(cap), b"x" * length + b"\n").items
    assert isinstance(item, Skipped) == (length > cap)


def test_how_an_over_long_line_began_is_kept_and_no_more() -> None:
    line = bytes(range(65, 91)) * 1000
    (item,) = whole(Lines(100), line + b"\n").items
    assert item == Skipped("too long", line[:EVIDENCE_BYTES], EVIDENCE_BYTES)


def test_an_over_long_line_is_reported_before_its_newline_which_may_never_come() -> None:
    framing = Lines(2 * EVIDENCE_BYTES)
    line = b'{"id":7,"result":"' + b"x" * 3 * EVIDENCE_BYTES
    report = Skipped("too long", line[:EVIDENCE_BYTES], 2 * EVIDENCE_BYTES + 1)
    assert framing.feed(line) == [report]
    assert framing.feed(line) == []
    assert framing.feed(b"\n{}\n") == [b"{}"]


@pytest.mark.parametrize("first", [b"", b"{}\n"], ids=["as the first line", "later"])
def test_a_line_of_128_mb_over_a_cap_of_1_mib_is_let_go_in_flat_memory(first: bytes) -> None:
    framing = Lines(MIB)
    framing.feed(first)
    chunk = b"x" * READ_BYTES
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        reports = []
        for _ in range(2048):
            reports += framing.feed(chunk)
            assert framing.read_size <= MIB
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The cap, a growing bytearray's reserve, and a read in hand.
    assert peak - before < 2 * MIB + 4 * READ_BYTES
    assert reports == [Skipped("too long", chunk[:EVIDENCE_BYTES], MIB + 1)]
    assert framing.feed(b"\n{}\n") == [b"{}"]


def test_a_read_of_nothing_but_newlines_is_nothing() -> None:
    assert whole(Lines(100), b"\n" * READ_BYTES) == Played([], None)


@given(st.lists(st.sampled_from([b"a", b"\n", b"bc\n", b"x" * 20])))
def test_it_knows_whether_the_next_byte_begins_a_line(parts: list[bytes]) -> None:
    lines = Lines(8)
    for part in parts:
        lines.feed(part)
    data = b"".join(parts)
    assert lines.is_at_line_start == (b"\n" in data and data.endswith(b"\n"))
