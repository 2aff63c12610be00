"""Single keys from a terminal, and lines of text between them, on an event loop."""

import asyncio
import os
import sys
import termios
import tty
from types import TracebackType

_ENTER = ("\r", "\n")
_ERASE = ("\x7f", "\x08")
_END = "\x04"  # Ctrl-D


class KeyReader:
    """Reads keys for as long as a `with` block lasts; the terminal is as before after it. Without a
    terminal, whole lines are read, and each is one key."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._keys: asyncio.Queue[str] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._is_terminal = os.isatty(self._fd)
        self._before: list[object] | None = None

    def __enter__(self) -> "KeyReader":
        if self._is_terminal:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        try:
            self._loop.add_reader(self._fd, self._read)
        except PermissionError:  # a file: there is nobody to press keys
            pass
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.remove_reader(self._fd)
        if self._before is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 1024)
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._fd)
            if self._is_terminal:
                self._keys.put_nowait(_END)
            return
        for key in data.decode("utf-8", "replace"):
            self._keys.put_nowait(key)

    async def key(self) -> str:
        """Return the next key."""
        return await self._keys.get()

    async def line(self, prompt: str) -> str:
        """Ask for a line of text on stderr, and return it without its end."""
        _echo(prompt)
        text = ""
        while (key := await self._keys.get()) not in _ENTER:
            if key in _ERASE:
                if text:
                    text = text[:-1]
                    _echo("\b \b")
            elif key == _END:
                return ""
            elif key.isprintable():
                text += key
                _echo(key)
        _echo("\n")
        return text


def _echo(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
