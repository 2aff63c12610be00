"""Writes a trace to a file or a file descriptor, in a separate thread.

The event loop only appends each record to a queue; the thread encodes and writes it. If writing is
slower than the traffic, records wait up to a limit. Beyond it they are dropped, and a record in the
file says how many.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from time import time

from exthost.errors import Evidence, UsageError
from exthost.trace.record import TraceRecord
from exthost.trace.trace_format import LineMaker

__all__ = ["TraceFile"]

_log = logging.getLogger("exthost.trace")

# The limits of the queue.
MAX_WAITING_RECORDS = 100_000
MAX_WAITING_BYTES = 64 * 2**20

# Messages may contain private data, so only the owner may read the file.
_MODE = 0o600

DROPPED_RECORDS = "records of the trace: they came faster than they were taken"


class TraceFile:
    """A listener of `Traffic` that writes. Close it in the end; closing twice is fine."""

    def __init__(self, target: str | Path | int, dialects: Mapping[str, str]) -> None:
        """`target` is a path, whose file is replaced, or a descriptor, which stays open. Raises
        UsageError if the file cannot be written."""
        self._owns = not isinstance(target, int)
        self._name = str(target)
        self._fd = target if isinstance(target, int) else _open(str(target))
        self._maker = LineMaker(dialects)
        self._waiting: deque[TraceRecord] = deque()
        self._bytes = 0
        self._dropped = 0
        self._last_extension = ""
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._write_all, name="exthost trace", daemon=True)
        self._thread.start()

    def __call__(self, record: TraceRecord) -> None:
        """Append a record to the queue of the thread, or count it as dropped."""
        with self._changed:
            is_full = self._bytes > MAX_WAITING_BYTES or len(self._waiting) >= MAX_WAITING_RECORDS
            self._last_extension = record.extension
            if is_full or self._closed:
                self._dropped += 1
                return
            if self._dropped:
                self._waiting.append(dropped_record(record.extension, self._dropped))
                self._dropped = 0
            self._waiting.append(record)
            self._bytes += record.size
            if len(self._waiting) <= 2:
                self._changed.notify()

    @property
    def waiting(self) -> int:
        """How many records wait to be written."""
        return len(self._waiting)

    def close(self) -> None:
        """Write what waits, and close the file."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            if self._dropped:  # the file ends with the gap
                self._waiting.append(dropped_record(self._last_extension, self._dropped))
            self._changed.notify()
        self._thread.join()
        if self._owns:
            os.close(self._fd)

    def _write_all(self) -> None:
        failed = False
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                records, self._waiting, self._bytes = self._waiting, deque(), 0
            if not records:
                return
            if failed:
                continue
            try:
                _write(self._fd, b"".join(map(self._maker.lines, records)))
            except OSError as error:
                failed = True
                _log.error("the trace %s ends here: %s", self._name, error)


def dropped_record(extension: str, times: int) -> TraceRecord:
    """Return the record that stands for so many others, which were not taken fast enough."""
    data = {"times": times}
    return TraceRecord(time(), extension, "dropped", data=data, text=DROPPED_RECORDS)


def _write(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:  # a terminal or a pipe that another program made non-blocking
            threading.Event().wait(0.01)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
    except OSError as error:
        raise UsageError(
            "X1386",
            f"the trace cannot be written to {path}: {error.strerror}",
            help="name a file in a folder that is there and may be written to",
            evidence=Evidence(path=path),
        ) from None
