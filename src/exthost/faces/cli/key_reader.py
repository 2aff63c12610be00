"""Reads single keys from the terminal on an event loop, without blocking the loop, for the live
table of `exthost run` and `exthost top` and for `exthost dev`.

Ctrl-C still raises SIGINT. A process in a background process group does not use the terminal. If it
read from the terminal or changed its mode, the kernel would stop the process (SIGTTIN, SIGTTOU).
"""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from typing import Any

# How often a process in the background checks whether it is in the foreground again.
_BACKGROUND_SECONDS = 1.0

# The name of a key, by its escape sequence or control character. Ctrl-D has the name "", which also
# means that the terminal was closed.
_KEY_NAMES = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down",
    "\x1b[5~": "page-up", "\x1b[6~": "page-down",
    "\x1b": "escape", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace",
    "\x03": "ctrl-c", "\x04": "",
}  # fmt: skip


class KeyReader:
    """Calls `on_key` with the name of each key, until `close` restores the terminal. With
    `from_any_stdin`, stdin may also be a pipe, whose characters are the keys, or a terminal that
    does not control this process."""

    def __init__(self, on_key: Callable[[str], None], *, from_any_stdin: bool = False) -> None:
        self._on_key = on_key
        self._from_any_stdin = from_any_stdin
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._saved_mode: list[Any] | None = None
        self.is_reading = False
        try:
            self._fd = sys.stdin.fileno()
            self._is_terminal = os.isatty(self._fd)
            if (self._is_terminal or from_any_stdin) and self._is_in_foreground():
                if self._is_terminal:
                    self._saved_mode = termios.tcgetattr(self._fd)
                    tty.setcbreak(self._fd, termios.TCSANOW)
                self._loop.add_reader(self._fd, self._read)
                self.is_reading = True
        # stdin is closed, a file, or not the controlling terminal of this process.
        except (OSError, ValueError, termios.error):
            self.close()

    def close(self) -> None:
        """Read no more keys, and restore the terminal."""
        if self._timer is not None:
            self._timer.cancel()
        if self.is_reading:
            self.is_reading = False
            self._loop.remove_reader(self._fd)
        saved_mode, self._saved_mode = self._saved_mode, None
        try:
            if saved_mode is not None and self._is_in_foreground():
                termios.tcsetattr(self._fd, termios.TCSANOW, saved_mode)
        except (OSError, termios.error):
            pass  # the terminal was closed

    def _is_in_foreground(self) -> bool:
        """Return whether this process may use the terminal now."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:  # stdin is not the terminal that controls this process
            if self._from_any_stdin:
                return True
            raise

    def _read(self) -> None:
        """Read keys and pass them on. While the process is in the background, wait instead."""
        try:
            if not self._is_in_foreground():
                self._loop.remove_reader(self._fd)
                self._timer = self._loop.call_later(_BACKGROUND_SECONDS, self._resume_reading)
                return
            text = os.read(self._fd, 1024).decode("utf-8", "replace")
        except OSError:
            text = ""
        if not text:
            self._loop.remove_reader(self._fd)
            # The end of a pipe or of /dev/null is not a key: the program continues without keys.
            if self._is_terminal:
                self._on_key("")
        for key in split_keys(text):
            self._on_key(key)

    def _resume_reading(self) -> None:
        self._loop.add_reader(self._fd, self._read)


def split_keys(text: str) -> Iterator[str]:
    """Yield the names of the keys in a text that was read from a terminal."""
    while text:
        # The longest sequence is the key, because escape sequences begin with the character of Esc.
        key = max(
            (sequence for sequence in _KEY_NAMES if text.startswith(sequence)),
            key=len,
            default=text[0],
        )
        # An unknown escape sequence is skipped, up to the letter or tilde that ends it.
        if key == "\x1b" and len(text) > 1 and text[1] in "[O":
            end = next((i for i, c in enumerate(text[2:], 2) if c.isalpha() or c == "~"), len(text))
            text = text[end + 1 :]
            continue
        yield _KEY_NAMES.get(key, key)
        text = text[len(key) :]
