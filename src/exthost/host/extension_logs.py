"""Writes a log file for each extension: its output, its changes of state and its processes.

`ExtensionLogs` subscribes to the event bus. Each entry is a line `TIME LEVEL SOURCE TEXT`:

    2026-11-19T08:30:00.125Z info exthost process 4711: python3
    2026-11-19T08:30:00.310Z warning stderr no config file, using defaults

A full file is renamed to `….log.1`, in place of an earlier file of that name. So an extension that
floods its stderr uses at most two files. All lines of one event-loop iteration are written
together. A disk error is logged once and never raised, because a log must not disturb the host.
When the disk has room again, an entry says how many lines were lost. A file that somebody has
deleted or moved is created again.
"""

import asyncio
import io
import logging
import os
import sys
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from exthost.events import Bus, Exited, LogLine, ProcessLost, Spawned, StateChanged
from exthost.extension.lifecycle import State
from exthost.process.private_folders import make_folder

_log = logging.getLogger("exthost.extension_logs")

# The maximum size of a file: roughly ten thousand lines of an ordinary log.
FILE_BYTES = 1024 * 1024

# The SOURCE of the host's own entries. Those of an extension are `stderr`, `log` and `stdout`.
HOST_SOURCE = "exthost"

# The states in which an extension has a process, or will soon get one: BACKOFF is the pause before
# a restart, and OPEN the longer pause after too many failures.
_ACTIVE_STATES = frozenset({State.STARTING, State.READY, State.DRAINING, State.BACKOFF, State.OPEN})

# Extensions may print secrets, so only the owner may read the file.
_FILE_MODE = 0o600


def format_entry(now: float, level: int, source: str, text: str) -> bytes:
    """Return one entry as bytes. `now` is in seconds since 1970. A text of several lines becomes
    several lines of the log."""
    seconds, millis = divmod(int(now * 1000), 1000)
    timestamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    level_name = logging.getLevelName(level).lower().replace(" ", "-")
    prefix = f"{timestamp}.{millis:03}Z {level_name} {source} "
    lines = (prefix + line + "\n" for line in text.split("\n"))
    return "".join(lines).encode("utf-8", "backslashreplace")


def rotated_path(file: Path) -> Path:
    """Return the path to which a full file is renamed."""
    return file.with_name(file.name + ".1")


class ExtensionLogs:
    """Writes the logs of one host's extensions until it is closed."""

    def __init__(self, bus: Bus, log_path: Callable[[str], str]) -> None:
        """`log_path` is a function from the id of an extension to the path of its log."""
        self._log_path = log_path
        self._loop = asyncio.get_running_loop()
        # Lines of this event-loop iteration, by the id of the extension.
        self._pending: dict[str, bytearray] = {}
        self._files: dict[str, _LogFile] = {}
        # The extensions in active states. Only their files stay open: a host may have thousands of
        # others, and descriptors are few.
        self._active: set[str] = set()
        self._unsubscribes = [
            bus.subscribe(LogLine, self._on_log_line),
            bus.subscribe(StateChanged, self._on_state_changed),
            bus.subscribe(Spawned, self._on_spawned),
            bus.subscribe(Exited, self._on_exited),
            bus.subscribe(ProcessLost, self._on_process_lost),
        ]

    def _on_log_line(self, line: LogLine) -> None:
        source = f"{line.source}@{_one_word(line.node)}" if line.node else line.source
        self._add(line.extension, line.level, source, line.text)

    def _on_state_changed(self, change: StateChanged) -> None:
        reason = f": {change.reason}" if change.reason else ""
        level = logging.WARNING if reason else logging.INFO
        if change.after in _ACTIVE_STATES:
            self._active.add(change.extension)
        else:
            self._active.discard(change.extension)
        self._add(change.extension, level, HOST_SOURCE, f"{change.after}{reason}")

    def _on_spawned(self, spawned: Spawned) -> None:
        # The arguments are left out, because they may contain a secret.
        text = f"process {spawned.pid}{_format_node(spawned.node)}: {spawned.argv[0]}"
        self._add(spawned.extension, logging.INFO, HOST_SOURCE, text)

    def _on_exited(self, exited: Exited) -> None:
        text = f"process {exited.pid}{_format_node(exited.node)} {exited.status}"
        self._add(exited.extension, logging.INFO, HOST_SOURCE, text)

    def _on_process_lost(self, lost: ProcessLost) -> None:
        self._add(lost.extension, logging.WARNING, HOST_SOURCE, str(lost))

    def _add(self, extension: str, level: int, source: str, text: str) -> None:
        """Add an entry, which is written at the end of this event-loop iteration."""
        if not self._pending:
            self._loop.call_soon(self._write_pending)
        lines = self._pending.setdefault(extension, bytearray())
        lines += format_entry(time.time(), level, source, text)

    def _write_pending(self) -> None:
        pending, self._pending = self._pending, {}
        for extension, lines in pending.items():
            file = self._files.get(extension)
            if file is None:
                file = self._files[extension] = _LogFile(self._log_path(extension))
            file.append(lines)
            if extension not in self._active:
                file.close_file()

    def close(self) -> None:
        """Write the pending lines and close the files."""
        for unsubscribe in self._unsubscribes:
            unsubscribe()
        self._write_pending()
        for file in self._files.values():
            file.close()


