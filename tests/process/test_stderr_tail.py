"""The last of stderr: bounded, whole lines as they come, the same however the bytes are cut."""

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exthost.process.stderr_tail import LINE_BYTES, SHOWN_LINES, TAIL_BYTES, StderrTail

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
    told: list[str] = []
    tail = StderrTail(told.append)
    for piece in pieces(data, cuts):
        tail.feed(piece)
    tail.end()
    assert told == expected
    assert tail.total == len(data)


@UNHURRIED
@given(LINES, CUTS)
def test_the_tail_is_the_last_of_what_came(lines: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(lines)
    tail = StderrTail()
    for piece in pieces(data, cuts):
        tail.feed(piece)
    kept = data[-TAIL_BYTES:].splitlines()
    shown = kept[-SHOWN_LINES:]
    assert tail.lines() == tuple(line.decode("utf-8", "replace") for line in shown)


def test_an_endless_line_is_handed_on_in_pieces_and_costs_no_more_than_one() -> None:
    told: list[str] = []
    tail = StderrTail(told.append)
    for _ in range(100):
        tail.feed(b"x" * 10_000)
    assert {len(piece) for piece in told} == {LINE_BYTES}
    assert 1_000_000 - LINE_BYTES <= sum(map(len, told)) <= 1_000_000
    assert sum(map(len, tail.lines())) == TAIL_BYTES


def test_only_so_many_lines_are_shown_and_the_oldest_go_first() -> None:
    tail = StderrTail()
    tail.feed(b"".join(b"line %d\n" % n for n in range(100)))
    assert tail.lines() == tuple(f"line {n}" for n in range(80, 100))


def test_the_rest_without_a_newline_is_handed_on_once_at_the_end() -> None:
    told: list[str] = []
    tail = StderrTail(told.append)
    tail.feed("käse\r\nno newline".encode())
    assert told == ["käse"]
    tail.end()
    tail.end()
    assert told == ["käse", "no newline"]
