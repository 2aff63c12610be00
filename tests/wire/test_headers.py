"""Content-Length headers: what is forgiven, what is fatal, and hostile lengths."""

import tracemalloc

import pytest

from exthost.wire.framing import Broken, Skipped
from exthost.wire.headers import Headers
from tests.wire.play import Played, whole

CAP = 4 * 2**20


def read(stream: bytes, cap: int = CAP) -> Played:
    return whole(Headers(cap), stream)


def why_broken(stream: bytes, cap: int = CAP) -> str:
    broken = read(stream, cap).broken
    assert broken is not None, "this was taken for good"
    return broken.why


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
        b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n",
        b"Content-Length: 2\r\nX-Anything: at all: even colons\r\n\r\n",
        b"Content-Length: 99\r\nContent-Length: 2\r\n\r\n",
        b"\xef\xbb\xbfContent-Length: 2\r\n\r\n",
    ],
)
def test_headers_are_read_as_leniently_as_the_pages_say(headers: bytes) -> None:
    assert read(headers + b"{}" + headers.removeprefix(b"\xef\xbb\xbf") + b"[]") == Played(
        [b"{}", b"[]"], None
    )


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
        "٥".encode(),  # noqa: RUF001 - another script's digit is the point
        "５".encode(),  # noqa: RUF001
        "²".encode(),
        b"",
        b"   ",
        b"five",
        b"\0",
    ],
)
def test_a_hostile_length_is_fatal_and_costs_nothing(value: bytes) -> None:
    tracemalloc.start()
    try:
        played = read(b"Content-Length: " + value + b"\r\n\r\n{}")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert played.frames == []
    assert played.broken is not None
    assert played.end is None, "told twice"
    assert len(played.broken.head) <= 4096
    assert peak < 100_000


def test_the_last_length_counts_even_if_it_is_the_bad_one() -> None:
    assert "plain number" in why_broken(b"Content-Length: 2\r\nContent-Length: two\r\n\r\n{}")


def test_the_cap_on_a_body_is_inclusive() -> None:
    assert read(b"Content-Length: 4\r\n\r\nabcd", cap=4).frames == [b"abcd"]
    assert "over the limit of 4" in why_broken(b"Content-Length: 5\r\n\r\nabcde", cap=4)


def test_a_length_of_zero_is_a_frame() -> None:
    assert read(b"Content-Length: 0\r\n\r\n" * 2) == Played([b"", b""], None)


def test_a_promised_body_costs_nothing_before_it_comes() -> None:
    framing = Headers(2**40)
    tracemalloc.start()
    try:
        framing.feed(b"Content-Length: 99999999999\r\n\r\n{")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000


@pytest.mark.parametrize(("end", "fits"), [(b"\n", True), (b"\r\n", True), (b"x\n", False)])
def test_a_header_line_may_be_1024_bytes_long_with_its_line_end(end: bytes, fits: bool) -> None:
    room = 1024 - (1 if end == b"x\n" else len(end))
    line = b"X-Long: ".ljust(room, b"a") + end
    assert len(line) == (1024 if fits else 1025)
    played = read(line + b"Content-Length: 2\r\n\r\n{}")
    assert (played.frames == [b"{}"]) is fits
    assert (played.broken is None) is fits


def test_an_endless_header_line_is_given_up_after_1024_bytes() -> None:
    framing = Headers(CAP)
    assert framing.feed(b"a" * 1023) == []
    (broken,) = framing.feed(b"a")
    assert broken == Broken("a header line is longer than 1024 bytes", b"a" * 1024)
    assert framing.feed(b"\r\nContent-Length: 2\r\n\r\n{}") == []


def test_endless_headers_are_passed_over_in_flat_memory() -> None:
    framing = Headers(CAP)
    block = b"X-Noise: on and on\r\n" * 3000
    tracemalloc.start()
    try:
        for _ in range(10):
            assert framing.feed(block) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000
    assert framing.feed(b"Content-Length: 2\r\n\r\n{}") == [b"{}"]


def test_stray_lines_before_a_frame_are_reported_and_survived() -> None:
    noise = b"> my-plugin@1.0.0 start\r\n> node index.js\n"
    expected = [Skipped("not a frame", b"> my-plugin@1.0.0 start", 23)]
    expected += [Skipped("not a frame", b"> node index.js", 15)]
    frame = b"Content-Length: 2\r\n\r\n{}"
    assert read(noise + frame).items == [*expected, b"{}"]
    assert read(frame + noise + frame).items == [b"{}", *expected, b"{}"]
    inside = b"Content-Length: 2\r\n" + noise + b"\r\n{}"
    assert read(inside).items == [*expected, b"{}"]


def test_blank_lines_before_the_first_frame_are_passed_over() -> None:
    frame = b"Content-Length: 2\r\n\r\n{}"
    assert read(b"\n\r\n" + frame) == Played([b"{}"], None)
    assert read(b"\nbanner\n\n" + frame).frames == [b"{}"]


def test_blank_lines_after_the_first_frame_are_fatal() -> None:
    frame = b"Content-Length: 2\r\n\r\n{}"
    assert "no Content-Length" in why_broken(frame + b"\r\n" + frame)


def test_headers_without_a_length_are_fatal() -> None:
    assert "no Content-Length" in why_broken(b"Content-Type: text\r\n\r\n{}")


def test_the_frames_before_a_fatal_error_are_not_lost() -> None:
    played = read(b"Content-Length: 2\r\n\r\n{}Content-Length: x\r\n")
    assert played.frames == [b"{}"]
    assert played.broken is not None and b"Content-Length: x" in played.broken.head


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (b"Content-Le", "inside the headers"),
        (b"Content-Length: 5\r\n", "inside the headers"),
        (b"Content-Length: 5\r\n\r\n", "after 0 of 5 bytes"),
        (b"Content-Length: 5\r\n\r\nab", "after 2 of 5 bytes"),
    ],
)
def test_the_end_inside_a_frame_says_where(stream: bytes, why: str) -> None:
    ended = read(stream).end
    assert ended is not None and why in ended.why


def test_the_end_after_stray_lines_alone_is_an_end_between_frames() -> None:
    assert read(b"usage: none\n").end is not None  # it has a colon: it may have been a header
    assert read(b"hello\n\n").end is None
