"""Keeps the last lines of a process's stderr, in bounded memory.

These lines (the tail) are part of errors about the process. Each complete line is also passed to a
callback when it arrives; a very long line is passed on in pieces.

A burst is output without a pause. If the last burst has more lines than the tail, its first lines
are kept as well, because a panic prints its message first, and the stacks of all threads after it.
A pause before or after an indented line does not end a burst: a panic of Rust prints its message,
looks up the names of functions, which may take seconds, and then prints the stack, indented.

A secret in the output can be cut in two where a long line or the tail is cut, and where a line is
not yet complete. Its parts are not recognised as a secret later, so `hide_in_cut` hides them here.
"""

import re
import time
from collections.abc import Callable

# Enough for a Python traceback with context, several times over.
TAIL_BYTES = 16 * 1024

# The number of lines in an error.
SHOWN_LINES = 20

# How many of these lines are the first of the last burst, if the burst has more lines than the
# tail, and how many bytes of them are kept. The message of a panic has one or two lines.
HEAD_LINES = 3
HEAD_BYTES = 2 * 1024

# Output after a longer pause is a new burst, unless `_continues`.
_PAUSE_SECONDS = 0.2

_INDENTS = (b" ", b"\t")

# The first line of a tail in which every line is older than the call that failed.
OLDER = "(nothing since the call began; these lines are older)"

# The line that replaces those in the middle of a burst.
_LEFT_OUT = re.compile(r"\(\d+ lines are left out here\)")

# A longer line is passed on in pieces of at most this size. If possible, a piece ends between two
# words, in its second half: then no secret is cut in two.
LINE_BYTES = 8 * 1024
_WORD_ENDS = (b" ", b"\t", b'"', b"'")


