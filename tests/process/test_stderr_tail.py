"""`StderrTail` keeps the last lines of an extension's stderr, which errors about it show.

It keeps a limited number of bytes. Of a burst (lines that come close together, such as a stack
trace) it keeps the first lines, too, since they have the message. Long lines are split into pieces,
and a secret must stay hidden even if it is split. The result must not depend on how the bytes are
cut.
"""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exthost.process.stderr_tail import (
    HEAD_BYTES,
    LINE_BYTES,
    OLDER,
    SHOWN_LINES,
    TAIL_BYTES,
    StderrTail,
)
from exthost.session.trace.secrets import MIN_SECRET_CHARACTERS, SecretFilter

# Short lines, and some lines of about the maximum length and longer, which are split.
LINES = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.integers(LINE_BYTES - 2, 3 * LINE_BYTES + 2).map(lambda n: b"a" * n),
    ).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b"")),
    max_size=12,
)
# These tests do not depend on the speed of the machine.
WITHOUT_TIME_LIMIT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
CUTS = st.lists(st.integers(0, 80_000), max_size=8)


def split_at(data: bytes, cuts: list[int]) -> list[bytes]:
    positions = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    return [data[start:end] for start, end in pairwise(positions)]


@WITHOUT_TIME_LIMIT
@given(LINES, CUTS)
def test_the_lines_do_not_depend_on_how_the_bytes_are_cut(
    lines: list[bytes], cuts: list[int]
) -> None:
    data = b"\n".join(lines)
    expected: list[str] = []
    # An empty last line means that the data ends with a newline.
    for line in lines if lines and lines[-1] else lines[:-1]:
        starts_of_pieces = range(0, len(line), LINE_BYTES) or [0]  # an empty line is one piece
        pieces = [line[start : start + LINE_BYTES] for start in starts_of_pieces]
        expected += [piece.decode("utf-8", "replace") for piece in pieces]
    received_lines: list[str] = []
    tail = StderrTail(received_lines.append)
    for piece in split_at(data, cuts):
        tail.feed(piece)
    tail.end()
    assert received_lines == expected


