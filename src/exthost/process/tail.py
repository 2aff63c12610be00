"""The last of what a child wrote to stderr, bounded whatever it writes.

The tail is attached to every error about the child. Whole lines are handed on as they come,
to the log and to whoever listens; a line that never ends is handed on in pieces.
"""

from collections.abc import Callable

# What a person reads after a crash: a Python traceback with some context fits many times.
TAIL_BYTES = 16 * 1024

# A line longer than this is handed on in pieces of this size.
LINE_BYTES = 8 * 1024


class Tail:
    """A ring of the last bytes, made when the first byte comes."""

    __slots__ = ("_kept", "_line", "_on_line", "total")

    def __init__(self, on_line: Callable[[str], None] | None = None) -> None:
        self._kept = b""
        self._line = b""
        self._on_line = on_line
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        if len(data) >= TAIL_BYTES:
            self._kept = data[-TAIL_BYTES:]
        else:
            self._kept = (self._kept + data)[-TAIL_BYTES:]
        if self._on_line is not None:
            self._hand_on(data, self._on_line)

    def _hand_on(self, data: bytes, on_line: Callable[[str], None]) -> None:
        *whole, self._line = (self._line + data).split(b"\n")
        while len(self._line) > LINE_BYTES:
            whole.append(self._line[:LINE_BYTES])
            self._line = self._line[LINE_BYTES:]
        for line in whole:
            on_line(_text(line))

    def end(self) -> None:
        """Hand on what stands after the last newline."""
        if self._line and self._on_line is not None:
            on_line, self._on_line = self._on_line, None
            on_line(_text(self._line))

    def lines(self, most: int = 20) -> tuple[str, ...]:
        """The last lines, oldest first."""
        return tuple(_text(line) for line in self._kept.splitlines()[-most:])


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
