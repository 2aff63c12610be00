"""Draws whole screens on a terminal, and reads single keys from it, for `exthost top`."""

import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, Self

from exthost.faces.cli.key_reader import split_keys

# Escape sequences: show the alternate screen and hide the cursor, and the reverse.
_ENTER_SCREEN, _LEAVE_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _CLEAR_LINE_END, _REVERSE, _RESET = "\x1b[H", "\x1b[K", "\x1b[7m", "\x1b[0m"


def _exit(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)  # the exit code that a shell reports for a signal


class Terminal:
    """The terminal of this process. Inside a `with` block it is in raw mode and shows the
    alternate screen. SIGTERM ends the block by SystemExit, so that the terminal is restored."""

    def __init__(self) -> None:
        self._in_fd, self._out_fd = sys.stdin.fileno(), sys.stdout.fileno()
        self._saved_mode = termios.tcgetattr(self._in_fd)

    def __enter__(self) -> Self:
        self._sigterm_handler = signal.signal(signal.SIGTERM, _exit)
        tty.setraw(self._in_fd, termios.TCSANOW)
        self._write(_ENTER_SCREEN)
        return self

    def __exit__(self, *_: object) -> None:
        self._write(_LEAVE_SCREEN)
        termios.tcsetattr(self._in_fd, termios.TCSANOW, self._saved_mode)
        signal.signal(signal.SIGTERM, self._sigterm_handler)

    @contextmanager
    def shows_output(self) -> Iterator[None]:
        """Leave the alternate screen inside a `with` block, so that another program can print to
        the terminal. Keys are not echoed, and are still read with `read_keys`."""
        self.__exit__()
        mode = termios.tcgetattr(self._in_fd)
        mode[3] &= ~(termios.ICANON | termios.ECHO)  # the local modes (lflag)
        termios.tcsetattr(self._in_fd, termios.TCSANOW, mode)
        try:
            yield
        finally:
            termios.tcsetattr(self._in_fd, termios.TCSANOW, self._saved_mode)
            self.__enter__()

    def size(self) -> tuple[int, int]:
        """Return the current number of columns and lines, at least 20 and 6."""
        size = shutil.get_terminal_size()
        return max(20, size.columns), max(6, size.lines)

    def draw(self, lines: Sequence[str], highlighted: int = -1) -> None:
        """Show these lines as the whole screen. The line with the index `highlighted` is shown in
        reverse video (-1: none). No line may be wider than the terminal."""
        styled_lines = [
            f"{_REVERSE}{line}{_RESET}{_CLEAR_LINE_END}"
            if index == highlighted
            else f"{line}{_CLEAR_LINE_END}"
            for index, line in enumerate(lines)
        ]
        self._write(_HOME + "\r\n".join(styled_lines))

    def read_keys(self, seconds: float) -> list[str]:
        """Wait for keys for at most `seconds`, and return them. The key "" means that the terminal
        was closed."""
        if not select.select([self._in_fd], [], [], seconds)[0]:
            return []
        try:
            text = os.read(self._in_fd, 1024).decode("utf-8", "replace")
        except OSError:
            return [""]
        return list(split_keys(text)) if text else [""]

    def _write(self, text: str) -> None:
        data = memoryview(text.encode("utf-8", "replace"))
        while data:
            data = data[os.write(self._out_fd, data) :]
