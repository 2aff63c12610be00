"""The lock of a config: ensures that a config has one host only.

It is not the lock file `exthost.lock` (`model.lock_record`), which records approved extensions. A
host holds a lock on a file beside its control socket. The kernel releases the lock when the host
dies. So a socket that is left over from a crashed host can be replaced, and two hosts that start at
the same time cannot both open it.

The path of the socket depends on environment variables, which may differ between a shell and a
service. So the host holds a second lock, in a folder that depends on the user only.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from exthost.errors import Evidence, ExthostError, Refused, UsageError
from exthost.host.control.address import (
    lock_folder,
    make_private_folder,
    socket_paths,
    unusable_folder_error,
)
from exthost.host.control.socket_path import config_key, is_own_folder
from exthost.process.after_fork import disown_after_fork


class HostLock:
    """The locks of one config, which are held until `release` or the end of the process."""

    def __init__(self, config: str, environ: Mapping[str, str] = os.environ) -> None:
        """Take the locks. `config` is the path of the config. Raises UsageError if another running
        host has one of them, and Refused if there is no folder for the control socket."""
        self.socket_path = _choose_path(config, environ)
        self._locks: dict[Path, int] = {}
        absolute = str(Path(config).absolute())
        try:
            locks = (self.socket_path.with_suffix(".lock"), *_user_lock(config))
            for lock in dict.fromkeys(locks):  # an ordered set: the two may be the same file
                self._locks[lock] = _take_lock(lock, absolute)
            disown_after_fork(self)
        except BaseException as error:
            self.release()
            if isinstance(error, OSError) and not isinstance(error, ExthostError):
                raise unusable_folder_error(
                    self.socket_path.parent, error.strerror or str(error)
                ) from None
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the locks. Does nothing if they are released."""
        for lock, fd in self._locks.items():
            lock.unlink(missing_ok=True)
            os.close(fd)
        self._locks.clear()

    def disown(self) -> None:
        """Called in a forked copy of the host: close its copies of the descriptors. The host still
        holds the locks."""
        for fd in self._locks.values():
            os.close(fd)
        self._locks.clear()


def lock_holder(config: str) -> int | None:
    """Return the pid of the host that holds the lock of this config. Return None if no host holds
    it, or if the system has no list of locks. Takes no lock itself, because a host that starts at
    this moment would find it taken."""
    folder = lock_folder()
    if not is_own_folder(folder):  # another user may have put anything there
        return None
    try:
        fd = os.open(
            folder / f"{config_key(config)}.lock",
            os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK,
        )
        try:
            pid = int(os.read(fd, 20))
            file = f":{os.fstat(fd).st_ino}"
        finally:
            os.close(fd)
        lines = Path("/proc/locks").read_text("ascii").splitlines()
    except (OSError, ValueError):
        return None
    # A line is `1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END`.
    for line in lines:
        fields = line.split()
        if fields[1:2] == ["FLOCK"] and fields[4] == str(pid) and fields[5].endswith(file):
            return pid
    return None


def _choose_path(config: str, environ: Mapping[str, str]) -> Path:
    """Return the first path for the socket whose folder this user owns or can create."""
    refused: Refused | None = None
    for path in socket_paths(config, environ):
        try:
            make_private_folder(path.parent)
        except Refused as error:
            refused = refused or error
        else:
            return path
    assert refused is not None  # the path in /tmp is always short enough
    raise refused


def _user_lock(config: str) -> Iterator[Path]:
    """Yield the path of the lock whose folder depends on the user only; nothing if the folder
    belongs to another user."""
    folder = lock_folder()
    with contextlib.suppress(Refused):
        make_private_folder(folder)
        yield folder / f"{config_key(config)}.lock"


def _take_lock(lock: Path, config: str) -> int:
    """Take the lock, and return its file descriptor. The lock is held until the descriptor is
    closed or this process ends. Raises UsageError if another process has it, and OSError if the
    file cannot be locked."""
    while True:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise _lock_taken_error(lock, config, holder) from None
        except OSError:  # a file system without locks
            os.close(fd)
            raise
        if _is_file_at(fd, lock):
            # The pid is only for the error of a second host, so it may be missing: the disk may be
            # full.
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)
                os.pwrite(fd, b"%d\n" % os.getpid(), 0)
            return fd
        # The previous holder has removed the file between `open` and `flock`, so other processes
        # would lock another file. Try again.
        os.close(fd)


def _is_file_at(fd: int, path: Path) -> bool:
    """Return whether the descriptor refers to the file that is at this path now."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _lock_taken_error(lock: Path, config: str, holder: str) -> UsageError:
    who = f": process {holder}" if holder.isdigit() else ""
    return UsageError(
        "X1375",
        f"a host runs for {config} already{who}",
        help="exthost status shows it; end it with Ctrl-C or SIGTERM first",
        evidence=Evidence(path=str(lock)),
    )
