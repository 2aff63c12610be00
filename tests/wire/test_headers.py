r"""Frames with Content-Length headers, as the Language Server Protocol has them.

    Content-Length: 2\r\n\r\n{}

The parser is lenient where the meaning is clear, also with lines that a program prints between
frames. If the start of the next frame cannot be found, that is fatal. The bytes come from a
program that may be hostile, so an announced length must not allocate memory.
"""

import tracemalloc

import pytest

from exthost.wire.framing import EVIDENCE_BYTES, Broken, Skipped
from exthost.wire.headers import Headers
from tests.wire.feed_framing import FramingOutput, feed_all

MAX_BODY = 4 * 2**20


def feed_headers(stream: bytes, max_body: int = MAX_BODY) -> FramingOutput:
    return feed_all(Headers(max_body), stream)


def fatal_error(stream: bytes, max_body: int = MAX_BODY) -> str:
    """Return the reason why this stream is refused."""
    broken = feed_headers(stream, max_body).broken
    assert broken is not None, "this stream was accepted"
    return broken.reason


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 2\r\n\r\n",
        b"Content-Length: 2\n\n",
        b"Content-Length: 2\r\n\n",
        b"content-length: 2\r\n\r\n",
        b"CONTENT-LENGTH:2\r\n\r\n",
        b"  Content-Length \t:   2  \r\n\r\n",
        b"Content-Length: 0002\r\n\r\n",
        b"Content-Length: 000000000002\r\n\r\n",
        b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n",
        b"Content-Length: 2\r\nX-Anything: at all: even colons\r\n\r\n",
        b"Content-Length: 99\r\nContent-Length: 2\r\n\r\n",
        b"\xef\xbb\xbfContent-Length: 2\r\n\r\n",
    ],
)
def test_headers_are_parsed_leniently(headers: bytes) -> None:
    byte_order_mark = b"\xef\xbb\xbf"  # only the first frame may have it
    stream = headers + b"{}" + headers.removeprefix(byte_order_mark) + b"[]"
    assert feed_headers(stream) == FramingOutput([b"{}", b"[]"], None)


@pytest.mark.parametrize(
    "value",
    [
        b"99999999999",
        b"9" * 5000,
        b"9" * 900,
        b"1" + b"0" * 12,
        b"-1",
        b"++5",
        b"+ 5",
        b"+",
        b"1_000",
        b"0x5",
        b"5.0",
        b"1e3",
        b"5 5",
        b"5,5",
        "٥".encode(),  # noqa: RUF001 - digits of other scripts are part of the test
        "５".encode(),  # noqa: RUF001
        "²".encode(),
        b"",
        b"   ",
        b"five",
        b"\0",
    ],
)
def test_an_invalid_length_is_fatal_and_allocates_nothing(value: bytes) -> None:
    tracemalloc.start()
    try:
        output = feed_headers(b"Content-Length: " + value + b"\r\n\r\n{}")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert output.frames == []
    assert output.broken is not None
    assert output.end is None, "the error was reported twice"
    assert len(output.broken.head) <= EVIDENCE_BYTES
    assert peak < 100_000  # bytes


def test_the_last_length_is_used_even_if_only_it_is_invalid() -> None:
    assert "plain number" in fatal_error(b"Content-Length: 2\r\nContent-Length: two\r\n\r\n{}")


def test_a_body_may_have_exactly_the_maximum_size() -> None:
    assert feed_headers(b"Content-Length: 4\r\n\r\nabcd", max_body=4).frames == [b"abcd"]
    assert "over the limit of 4" in fatal_error(b"Content-Length: 5\r\n\r\nabcde", max_body=4)


def test_a_length_of_zero_is_a_frame() -> None:
    assert feed_headers(b"Content-Length: 0\r\n\r\n" * 2) == FramingOutput([b"", b""], None)


def test_memory_for_a_body_is_not_allocated_before_its_bytes_arrive() -> None:
    framing = Headers(2**40)
    tracemalloc.start()
    try:
        framing.feed(b"Content-Length: 99999999999\r\n\r\n{")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000  # bytes, of an announced body of 100 GB