@WITHOUT_TIME_LIMIT
@given(LINES, CUTS)
def test_the_tail_has_the_last_lines_of_the_input(lines: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(lines)
    tail = StderrTail()
    for piece in split_at(data, cuts):
        tail.feed(piece)
    kept_lines = data[-TAIL_BYTES:].splitlines()
    shown_lines = kept_lines[-SHOWN_LINES:]
    last_lines = tail.lines()[-len(shown_lines) :] if shown_lines else tail.lines()
    assert last_lines == tuple(line.decode("utf-8", "replace") for line in shown_lines)


def test_a_line_without_an_end_is_split_and_its_memory_is_limited() -> None:
    received_lines: list[str] = []
    tail = StderrTail(received_lines.append)
    for _ in range(100):
        tail.feed(b"x" * 10_000)
    assert {len(piece) for piece in received_lines} == {LINE_BYTES}
    assert 1_000_000 - LINE_BYTES <= sum(map(len, received_lines)) <= 1_000_000
    assert sum(map(len, tail.lines())) == TAIL_BYTES


def numbered_lines(first: int, end: int) -> list[str]:
    return [f"line {n}" for n in range(first, end)]


def test_the_first_and_last_lines_of_a_burst_are_shown() -> None:
    tail = StderrTail(now=lambda: 0.0)
    tail.feed("\n".join([*numbered_lines(0, 100), ""]).encode())
    omission_note = "(81 lines are left out here)"
    assert list(tail.lines()) == [*numbered_lines(0, 3), omission_note, *numbered_lines(84, 100)]
    assert len(tail.lines()) == SHOWN_LINES


def test_a_burst_of_as_many_lines_as_an_error_shows_is_whole() -> None:
    tail = StderrTail(now=lambda: 0.0)
    tail.feed("\n".join([*numbered_lines(0, SHOWN_LINES), ""]).encode())
    assert list(tail.lines()) == numbered_lines(0, SHOWN_LINES)


def test_lines_that_are_left_out_are_counted_with_an_unfinished_last_line() -> None:
    tail = StderrTail(now=lambda: 0.0)
    tail.feed("\n".join(numbered_lines(0, 100)).encode())
    assert tail.lines()[3] == "(81 lines are left out here)"
    assert tail.lines()[-1] == "line 99"


@pytest.mark.parametrize(
    ("lengths", "first_lines"),
    [
        ([TAIL_BYTES], ["panic: 0"]),
        ([10, 10, 10, 10, 3000, TAIL_BYTES], ["panic: 0", "0" * 10, "1" * 10]),
    ],
    ids=["two_lines", "seven_lines"],
)
def test_the_first_lines_of_a_burst_of_few_long_lines_are_kept(
    lengths: list[int], first_lines: list[str]
) -> None:
    """The burst has fewer lines than an error shows, but more bytes than the tail."""
    tail = StderrTail(now=lambda: 0.0)
    long_lines = [str(number) * length for number, length in enumerate(lengths)]
    tail.feed("\n".join(["panic: 0", *long_lines, ""]).encode())
    # All lines but the first ones and the last one, which is shown without its first character.
    left_out = 1 + len(lengths) - len(first_lines) - 1
    note = [f"({left_out} lines are left out here)"] if left_out else []
    assert list(tail.lines()) == [*first_lines, *note, long_lines[-1][1:]]


@pytest.mark.parametrize("piece_bytes", [1, 7, 65_536])
def test_the_first_lines_of_a_long_burst_are_kept(piece_bytes: int) -> None:
    time = 0.0
    tail = StderrTail(now=lambda: time)
    tail.feed("\n".join([*numbered_lines(0, 50), ""]).encode())
    time = 10.0
    burst = [
        "panic: index out of range",
        "",
        "goroutine 1 [running]:",
        *numbered_lines(0, 5000),
        "",
    ]
    data = "\n".join(burst).encode()
    assert len(data) > 2 * TAIL_BYTES
    for start in range(0, len(data), piece_bytes):
        tail.feed(data[start : start + piece_bytes])
    first_lines, last_lines = tail.lines()[:3], list(tail.lines()[4:])
    assert first_lines == ("panic: index out of range", "", "goroutine 1 [running]:")
    assert last_lines == numbered_lines(4984, 5000)


def test_a_short_burst_is_shown_after_the_earlier_output() -> None:
    time = 0.0
    tail = StderrTail(now=lambda: time)
    tail.feed("\n".join([*numbered_lines(0, 50), ""]).encode())
    time = 10.0
    tail.feed(b"Error: no such file\n")
    assert list(tail.lines()) == [*numbered_lines(31, 50), "Error: no such file"]


def test_a_last_line_without_a_newline_is_delivered_once_at_the_end() -> None:
    received_lines: list[str] = []
    tail = StderrTail(received_lines.append)
    tail.feed("käse\r\nno newline".encode())
    assert received_lines == ["käse"]
    tail.end()
    tail.end()
    assert received_lines == ["käse", "no newline"]


def test_older_lines_are_marked_unless_newer_lines_follow() -> None:
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
def test_the_first_lines_of_a_panic_are_kept_if_its_stack_comes_later(pause: float) -> None:
    """Rust prints the message first, and the stack seconds later."""
    time = 1.0
    tail = StderrTail(now=lambda: time)
    tail.feed(b"an older line\n")
    time += 10
    tail.feed(PANIC)
    time += pause
    tail.feed(FRAMES)
    time += pause
    tail.feed(b"note: Some details are omitted\n")
    first_lines = PANIC.decode().splitlines()[1:]
    assert list(tail.lines()[:4]) == [*first_lines, "(66 lines are left out here)"]
    assert tail.lines()[-1] == "note: Some details are omitted"


def test_a_line_with_a_pause_inside_belongs_to_one_burst() -> None:
    time = 1.0
    tail = StderrTail(now=lambda: time)
    tail.feed(b"panic: no such")
    time += 3
    tail.feed(b" city\n" + b"stack\n" * 40)
    assert tail.lines()[0] == "panic: no such city"


SECRET = "tok-0123456789abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize("in_first_piece", [1, 6, 20, len(SECRET) - 6, len(SECRET) - 1])
def test_a_secret_across_two_pieces_of_a_long_line_is_hidden(in_first_piece: int) -> None:
    text = "a" * (LINE_BYTES - in_first_piece) + SECRET + " the end"
    received_lines: list[str] = []
    tail = StderrTail(received_lines.append, hide_in_cut=SecretFilter([SECRET]).cut_text)
    tail.feed(text[: LINE_BYTES // 2].encode())
    tail.feed(text[LINE_BYTES // 2 :].encode() + b"\n")
    assert len(received_lines) == 2  # pieces
    assert not shown_parts(received_lines)
    assert received_lines[1].endswith(" the end")


@pytest.mark.parametrize("cut_off", [1, 6, 20, len(SECRET) - 6])
def test_a_secret_at_the_beginning_of_the_tail_is_hidden(cut_off: int) -> None:
    rest = "b" * (TAIL_BYTES - len(SECRET) + cut_off)
    tail = StderrTail(hide_in_cut=SecretFilter([SECRET]).cut_text)
    tail.feed(f"aaaa{SECRET}{rest}".encode())
    assert not shown_parts(tail.lines())


def test_a_secret_at_the_end_of_the_first_lines_of_a_burst_is_hidden() -> None:
    first_line = "a" * (HEAD_BYTES - 20) + SECRET
    tail = StderrTail(hide_in_cut=SecretFilter([SECRET]).cut_text)
    tail.feed("\n".join([first_line, *["stack"] * (2 * SHOWN_LINES)]).encode())
    assert tail.lines()[0].startswith("aaa")
    assert not shown_parts(tail.lines())


def test_the_beginning_of_a_secret_in_an_unfinished_line_is_hidden() -> None:
    tail = StderrTail(hide_in_cut=SecretFilter([SECRET]).cut_text)
    tail.feed(f"the token is {SECRET[:20]}".encode())
    assert tail.lines() == ("the token is ***",)


def test_a_piece_from_the_middle_of_a_long_secret_is_hidden() -> None:
    secret = "".join(map(str, range(LINE_BYTES)))  # longer than three pieces
    received_lines: list[str] = []
    tail = StderrTail(received_lines.append, hide_in_cut=SecretFilter([secret]).cut_text)
    tail.feed(secret.encode() + b"\n")
    assert set(received_lines) == {"***"}


def shown_parts(lines: Sequence[str]) -> list[str]:
    """Return the parts of SECRET in these lines that are long enough to be a secret of their
    own."""
    starts = range(len(SECRET) - MIN_SECRET_CHARACTERS + 1)
    parts = [SECRET[start : start + MIN_SECRET_CHARACTERS] for start in starts]
    return [part for part in parts if any(part in line for line in lines)]


def test_a_piece_of_a_long_line_ends_between_two_words() -> None:
    """A part of a short secret would be too short to be recognised."""
    secret = "pass-12345"
    received_lines: list[str] = []
    tail = StderrTail(received_lines.append, hide_in_cut=SecretFilter([secret]).cut_text)
    tail.feed(f"{'a' * (LINE_BYTES - 6)} {secret} the end\n".encode())
    assert "".join(received_lines) == f"{'a' * (LINE_BYTES - 6)} *** the end"
