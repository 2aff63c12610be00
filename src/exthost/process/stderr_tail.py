"""The last lines of a child's stderr, in bounded memory.

Errors about the child carry the tail. Each complete line is passed on as it arrives; a line that
does not end is passed on in pieces.
"""

from collections.abc import Callable

# Enough for a Python traceback with context, several times over.
TAIL_BYTES = 16 * 1024

# The number of lines that an error carries.
SHOWN_LINES = 20

# A longer line is passed on in pieces of this size.
LINE_BYTES = 8 * 1024


class StderrTail:
    """Keeps the last bytes, and calls `on_line` for each line."""

    __slots__ = ("_kept", "_line", "_on_line", "_shown", "total")

    def __init__(self, on_line: Callable[[str], None] | None = None) -> None:
        self._kept = b""
        self._line = b""
        self._on_line = on_line
        self._shown: tuple[str, ...] | None = ()
        self.total = 0

    def feed(self, data: bytes, room: int | None = None) -> int:
        """Add bytes as they were read. At most `room` lines are passed on; return how many were
        left out."""
        self.total += len(data)
        self._shown = None
        if len(data) >= TAIL_BYTES:
            self._kept = data[-TAIL_BYTES:]
        else:
            self._kept = (self._kept + data)[-TAIL_BYTES:]
        return 0 if self._on_line is None else self._pass_on(data, self._on_line, room)

    def _pass_on(self, data: bytes, on_line: Callable[[str], None], room: int | None) -> int:
        *whole, rest = (self._line + data).split(b"\n", -1 if room is None else room)
        left_out = 0
        if room is not None and (left_out := rest.count(b"\n")):
            rest = rest[rest.rfind(b"\n") + 1 :]
        for line in whole:
            on_line(_text(_last_piece(line, on_line)))
        self._line = _last_piece(rest, on_line)
        return left_out

    def end(self) -> None:
        """Pass on what follows the last newline."""
        if self._line and self._on_line is not None:
            on_line, self._on_line = self._on_line, None
            on_line(_text(self._line))

    def lines(self) -> tuple[str, ...]:
        """Return the last lines, oldest first. The result is cached: when a process exits, each of
        its calls fails with the same lines."""
        if self._shown is None:
            self._shown = tuple(map(_text, self._kept.splitlines()[-SHOWN_LINES:]))
        return self._shown


def _last_piece(line: bytes, on_line: Callable[[str], None]) -> bytes:
    """Pass on all full pieces of a long line. Return the rest."""
    start = 0
    while len(line) - start > LINE_BYTES:
        on_line(_text(line[start : start + LINE_BYTES]))
        start += LINE_BYTES
    return line[start:] if start else line


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