def _format_node(node: str) -> str:
    """Return the words after a pid that name its node (another machine of a cluster, on which the
    process runs); "" for this machine."""
    return f" on node {node}" if node else ""


def _one_word(node: str) -> str:
    """Return the name of a node without spaces, which separate the fields of a line."""
    return "_".join(node.split())


class _LogFile(RotatingFileHandler):
    """One log file, which is opened for its first line.

    It does not use the `logging` of a program, only its handler, which renames full files. Each log
    record contains all lines of one event-loop iteration, with their newlines.
    """

    terminator = ""  # the handler adds no newline

    def __init__(self, path: str) -> None:
        super().__init__(path, maxBytes=FILE_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self._has_failed = False
        self._reason = ""
        self._lost_lines = 0  # how many were lost since the last successful write
        self._written_lines = 0  # if the last write failed: how many lines it has written

    def append(self, lines: bytes | bytearray) -> None:
        """Write these lines, after a note about earlier lines that were lost. Log the first of
        several errors."""
        text = _last_lines(lines, self.maxBytes).decode()
        has_note = self._lost_lines > 0
        if has_note:
            note = f"lines before this one were lost ({self._lost_lines}): {self._reason}"
            text = format_entry(time.time(), logging.ERROR, HOST_SOURCE, note).decode() + text
        had_failed, self._has_failed = self._has_failed, False
        self._written_lines = 0
        # Renames the file if it is full, and writes. If that fails, `handleError` is called, which
        # sets `_has_failed`.
        self.handle(logging.makeLogRecord({"msg": text}))
        if not self._has_failed:
            self._lost_lines = 0
        elif has_note and self._written_lines:
            # The note about earlier lost lines was written, so only new ones count from here on.
            self._lost_lines = text.count("\n") - self._written_lines
        else:
            self._lost_lines += lines.count(b"\n") - self._written_lines
        if self._has_failed and not had_failed:  # logged once, until a write succeeds
            _log.error("the log %s is not kept: %s", self.baseFilename, self._reason)

    def close_file(self) -> None:
        """Close the file until the next lines."""
        if self.stream is not None:
            self.stream.close()
            self.stream = None

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Remember the disk error that the write has raised, for `append`."""
        error = sys.exception()
        if not isinstance(error, OSError):
            raise  # the error that is being handled: a bug, which must be visible
        self._has_failed, self._reason = True, error.strerror or str(error)
        if self.stream is not None and isinstance(self.stream.buffer, _LineFile):
            self._written_lines = self.stream.buffer.written_lines

    def shouldRollover(self, record: logging.LogRecord) -> int:  # noqa: N802 - logging's name
        """Return whether the file must be renamed before this record is written.

        The base class counts characters, and this method counts bytes. An empty file is never
        renamed, even if the record alone is too large.
        """
        if self.stream is not None and not self._is_at_its_path(self.stream.fileno()):
            self.close_file()
        if self.stream is None:  # the size that counts is that of the file on disk
            self.stream = self._open()
        size = os.fstat(self.stream.fileno()).st_size
        return size > 0 and size + len(record.getMessage().encode()) > self.maxBytes

    def _is_at_its_path(self, fd: int) -> bool:
        """Return whether the open file is the one that readers find: somebody may have deleted or
        moved it."""
        try:
            at_path = os.stat(self.baseFilename)  # noqa: PTH116 - faster than Path.stat
        except OSError:
            return False
        return os.path.samestat(at_path, os.fstat(fd))

    def _open(self) -> io.TextIOWrapper:
        path = Path(self.baseFilename)
        make_folder(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        file = _LineFile(os.open(path, flags, _FILE_MODE), "ab")
        # Unbuffered: lines that do not fit on a full disk are dropped. A buffer would try to write
        # them again each time.
        return io.TextIOWrapper(file, encoding=self.encoding, newline="", write_through=True)


class _LineFile(io.FileIO):
    """A file that gets whole lines only. If a disk has room for a part of a write, the lines that
    fit are kept, and the error of the rest is raised. `written_lines` is the number of lines that
    such a write has added."""

    written_lines = 0

    def write(self, data: Any) -> int:
        remaining = memoryview(data)
        self.written_lines = 0
        try:
            while remaining:
                remaining = remaining[os.write(self.fileno(), remaining) :]
        except OSError:
            written = bytes(data)[: len(data) - len(remaining)]
            self.written_lines = written.count(b"\n")
            if part_of_line := len(written) - (written.rfind(b"\n") + 1):
                os.ftruncate(self.fileno(), os.fstat(self.fileno()).st_size - part_of_line)
            raise
        return len(data)


def _last_lines(lines: bytes | bytearray, limit: int) -> bytes | bytearray:
    """Return the last whole lines that fit into `limit` bytes. One event-loop iteration may produce
    more than a file may contain."""
    if len(lines) <= limit:
        return lines
    tail = lines[-limit:]
    return tail[tail.find(b"\n") + 1 :]
