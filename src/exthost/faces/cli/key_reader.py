"""Reads single keys, and lines of text, from a terminal on an event loop."""

import asyncio
import os
import sys
import termios
import tty
from types import TracebackType

_ENTER = ("\r", "\n")
_BACKSPACE = ("\x7f", "\x08")
_CTRL_D = "\x04"  # Ctrl-D


class KeyReader:
    """Reads keys within a `with` block, and restores the mode of the terminal at its end. If stdin
    is not a terminal, each character that is read from it is a key."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._keys: asyncio.Queue[str] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._is_terminal = os.isatty(self._fd)
        self._saved_mode: list[object] | None = None

    def __enter__(self) -> "KeyReader":
        if self._is_terminal:
            self._saved_mode = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        try:
            self._loop.add_reader(self._fd, self._read)
        except PermissionError:  # stdin is a regular file, which cannot be watched: no keys
            pass
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.remove_reader(self._fd)
        if self._saved_mode is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved_mode)  # type: ignore[arg-type]

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 1024)
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._fd)
            # A closed terminal counts as Ctrl-D. The end of a pipe or of /dev/null does not: the
            # program continues without keys.
            if self._is_terminal:
                self._keys.put_nowait(_CTRL_D)
            return
        for key in data.decode("utf-8", "replace"):
            self._keys.put_nowait(key)

    async def read_key(self) -> str:
        """Return the next key."""
        return await self._keys.get()

    async def read_line(self, prompt: str) -> str:
        """Print a prompt to stderr, read a line, and return it without the newline. Return ""
        after Ctrl-D."""
        _print_prompt(prompt)
        text = ""
        while (key := await self._keys.get()) not in _ENTER:
            if key in _BACKSPACE:
                if text:
                    text = text[:-1]
                    _print_prompt("\b \b")
            elif key == _CTRL_D:
                return ""
            elif key.isprintable():
                text += key
                _print_prompt(key)
        _print_prompt("\n")
        return text


def _print_prompt(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
