"""The last of what a child wrote to stderr, bounded whatever it writes.

The tail is attached to every error about the child. Whole lines are handed on as they come,
to the log and to whoever listens; a line that never ends is handed on in pieces.
"""

from collections.abc import Callable

# What a person reads after a crash: a Python traceback with some context fits many times.
TAIL_BYTES = 16 * 1024

# Of the tail, as many lines as an error carries.
SHOWN_LINES = 20

# A line longer than this is handed on in pieces of this size.
LINE_BYTES = 8 * 1024


class Tail:
    """A ring of the last bytes, made when the first byte comes."""

    __slots__ = ("_kept", "_line", "_on_line", "_shown", "total")

    def __init__(self, on_line: Callable[[str], None] | None = None) -> None:
        self._kept = b""
        self._line = b""
        self._on_line = on_line
        self._shown: tuple[str, ...] | None = ()
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        self._shown = None
        if len(data) >= TAIL_BYTES:
            self._kept = data[-TAIL_BYTES:]
        else:
            self._kept = (self._kept + data)[-TAIL_BYTES:]
        if self._on_line is not None:
            self._hand_on(data, self._on_line)

    def _hand_on(self, data: bytes, on_line: Callable[[str], None]) -> None:
        *whole, rest = (self._line + data).split(b"\n")
        for line in whole:
            on_line(_text(_all_but_the_last_piece(line, on_line)))
        self._line = _all_but_the_last_piece(rest, on_line)

    def end(self) -> None:
        """Hand on what stands after the last newline."""
        if self._line and self._on_line is not None:
            on_line, self._on_line = self._on_line, None
            on_line(_text(self._line))

    def lines(self) -> tuple[str, ...]:
        """The last lines, oldest first. A thousand calls may be told of one death: worked out
        once, and shared."""
        if self._shown is None:
            self._shown = tuple(map(_text, self._kept.splitlines()[-SHOWN_LINES:]))
        return self._shown


def _all_but_the_last_piece(line: bytes, on_line: Callable[[str], None]) -> bytes:
    """What is left of a line when it has been handed on as far as it is too long."""
    start = 0
    while len(line) - start > LINE_BYTES:
        on_line(_text(line[start : start + LINE_BYTES]))
        start += LINE_BYTES
    return line[start:] if start else line


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
