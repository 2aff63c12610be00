"""The last of stderr: bounded, whole lines as they come, the same however the bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exthost.process.stderr_tail import LINE_BYTES, OLDER, SHOWN_LINES, TAIL_BYTES, StderrTail

# Mostly short lines, now and then one around and above the length that is handed on in pieces.
LINES = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.integers(LINE_BYTES - 2, 3 * LINE_BYTES + 2).map(lambda n: b"a" * n),
    ).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b"")),
    max_size=12,
)
# How fast the machine is says nothing about a tail.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
CUTS = st.lists(st.integers(0, 80_000), max_size=8)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    return [data[start:end] for start, end in pairwise(places)]


@UNHURRIED
@given(LINES, CUTS)
def test_lines_are_handed_on_the_same_however_the_bytes_are_cut(
    lines: list[bytes], cuts: list[int]
) -> None:
    data = b"\n".join(lines)
    expected: list[str] = []
    for line in lines if lines and lines[-1] else lines[:-1]:
        cut = [line[n : n + LINE_BYTES] for n in range(0, len(line), LINE_BYTES)] or [b""]
        expected += [piece.decode("utf-8", "replace") for piece in cut]
    reports: list[str] = []
    tail = StderrTail(reports.append)
    for piece in pieces(data, cuts):
        tail.feed(piece)
    tail.end()
    assert reports == expected
    assert tail.total == len(data)


@UNHURRIED
@given(LINES, CUTS)
def test_the_tail_is_the_last_part_of_the_input(lines: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(lines)
    tail = StderrTail()
    for piece in pieces(data, cuts):
        tail.feed(piece)
    kept = data[-TAIL_BYTES:].splitlines()
    shown = kept[-SHOWN_LINES:]
    assert tail.lines() == tuple(line.decode("utf-8", "replace") for line in shown)


def test_an_endless_line_is_handed_on_in_pieces_and_costs_no_more_than_one() -> None:
    reports: list[str] = []
    tail = StderrTail(reports.append)
    for _ in range(100):
        tail.feed(b"x" * 10_000)
    assert {len(piece) for piece in reports} == {LINE_BYTES}
    assert 1_000_000 - LINE_BYTES <= sum(map(len, reports)) <= 1_000_000
    assert sum(map(len, tail.lines())) == TAIL_BYTES


def numbered(first: int, end: int) -> list[str]:
    return [f"line {n}" for n in range(first, end)]


def test_only_so_many_lines_are_shown_the_first_of_a_burst_among_them() -> None:
    tail = StderrTail(now=lambda: 0.0)
    tail.feed("\n".join([*numbered(0, 100), ""]).encode())
    left_out = "(81 lines are left out here)"
    assert list(tail.lines()) == [*numbered(0, 3), left_out, *numbered(84, 100)]
    assert len(tail.lines()) == SHOWN_LINES


@pytest.mark.parametrize("piece", [1, 7, 65_536])
def test_the_first_lines_of_the_last_burst_are_kept_however_long_it_is(piece: int) -> None:
    time = 0.0
    tail = StderrTail(now=lambda: time)
    tail.feed("\n".join([*numbered(0, 50), ""]).encode())
    time = 10.0
    burst = ["panic: index out of range", "", "goroutine 1 [running]:", *numbered(0, 5000), ""]
    data = "\n".join(burst).encode()
    assert len(data) > 2 * TAIL_BYTES
    for start in range(0, len(data), piece):
        tail.feed(data[start : start + piece])
    head, tail_of = tail.lines()[:3], list(tail.lines()[4:])
    assert head == ("panic: index out of range", "", "goroutine 1 [running]:")
    assert tail_of == numbered(4984, 5000)


def test_a_short_burst_is_shown_after_the_earlier_output() -> None:
    time = 0.0
    tail = StderrTail(now=lambda: time)
    tail.feed("\n".join([*numbered(0, 50), ""]).encode())
    time = 10.0
    tail.feed(b"Error: no such file\n")
    assert list(tail.lines()) == [*numbered(31, 50), "Error: no such file"]


def test_the_rest_without_a_newline_is_handed_on_once_at_the_end() -> None:
    reports: list[str] = []
    tail = StderrTail(reports.append)
    tail.feed("käse\r\nno newline".encode())
    assert reports == ["käse"]
    tail.end()
    tail.end()
    assert reports == ["käse", "no newline"]


def test_lines_from_before_a_time_are_marked_unless_others_followed() -> None:
    time = 1.0
    tail = StderrTail(now=lambda: time)
    assert tail.lines(since=2.0) == ()
    tail.feed(b"old\n")
    assert tail.lines(since=1.0) == ("old",)
    assert tail.lines(since=2.0) == (OLDER, "old")
    time = 2.0
    tail.feed(b"new\n")
    assert tail.lines(since=2.0) == ("old", "new")


PANIC = b"\nthread 'main' panicked at src/main.rs:9:5:\nno such city\nstack backtrace:\n"
FRAMES = b"".join(b"  %2d: frame\n             at file.rs:%d\n" % (n, n) for n in range(40))


@pytest.mark.parametrize("pause", [0.0, 3.0])
def test_the_head_of_a_panic_is_kept_while_its_stack_is_looked_up(pause: float) -> None:
    """Rust prints the message, and the stack when it has found the names of the functions."""
    time = 1.0
    tail = StderrTail(now=lambda: time)
    tail.feed(b"an older line\n")
    time += 10
    tail.feed(PANIC)
    time += pause
    tail.feed(FRAMES)
    time += pause
    tail.feed(b"note: Some details are omitted\n")
    head = PANIC.decode().splitlines()[1:]
    assert list(tail.lines()[:4]) == [*head, "(66 lines are left out here)"]
    assert tail.lines()[-1] == "note: Some details are omitted"


def test_a_line_that_is_cut_by_a_pause_is_one_line_of_one_burst() -> None:
    time = 1.0
    tail = StderrTail(now=lambda: time)
    tail.feed(b"panic: no such")
    time += 3
    tail.feed(b" city\n" + b"stack\n" * 40)
    assert tail.lines()[0] == "panic: no such city"
