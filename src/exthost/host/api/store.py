"""The store of a host: one SQLite file, and the only thread of this process that uses it.

    store = Store("/home/me/.local/state/exthost")
    future = store.write(lambda connection: connection.execute("INSERT …"))

A job is such a function, which gets the connection. Writes that wait in the queue together are
committed together (group commit). The future of a write is done when the commit is on disk (WAL,
synchronous=FULL), so an acknowledged write survives a crash. Each write has a savepoint, so that a
write that fails is rolled back alone. If the commit itself fails, all of its writes fail, and none
is stored.

The first write creates the file. Reading while there is no file raises `Missing`. SQLite errors are
raised as ConfigError X0150, with the message and the path of the file.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from exthost.errors import ConfigError, Evidence

if TYPE_CHECKING:
    import queue
    import sqlite3


T = TypeVar("T")
Work: TypeAlias = "Callable[[sqlite3.Connection], T]"

FILE_NAME = "exthost.sqlite3"

# The version of the file format.
_VERSION = 3

# The most writes in one commit: the first of them waits for the last.
_MAX_BATCH = 512

# How long to wait while another host writes to the same file, and between attempts.
_BUSY_SECONDS = 10.0
_RETRY_SECONDS = 0.01


class Missing(Exception):
    """There is no file yet, so there is nothing to read."""


class _Job(NamedTuple):
    """A function to run on the store thread, and the future of its result."""

    work: Work[Any]
    done: Future[Any]
    writes: bool


class Store:
    """One SQLite file. Thread-safe: results are futures. Close it after use."""

    def __init__(self, folder: str) -> None:
        self.path = str(Path(folder) / FILE_NAME)
        self._lock = threading.Lock()
        self._thread: _StoreThread | None = None

    def write(self, work: Work[T]) -> Future[T]:
        """Run `work` in a transaction; return a future of its result, which is done when the
        changes are on disk."""
        return self._submit(_Job(work, Future(), writes=True))

    def read(self, work: Work[T]) -> Future[T]:
        """Run `work`; return a future of its result. It sees every write that was submitted
        before."""
        return self._submit(_Job(work, Future(), writes=False))

    @property
    def is_open(self) -> bool:
        """Whether the thread runs, so that `close` is needed."""
        return self._thread is not None

    def close(self) -> None:
        """Finish the submitted work and close the file. The next use opens it again."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.jobs.put(None)
        if thread is not None:
            thread.thread.join()

    def _submit(self, job: _Job) -> Future[Any]:
        with self._lock:
            if self._thread is None:
                self._thread = _StoreThread(self.path)
            self._thread.jobs.put(job)
        return job.done


class _StoreThread:
    """The thread, its connection and its queue of jobs. None in the queue ends the thread."""

    def __init__(self, path: str) -> None:
        import queue

        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="exthost store", daemon=True)
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self.thread.start()

    def _run(self) -> None:
        """Perform the jobs in order. Writes are collected while more of them wait in the queue."""
        batch: list[_Job] = []  # writes that are committed together
        while True:
            import queue

            try:
                job = self.jobs.get_nowait() if batch else self.jobs.get()
            except queue.Empty:
                self._write(batch)
                batch = []
                continue
            if job is not None and job.writes:
                batch.append(job)
            if batch and (job is None or not job.writes or len(batch) == _MAX_BATCH):
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
                job.done.set_result(job.work(self._connect(create=False)))
            except Exception as error:
                job.done.set_exception(self._translate(error))

    def _write(self, batch: list[_Job]) -> None:
        """Perform these writes in one transaction."""
        jobs = [job for job in batch if job.done.set_running_or_notify_cancel()]
        outcomes: list[tuple[_Job, Any, Exception | None]] = []
        try:
            connection = self._connect(create=True)
            connection.execute("BEGIN IMMEDIATE")
            try:
                for job in jobs:
                    outcomes.append((job, *_run_in_savepoint(connection, job.work)))  # noqa: PERF401
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except Exception as error:
            for job in jobs:
                job.done.set_exception(self._translate(error))
            return
        for job, result, failed in outcomes:
            if failed is None:
                job.done.set_result(result)
            else:
                job.done.set_exception(self._translate(failed))

    def _connect(self, *, create: bool) -> sqlite3.Connection:
        """Return the connection, opening it if needed. Raises Missing if there is no file and
        `create` is False."""
        if self._connection is not None:
            return self._connection
        path = Path(self._path)
        if not create and not path.exists():
            raise Missing
        import sqlite3

        from exthost.process.private_folders import make_shared_root

        make_shared_root(path.parent)
        # Create the file for this user only. SQLite would create it with the mode of the umask.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, cached_statements=256
        )
        try:
            # Blocks of up to 256 KiB are read. Pages larger than the default of 4 KiB halve the
            # number of pages for that.
            connection.execute("PRAGMA page_size = 8192")
            connection.execute("PRAGMA cache_size = -16384")
            _enable_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            _check_format(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _translate(self, error: Exception) -> Exception:
        """Return a ConfigError for an error of SQLite or the disk; other errors unchanged."""
        import sqlite3

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
    """Turn on the write-ahead log (WAL). SQLite does not wait for a lock here, as it does for other
    statements: if two hosts create the file at the same time, one of them gets an error at once.
    So try again for some time."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        import sqlite3

        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _check_format(connection: sqlite3.Connection) -> None:
    """Check the version of the file's format. A new file, which has the version 0, gets the
    current one; two hosts may do that at the same time."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, _VERSION):
        import sqlite3

        raise sqlite3.DatabaseError(f"another exthost made it (format {version})")
    if not version:
        connection.execute(f"PRAGMA user_version = {_VERSION}")


def _run_in_savepoint(
    connection: sqlite3.Connection, work: Work[Any]
) -> tuple[Any, Exception | None]:
    """Run one job of a batch. Return its result and None; or None and its error, after rolling back
    what it did. Raises the error if the whole transaction is lost."""
    connection.execute("SAVEPOINT one")
    try:
        result = work(connection)
    except Exception as error:
        if not connection.in_transaction:  # SQLite rolls back everything if the disk is full
            raise
        connection.execute("ROLLBACK TO one")
        connection.execute("RELEASE one")
        return None, error
    connection.execute("RELEASE one")
    return result, None
