"""The log that outlives its extension: what each one said for a person, and what became of it.

A subscriber of the event bus like any other. One file an extension, `TIME LEVEL SOURCE TEXT` a
line; at its full size it becomes `….log.1`, in place of the one before, so that an extension that
floods its stderr costs two files and no more. What comes within one tick is written at once: a
flood is one write a read, not one a line. A full disk is told once and never raised: an onlooker
cannot harm what it looks at.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from exthost.events import Bus, Exited, LogLine, Spawned, StateChanged

__all__ = ["FILE_BYTES", "Logbook", "older", "record"]

_log = logging.getLogger("exthost.logbook")

# Of each file; two are kept. Some ten thousand lines of an ordinary log.
FILE_BYTES = 1024 * 1024

# What we say ourselves stands under this source, beside `stderr`, `log` and `stdout`.
OURS = "exthost"

# Whoever may read it learns what extensions print, secrets perhaps among it: its owner alone.
_MODE = 0o600


def record(now: float, level: int, source: str, text: str) -> bytes:
    """One entry; a text of several lines becomes as many."""
    seconds, millis = divmod(int(now * 1000), 1000)
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    word = logging.getLevelName(level).lower().replace(" ", "-")
    head = f"{moment}.{millis:03}Z {word} {source} "
    lines = (head + line + "\n" for line in text.split("\n"))
    return "".join(lines).encode("utf-8", "backslashreplace")


def older(file: Path) -> Path:
    """Where a full file has gone."""
    return file.with_name(file.name + ".1")


class Logbook:
    """Keeps the logs of one host for as long as it is open."""

    def __init__(self, bus: Bus, file_of: Callable[[str], str]) -> None:
        """`file_of`: where the log of an extension belongs."""
        self._file_of = file_of
        self._loop = asyncio.get_running_loop()
        self._gathered: dict[str, bytearray] = {}
        self._files: dict[str, _File] = {}
        self._unsubscribes = [
            bus.subscribe(LogLine, self._said),
            bus.subscribe(StateChanged, self._moved),
            bus.subscribe(Spawned, self._spawned),
            bus.subscribe(Exited, self._exited),
        ]

    def _said(self, line: LogLine) -> None:
        self._gather(line.extension, line.level, line.source, line.text)

    def _moved(self, change: StateChanged) -> None:
        why = f": {change.reason}" if change.reason else ""
        level = logging.WARNING if why else logging.INFO
        self._gather(change.extension, level, OURS, f"{change.after}{why}")

    def _spawned(self, spawned: Spawned) -> None:
        # Not its arguments: they may hold a secret, and this file is kept.
        self._gather(
            spawned.extension, logging.INFO, OURS, f"process {spawned.pid}: {spawned.argv[0]}"
        )

    def _exited(self, exited: Exited) -> None:
        self._gather(exited.extension, logging.INFO, OURS, f"process {exited.pid} {exited.status}")

    def _gather(self, extension: str, level: int, source: str, text: str) -> None:
        if not self._gathered:
            self._loop.call_soon(self._write)
        lines = self._gathered.setdefault(extension, bytearray())
        lines += record(time.time(), level, source, text)

    def _write(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for extension, lines in gathered.items():
            file = self._files.get(extension)
            if file is None:
                file = self._files[extension] = _File(Path(self._file_of(extension)))
            file.append(lines)

    def close(self) -> None:
        """Write what is left, and let go."""
        for unsubscribe in self._unsubscribes:
            unsubscribe()
        self._write()
        for file in self._files.values():
            file.close()


class _File:
    """One log, opened at its first line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._size = 0
        self._failed = False

    def append(self, lines: bytes | bytearray) -> None:
        try:
            if self._fd < 0:
                self._open()
            if self._size and self._size + len(lines) > FILE_BYTES:
                self._turn()
            # One tick of a flood may bring more than a file holds: of that, the last.
            self._size += os.write(self._fd, _last_of(lines))
            self._failed = False
        except OSError as error:
            if not self._failed:
                _log.error("the log %s is not kept: %s", self._path, error.strerror)
            self._failed = True

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path, flags, _MODE)
        self._size = os.fstat(self._fd).st_size

    def _turn(self) -> None:
        """The file is full: put it aside and begin a new one."""
        self._path.replace(older(self._path))
        self.close()
        self._open()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _last_of(lines: bytes | bytearray) -> bytes | bytearray:
    if len(lines) <= FILE_BYTES:
        return lines
    kept = lines[-FILE_BYTES:]
    return kept[kept.find(b"\n") + 1 :]
