"""Reads keys from the terminal on the event loop of a running host, without blocking the loop.

Ctrl-C still raises SIGINT. A host in a background process group does not use the terminal. If it
read from the terminal or changed its mode, the kernel would stop the process (SIGTTIN, SIGTTOU).
"""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable
from typing import Any

from exthost.faces.cli.terminal import split_keys

__all__ = ["LiveKeys"]

# How often a host in the background checks whether it is in the foreground again.
_BACKGROUND_SECONDS = 1.0


class LiveKeys:
    """Calls `on_key` with the name of each key, until `close` restores the terminal."""

    def __init__(self, on_key: Callable[[str], None]) -> None:
        self._on_key = on_key
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._saved_mode: list[Any] | None = None
        try:
            self._fd = sys.stdin.fileno()
            if os.isatty(self._fd) and self._is_in_foreground():
                self._saved_mode = termios.tcgetattr(self._fd)
                tty.setcbreak(self._fd, termios.TCSANOW)
                self._loop.add_reader(self._fd, self._read)
        # stdin is closed, or it is not the controlling terminal of this process.
        except (OSError, ValueError, termios.error):
            self.close()

    @property
    def is_reading(self) -> bool:
        """Whether stdin is a terminal whose keys are read."""
        return self._saved_mode is not None

    def close(self) -> None:
        """Read no more keys, and restore the terminal."""
        if self._timer is not None:
            self._timer.cancel()
        saved_mode, self._saved_mode = self._saved_mode, None
        if saved_mode is None:
            return
        self._loop.remove_reader(self._fd)
        try:
            if self._is_in_foreground():
                termios.tcsetattr(self._fd, termios.TCSANOW, saved_mode)
        except (OSError, termios.error):
            pass  # the terminal was closed

    def _is_in_foreground(self) -> bool:
        return os.tcgetpgrp(self._fd) == os.getpgrp()

    def _read(self) -> None:
        try:
            if not self._is_in_foreground():
                self._loop.remove_reader(self._fd)
                self._timer = self._loop.call_later(_BACKGROUND_SECONDS, self._resume_reading)
                return
            data = os.read(self._fd, 1024)
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._fd)
            return
        for key in split_keys(data.decode("utf-8", "replace")):
            self._on_key(key)

    def _resume_reading(self) -> None:
        self._loop.add_reader(self._fd, self._read)
