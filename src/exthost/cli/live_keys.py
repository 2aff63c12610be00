"""Keys of the terminal while a host runs: read on its loop, and never waited for.

Ctrl-C stays a signal. A host that is in the background leaves the terminal alone: changing it, or
reading from it, would stop the process.
"""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable
from typing import Any

from exthost.cli.terminal import split_keys

__all__ = ["LiveKeys"]

# How often a host in the background checks whether it is in the foreground again.
_BACKGROUND_SECONDS = 1.0


class LiveKeys:
    """Calls `on_key` with each key, until it is closed. `close` restores the terminal."""

    def __init__(self, on_key: Callable[[str], None]) -> None:
        self._on_key = on_key
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._before: list[Any] | None = None
        try:
            self._fd = sys.stdin.fileno()
            if os.isatty(self._fd) and self._is_in_front():
                self._before = termios.tcgetattr(self._fd)
                tty.setcbreak(self._fd, termios.TCSANOW)
                self._loop.add_reader(self._fd, self._read)
        except (OSError, ValueError, termios.error):  # no stdin, or no terminal of ours
            self.close()

    @property
    def are_read(self) -> bool:
        """Whether there is a terminal whose keys are read."""
        return self._before is not None

    def close(self) -> None:
        """Read no more keys, and restore the terminal."""
        if self._timer is not None:
            self._timer.cancel()
        before, self._before = self._before, None
        if before is None:
            return
        self._loop.remove_reader(self._fd)
        try:
            if self._is_in_front():
                termios.tcsetattr(self._fd, termios.TCSANOW, before)
        except (OSError, termios.error):
            pass  # the terminal is gone

    def _is_in_front(self) -> bool:
        return os.tcgetpgrp(self._fd) == os.getpgrp()

    def _read(self) -> None:
        try:
            if not self._is_in_front():
                self._loop.remove_reader(self._fd)
                self._timer = self._loop.call_later(_BACKGROUND_SECONDS, self._read_again)
                return
            data = os.read(self._fd, 1024)
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._fd)
            return
        for key in split_keys(data.decode("utf-8", "replace")):
            self._on_key(key)

    def _read_again(self) -> None:
        self._loop.add_reader(self._fd, self._read)