class StderrTail:
    """Keeps the last bytes, and calls `on_line` for each line.

    `hide_in_cut` gets a line that was cut at either end. It returns the line without secrets, and
    without the parts of secrets at its ends.
    """

    __slots__ = (
        "_burst_head",
        "_burst_newlines",
        "_cached_lines",
        "_hide_in_cut",
        "_is_continued",
        "_last_data_at",
        "_line",
        "_now",
        "_on_line",
        "_tail",
    )

    def __init__(
        self,
        on_line: Callable[[str], None] | None = None,
        now: Callable[[], float] = time.monotonic,
        hide_in_cut: Callable[[str], str] = str,
    ) -> None:
        self._now = now
        self._hide_in_cut = hide_in_cut
        self._last_data_at = 0.0  # when the last bytes arrived, by `now`
        self._burst_head = b""
        self._burst_newlines = 0
        self._tail = b""
        self._line = b""
        self._is_continued = False  # whether `_line` is the rest of a line, after its first pieces
        self._on_line = on_line
        self._cached_lines: tuple[str, ...] | None = ()

    def feed(self, data: bytes, room: int | None = None) -> int:
        """Add the bytes of one read. Pass at most `room` of their lines to `on_line`; all of them
        if `room` is None. Return the number of lines that were not passed on."""
        self._cached_lines = None
        newlines = data.count(b"\n")  # only once, since it takes the longest in short lines
        self._add_to_burst(data, newlines)
        if len(data) >= TAIL_BYTES:
            self._tail = data[-TAIL_BYTES:]
        else:
            self._tail = (self._tail + data)[-TAIL_BYTES:]
        if self._on_line is None:
            return 0
        return self._pass_on(data, newlines, self._on_line, room)

    def _add_to_burst(self, data: bytes, newlines: int) -> None:
        previous_at, self._last_data_at = self._last_data_at, self._now()
        if self._last_data_at - previous_at > _PAUSE_SECONDS and not self._continues(data):
            self._burst_head, self._burst_newlines = b"", 0
        self._burst_newlines += newlines
        if len(self._burst_head) < HEAD_BYTES:
            self._burst_head += data[: HEAD_BYTES - len(self._burst_head)]

    def _continues(self, data: bytes) -> bool:
        """Return whether data after a pause belongs to the output before: it continues a line, or
        the line before or after the pause is indented, as those of a stack are."""
        last_line = self._tail[self._tail.rfind(b"\n", 0, -1) + 1 :]
        is_inside_line = bool(last_line) and not last_line.endswith(b"\n")
        return is_inside_line or data[:1] in _INDENTS or last_line[:1] in _INDENTS

    def _pass_on(
        self, data: bytes, newlines: int, on_line: Callable[[str], None], room: int | None
    ) -> int:
        """Pass on the lines that the data completes. Return how many were left out."""
        # `_line`, the rest of an earlier read, has no newline. So each newline of the data ends one
        # line, and with a `room` that is too small, the last lines stay together in `rest`.
        *whole, rest = (self._line + data).split(b"\n", -1 if room is None else room)
        left_out = newlines - len(whole)
        if left_out:
            rest = rest[rest.rfind(b"\n") + 1 :]
        for line in whole:
            self._pass_on_last_piece(self._pass_on_full_pieces(line, on_line), on_line)
        if left_out:
            self._is_continued = False  # the line that was begun is left out
        self._line = self._pass_on_full_pieces(rest, on_line)
        return left_out

    def _pass_on_full_pieces(self, line: bytes, on_line: Callable[[str], None]) -> bytes:
        """Pass on all full pieces of a long line. Return the rest."""
        start = 0
        while len(line) - start > LINE_BYTES:
            middle, end = start + LINE_BYTES // 2, start + LINE_BYTES
            end = 1 + max(line.rfind(mark, middle, end) for mark in _WORD_ENDS) or end
            on_line(self._hide_in_cut(_text(line[start:end])))
            start = end
            self._is_continued = True
        return line[start:] if start else line

    def _pass_on_last_piece(self, piece: bytes, on_line: Callable[[str], None]) -> None:
        """Pass on the end of a line, or the whole line."""
        on_line(self._hide_in_cut(_text(piece)) if self._is_continued else _text(piece))
        self._is_continued = False

    def end(self) -> None:
        """Pass on the output after the last newline, at the end of stderr."""
        if self._line and self._on_line is not None:
            on_line, self._on_line = self._on_line, None  # a second call passes on nothing
            on_line(self._hide_in_cut(_text(self._line)))

    def lines(self, since: float = 0.0) -> tuple[str, ...]:
        """Return the last lines, oldest first. If all of them arrived before the time `since` (by
        `now`), the line OLDER precedes them."""
        lines = self._last_lines()
        return (OLDER, *lines) if lines and self._last_data_at < since else lines

    def _last_lines(self) -> tuple[str, ...]:
        """Return the last lines. The result is cached: when a process exits, each of its calls
        fails with the same lines."""
        if self._cached_lines is None:
            lines = self._split_in_lines(self._tail)[-SHOWN_LINES:]
            is_last_unfinished = bool(self._tail) and not self._tail.endswith(b"\n")
            burst_lines = self._burst_newlines + is_last_unfinished
            if burst_lines > len(lines):
                head = self._split_in_lines(self._burst_head.lstrip(b"\r\n"))[:HEAD_LINES]
                last_lines = lines[-(SHOWN_LINES - len(head) - 1) :]  # 1 for the note
                head = head[: burst_lines - len(last_lines)]  # without lines of `last_lines`
                left_out = burst_lines - len(head) - len(last_lines)
                note = [f"({left_out} lines are left out here)"] if left_out else []
                lines = [*head, *note, *last_lines]
            self._cached_lines = tuple(lines)
        return self._cached_lines

    def _split_in_lines(self, data: bytes) -> list[str]:
        """Return the lines of these bytes, of which the first and the last may be parts of a
        line."""
        lines = [_text(line) for line in data.splitlines()]
        if lines:
            lines[-1] = self._hide_in_cut(lines[-1])
            lines[0] = self._hide_in_cut(lines[0])
        return lines


def is_note(line: str) -> bool:
    """Return whether a line of a tail is about its other lines, not from the process."""
    return line == OLDER or _LEFT_OUT.fullmatch(line) is not None


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
