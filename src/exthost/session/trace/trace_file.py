"""Writes a trace to a file or a file descriptor, in a separate thread. A trace is a log of every
message between a host and its extensions (`exthost trace --save FILE`).

The event loop only appends each record to a queue; the thread encodes and writes it. If writing is
slower than the traffic, records wait in the queue up to a limit. Further records are dropped, and a
record of the kind "dropped" in the file has their number.
"""

import contextlib
import logging
import os
import stat
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from time import time

from exthost.errors import Evidence, UsageError
from exthost.session.trace.record import TraceRecord
from exthost.session.trace.trace_format import LineMaker

_log = logging.getLogger("exthost.session.trace")

# The limits of the queue.
MAX_WAITING_RECORDS = 100_000
MAX_WAITING_BYTES = 64 * 2**20

# Messages may contain private data, so only the owner may read the file.
_FILE_MODE = 0o600

DROPPED_RECORDS = "records of the trace: they were created faster than they were written"


class TraceFile:
    """A listener of `Traffic` that writes each record to a file. Close it after use. Closing twice
    is allowed."""

    def __init__(self, target: str | Path | int, dialects: Mapping[str, str]) -> None:
        """`target` is the path of a file, which is replaced, or a file descriptor, which is not
        closed. `dialects` has the dialect of each extension by its id. Raises UsageError if the
        file cannot be written."""
        self._closes_fd = not isinstance(target, int)
        self._name = str(target)
        self._fd = target if isinstance(target, int) else _open(str(target))
        self._line_maker = LineMaker(dialects)
        self._waiting: deque[TraceRecord] = deque()
        self._bytes = 0
        self._dropped = 0
        self._last_extension = ""
        self._changed = threading.Condition()
        self._closed = False
        self.write_error = ""  # why nothing more is written; "" while all is well
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
            self._bytes += record.weight
            # With more records in the queue, the thread was notified before. The queue can grow by
            # two records at once: this one, and the record of the dropped ones.
            if len(self._waiting) <= 2:
                self._changed.notify()

    @property
    def waiting(self) -> int:
        """How many records wait to be written."""
        return len(self._waiting)

    def close(self) -> None:
        """Write the waiting records, and close the file."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            if self._dropped:  # no further record comes that would report them
                self._waiting.append(dropped_record(self._last_extension, self._dropped))
            self._changed.notify()
        self._thread.join()
        if self._closes_fd:
            os.close(self._fd)

    def _write_all(self) -> None:
        """Write the records of the queue until the file is closed. Runs in the separate thread."""
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                records, self._waiting, self._bytes = self._waiting, deque(), 0
            if not records:
                return
            if self.write_error:
                continue
            try:
                _write_bytes(self._fd, b"".join(map(self._line_maker.lines, records)))
            except OSError as error:
                self.write_error = error.strerror or str(error)
                _log.error("the trace %s ends here: %s", self._name, error)


def dropped_record(extension: str, times: int) -> TraceRecord:
    """Return the record which reports that `times` records were dropped."""
    data = {"times": times}
    return TraceRecord(time(), extension, "dropped", data=data, text=DROPPED_RECORDS)


def _write_bytes(fd: int, data: bytes) -> None:
    unwritten = memoryview(data)
    while unwritten:
        try:
            unwritten = unwritten[os.write(fd, unwritten) :]
        except BlockingIOError:  # a terminal or a pipe that another program made non-blocking
            threading.Event().wait(0.01)


def _open(path: str) -> int:
    """Open a file that only its owner can read. A file of this user that exists loses the
    permissions of other users; a device or a pipe keeps them."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) & ~_FILE_MODE:
            with contextlib.suppress(PermissionError):  # another user's, who lets this one write it
                os.fchmod(fd, _FILE_MODE)
        return fd
    except OSError as error:
        raise UsageError(
            "X1386",
            f"the trace cannot be written to {path}: {error.strerror}",
            help="use a file in a folder that exists and is writable",
            evidence=Evidence(path=path),
        ) from None