@pytest.mark.parametrize(("end", "fits"), [(b"\n", True), (b"\r\n", True), (b"x\n", False)])
def test_a_header_line_may_be_1024_bytes_long_with_its_line_end(end: bytes, fits: bool) -> None:
    newline_length = 1 if end == b"x\n" else len(end)
    line = b"X-Long: ".ljust(1024 - newline_length, b"a") + end
    assert len(line) == (1024 if fits else 1025)
    output = feed_headers(line + b"Content-Length: 2\r\n\r\n{}")
    assert (output.frames == [b"{}"]) is fits
    assert (output.broken is None) is fits


def test_a_header_line_without_an_end_is_refused_after_1024_bytes() -> None:
    framing = Headers(MAX_BODY)
    assert framing.feed(b"a" * 1023) == []
    (broken,) = framing.feed(b"a")
    assert broken == Broken("a header line is longer than 1024 bytes", b"a" * 1024)
    assert framing.feed(b"\r\nContent-Length: 2\r\n\r\n{}") == []


def test_headers_without_an_end_are_skipped_in_constant_memory() -> None:
    framing = Headers(MAX_BODY)
    block = b"X-Noise: on and on\r\n" * 3000
    tracemalloc.start()
    try:
        for _ in range(10):
            assert framing.feed(block) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000  # bytes, of 600 kB of headers
    assert framing.feed(b"Content-Length: 2\r\n\r\n{}") == [b"{}"]


def test_stray_lines_before_a_frame_are_reported_and_skipped() -> None:
    noise = b"> my-plugin@1.0.0 start\r\n> node index.js\n"  # `npm start` prints such lines
    expected = [Skipped("not a frame", b"> my-plugin@1.0.0 start", 23)]  # its length
    expected += [Skipped("not a frame", b"> node index.js", 15)]
    frame = b"Content-Length: 2\r\n\r\n{}"
    assert feed_headers(noise + frame).items == [*expected, b"{}"]
    assert feed_headers(frame + noise + frame).items == [b"{}", *expected, b"{}"]
    inside = b"Content-Length: 2\r\n" + noise + b"\r\n{}"
    assert feed_headers(inside).items == [*expected, b"{}"]


def test_blank_lines_before_the_first_frame_are_skipped() -> None:
    frame = b"Content-Length: 2\r\n\r\n{}"
    assert feed_headers(b"\n\r\n" + frame) == FramingOutput([b"{}"], None)
    assert feed_headers(b"\nbanner\n\n" + frame).frames == [b"{}"]


def test_blank_lines_after_the_first_frame_are_fatal() -> None:
    frame = b"Content-Length: 2\r\n\r\n{}"
    assert "no Content-Length" in fatal_error(frame + b"\r\n" + frame)


def test_headers_without_a_length_are_fatal() -> None:
    assert "no Content-Length" in fatal_error(b"Content-Type: text\r\n\r\n{}")


def test_the_frames_before_a_fatal_error_are_not_lost() -> None:
    output = feed_headers(b"Content-Length: 2\r\n\r\n{}Content-Length: x\r\n")
    assert output.frames == [b"{}"]
    assert output.broken is not None and b"Content-Length: x" in output.broken.head


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"Content-Le", "inside the headers"),
        (b"Content-Length: 5\r\n", "inside the headers"),
        (b"Content-Length: 5\r\n\r\n", "after 0 of 5 bytes"),
        (b"Content-Length: 5\r\n\r\nab", "after 2 of 5 bytes"),
    ],
)
def test_the_error_for_an_incomplete_frame_says_where_it_ended(stream: bytes, reason: str) -> None:
    error = feed_headers(stream).end
    assert error is not None and reason in error.reason


def test_stray_lines_at_the_end_are_not_an_incomplete_frame() -> None:
    assert feed_headers(b"hello\n\n").end is None
    assert feed_headers(b"usage: none\n").end is not None, "this could be a header"


def test_the_error_of_a_long_wrong_line_shows_that_it_was_cut() -> None:
    """Otherwise the beginning of a secret at the cut would not be hidden."""
    line = b"Content-Length: " + b"x" * 200
    assert fatal_error(line + b"\r\n\r\n").endswith("xxx…'")
