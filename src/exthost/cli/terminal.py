"""A terminal in which whole screens are drawn and single keys are read."""

import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

__all__ = ["Terminal", "split_keys"]

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REVERSE, _PLAIN = "\x1b[H", "\x1b[K", "\x1b[7m", "\x1b[0m"

_KEYS = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down",
    "\x1b[5~": "page-up", "\x1b[6~": "page-down",
    "\x1b": "escape", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace",
    "\x03": "ctrl-c", "\x04": "",
}  # fmt: skip


class Terminal:
    """The terminal of this process, for the length of a `with` block."""

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._before = termios.tcgetattr(self._in)

    def __enter__(self) -> Self:
        tty.setraw(self._in, termios.TCSANOW)
        self._write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        self._write(_LEAVE)
        termios.tcsetattr(self._in, termios.TCSANOW, self._before)

    @contextmanager
    def left(self) -> Iterator[None]:
        """Leave the terminal to another program for the length of a block."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    def size(self) -> tuple[int, int]:
        """Return the columns and the lines, as they are now."""
        size = shutil.get_terminal_size()
        return max(20, size.columns), max(6, size.lines)

    def draw(self, lines: Sequence[str], marked: int = -1) -> None:
        """Show these lines and nothing else, one of them in reverse. None may be wider than the
        terminal."""
        shown = [
            f"{_REVERSE}{line}{_PLAIN}{_REST_OF_LINE}"
            if index == marked
            else f"{line}{_REST_OF_LINE}"
            for index, line in enumerate(lines)
        ]
        self._write(_HOME + "\r\n".join(shown))

    def keys(self, seconds: float) -> list[str]:
        """Return the keys that were pressed, after at most `seconds`. "" means that the terminal
        is gone."""
        if not select.select([self._in], [], [], seconds)[0]:
            return []
        try:
            text = os.read(self._in, 1024).decode("utf-8", "replace")
        except OSError:
            return [""]
        return list(split_keys(text)) if text else [""]

    def _write(self, text: str) -> None:
        data = memoryview(text.encode("utf-8", "replace"))
        while data:
            data = data[os.write(self._out, data) :]


def split_keys(text: str) -> Iterator[str]:
    """Yield the keys in what was read at once."""
    while text:
        key = max(
            (key_bytes for key_bytes in _KEYS if text.startswith(key_bytes)),
            key=len,
            default=text[0],
        )
        if key == "\x1b" and len(text) > 1 and text[1] in "[O":  # one that is not known
            end = next((i for i, c in enumerate(text[2:], 2) if c.isalpha() or c == "~"), len(text))
            text = text[end + 1 :]
            continue
        yield _KEYS.get(key, key)
        text = text[len(key) :]
