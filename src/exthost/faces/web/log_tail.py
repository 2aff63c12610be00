"""Reads the last lines of an extension's log file, for the page. The size is bounded."""

import os
from pathlib import Path
from typing import NamedTuple

from exthost.host.extension_logs import rotated_path

# At most this many bytes are read, and this many lines returned.
TAIL_BYTES = 64 * 1024
MAX_LINES = 300


class LogLineText(NamedTuple):
    """One line of a log."""

    time: str
    level: str
    source: str
    text: str


def read_tail(path: str) -> list[dict[str, str]]:
    """Return the last lines of a log, the oldest first; empty if there is no log. The lines may
    begin in the previous, rotated file."""
    file = Path(path)
    current = _read_end(file, TAIL_BYTES)
    rotated = _read_end(rotated_path(file), TAIL_BYTES - len(current))
    lines = (rotated + current).decode("utf-8", "replace").split("\n")[:-1]
    return [_parse_line(line)._asdict() for line in lines[-MAX_LINES:]]


def _read_end(file: Path, limit: int) -> bytes:
    """Return the last whole lines of a file, at most `limit` bytes; empty if it cannot be read."""
    if limit <= 0:
        return b""
    try:
        with file.open("rb") as log:
            size = os.fstat(log.fileno()).st_size
            log.seek(max(0, size - limit))
            tail = log.read(limit)
    except OSError:
        return b""
    # If only a part was read, it may begin within a line, which is left out.
    return tail if size <= limit else tail[tail.find(b"\n") + 1 :]


def _parse_line(line: str) -> LogLineText:
    fields = (*line.split(" ", 3), "", "", "")  # fields that are missing are ""
    return LogLineText(*fields[:4])
