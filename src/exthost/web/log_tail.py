"""The end of an extension's log file, for the page. Reads a bounded part of it."""

import os
from pathlib import Path
from typing import NamedTuple

from exthost.host.extension_logs import rotated_path

TAIL_BYTES = 64 * 1024
LINES = 300


class LogLineText(NamedTuple):
    """One line of a log."""

    time: str
    level: str
    source: str
    text: str


def read_tail(path: str) -> list[dict[str, str]]:
    """Return the last lines of a log, the oldest first; none if there is no log."""
    file = Path(path)
    current = _read_end(file, TAIL_BYTES)
    before = _read_end(rotated_path(file), TAIL_BYTES - len(current))
    lines = (before + current).decode("utf-8", "replace").split("\n")[:-1]
    return [_read_line(line)._asdict() for line in lines[-LINES:]]


def _read_end(file: Path, limit: int) -> bytes:
    """Return the last whole lines of a file."""
    if limit <= 0:
        return b""
    try:
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            opened.seek(max(0, size - limit))
            end = opened.read(limit)
    except OSError:
        return b""
    return end if size <= limit else end[end.find(b"\n") + 1 :]


def _read_line(line: str) -> LogLineText:
    parts = (*line.split(" ", 3), "", "", "")
    return LogLineText(*parts[:4])
