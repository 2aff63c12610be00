"""The store of a host: one SQLite file, and the only thread that uses it.

Work is a function of the connection. Writes that wait together are committed together. A write is
reported as done when the commit is on disk (WAL, synchronous=FULL): what was acknowledged survives
a kill. Each write has a savepoint, so that one that fails affects no other. If the commit itself
fails, all of its writes fail and nothing of them is stored.

The first write creates the file; reading without a file raises `Missing`. Errors of SQLite become
ConfigError X0150 with the system's message and the path of the file.
"""

import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from exthost.errors import ConfigError, Evidence
from exthost.host.api import store_quota, text_index
from exthost.process.private_folders import make_shared_root

__all__ = ["FILE_NAME", "Missing", "Store"]

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

FILE_NAME = "exthost.sqlite3"

# Of what is in the file, all services together.
_VERSION = 3

# How a file of an earlier format becomes one of the next.
_MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {
    1: text_index.migrate_from_format_1,
    2: store_quota.start_counting,
}

# As many writes as one commit takes at most: the first of them waits for the last.
_GROUP = 512

# Another host may be writing to the same file.
_BUSY_SECONDS = 10.0
_AGAIN_SECONDS = 0.01


class Missing(Exception):
    """There is no store yet, and so nothing to read."""


class _Job(NamedTuple):
    work: Work[Any]
    done: "Future[Any]"
    writes: bool


class Store:
    """One file. Any thread may use it; results are futures. Close it in the end."""

    def __init__(self, folder: str) -> None:
        self.path = str(Path(folder) / FILE_NAME)
        self._lock = threading.Lock()
        self._thread: _StoreThread | None = None

    def write(self, work: Work[T]) -> "Future[T]":
        """Return a future that is done when the work is on disk."""
        return self._put(_Job(work, Future(), writes=True))

    def read(self, work: Work[T]) -> "Future[T]":
        """Return a future of the work's result; it sees every write that was submitted before."""
        return self._put(_Job(work, Future(), writes=False))

    @property
    def is_open(self) -> bool:
        """Whether there is anything to close."""
        return self._thread is not None

    def close(self) -> None:
        """Finish the submitted work and close the file. The next use opens it again."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.jobs.put(None)
        if thread is not None:
            thread.thread.join()

    def _put(self, job: _Job) -> "Future[Any]":
        with self._lock:
            if self._thread is None:
                self._thread = _StoreThread(self.path)
            self._thread.jobs.put(job)
        return job.done


class _StoreThread:
    """The thread, its connection and its queue of work."""

    def __init__(self, path: str) -> None:
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="exthost store", daemon=True)
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self.thread.start()

    def _run(self) -> None:
        batch: list[_Job] = []  # writes that are committed together
        while True:
            try:
                job = self.jobs.get_nowait() if batch else self.jobs.get()
            except queue.Empty:
                self._write(batch)
                batch = []
                continue
            if job is not None and job.writes:
                batch.append(job)
            if batch and (job is None or not job.writes or len(batch) == _GROUP):
                self._write(batch)
                batch = []
            if job is None:
                break
            if not job.writes:
                self._read(job)
        if self._connection is not None:
            self._connection.close()

    def _read(self, job: _Job) -> None:
        if job.done.set_running_or_notify_cancel():
            try:
                job.done.set_result(job.work(self._opened(make=False)))
            except Exception as error:
                job.done.set_exception(self._translated(error))

    def _write(self, batch: list[_Job]) -> None:
        jobs = [job for job in batch if job.done.set_running_or_notify_cancel()]
        outcomes: list[tuple[_Job, Any, Exception | None]] = []
        try:
            connection = self._opened(make=True)
            connection.execute("BEGIN IMMEDIATE")
            try:
                for job in jobs:
                    outcomes.append((job, *_guarded(connection, job.work)))  # noqa: PERF401
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except Exception as error:
            for job in jobs:
                job.done.set_exception(self._translated(error))
            return
        for job, result, failed in outcomes:
            if failed is None:
                job.done.set_result(result)
            else:
                job.done.set_exception(self._translated(failed))

    def _opened(self, *, make: bool) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        path = Path(self._path)
        if not make and not path.exists():
            raise Missing
        make_shared_root(path.parent)
        # Before SQLite makes it with whatever the umask leaves: what is in it is nobody else's.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, cached_statements=256
        )
        try:
            # Texts are read in pieces of 256 KiB: larger pages halve the steps that takes.
            connection.execute("PRAGMA page_size = 8192")
            connection.execute("PRAGMA cache_size = -16384")
            _enable_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            _migrate(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _translated(self, error: Exception) -> Exception:
        if not isinstance(error, sqlite3.Error | OSError):
            return error
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return ConfigError(
            "X0150",
            f"the store {self._path} cannot be used: {reason}",
            help="make room, or let us write there; EXTHOST_HOME names another folder",
            evidence=Evidence(path=self._path),
        )


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Turn WAL on. If two hosts create the file at the same time, SQLite refuses one of them at
    once; it waits for locks everywhere but here."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(_AGAIN_SECONDS)
        else:
            return


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the current format, in one transaction."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == _VERSION:
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        # Another host may have been faster.
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION, *_MIGRATIONS):
            raise sqlite3.DatabaseError(f"another exthost made it (format {version})")
        for format in range(version, _VERSION):
            if format in _MIGRATIONS:
                _MIGRATIONS[format](connection)
        connection.execute(f"PRAGMA user_version = {_VERSION}")


def _guarded(connection: sqlite3.Connection, work: Work[Any]) -> tuple[Any, Exception | None]:
    """Return the result of one piece of work, or its error; a failed one is rolled back."""
    connection.execute("SAVEPOINT one")
    try:
        result = work(connection)
    except Exception as error:
        if not connection.in_transaction:  # a full disk undoes the whole transaction
            raise
        connection.execute("ROLLBACK TO one")
        connection.execute("RELEASE one")
        return None, error
    connection.execute("RELEASE one")
    return result, None
