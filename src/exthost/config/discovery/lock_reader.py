"""Reads the file `exthost.lock` beside a config.

The file is not used if it is a link that leads out of its folder, is too large or not a regular
file, or changes while it is read.
"""

import os
import stat

from exthost.config.lock_file import LOCK_NAME, MAX_LOCK_BYTES, Lock, LockProblem, parse_lock

# How often a file is read again that changes while it is read.
_ATTEMPTS = 3


def read_lock(folder: str) -> Lock | None:
    """Return the lock in a folder; None if there is none. Raises LockProblem."""
    path = os.path.join(folder, LOCK_NAME)  # noqa: PTH118
    try:
        os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as error:  # there may be a lock: `os.path.lexists` would deny it
        raise LockProblem(f"it cannot be read: {error.strerror}") from None
    real, home = os.path.realpath(path), os.path.realpath(folder)
    if not real.startswith(f"{home.rstrip('/')}/"):
        raise LockProblem(f"it is a link that leads out of its folder, to {real}")
    data = _read_bytes(path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise LockProblem("it is not UTF-8 text", line) from None
    return Lock(path=path, text=text, records=parse_lock(text))


def _read_bytes(path: str) -> bytes:
    for _ in range(_ATTEMPTS):
        try:
            # A pipe in the place of the file must not block the host.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except PermissionError as error:
            import shlex

            help = f"let the user of the host read it: chmod u+r {shlex.quote(path)}"
            raise LockProblem(f"it cannot be read: {error.strerror}", help=help) from None
        except OSError as error:
            raise LockProblem(f"it cannot be read: {error.strerror}") from None
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):  # `open` refuses a folder in its own words
                raise LockProblem("it is not a regular file")
            if before.st_size > MAX_LOCK_BYTES:
                raise LockProblem(f"it is larger than {MAX_LOCK_BYTES >> 20} MiB")
            with open(fd, "rb", closefd=False) as file:
                data = file.read(MAX_LOCK_BYTES + 1)
            after = os.fstat(fd)
        except OSError as error:
            raise LockProblem(f"it cannot be read: {error.strerror}") from None
        finally:
            os.close(fd)
        is_same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        if is_same and len(data) == after.st_size:
            return data
    raise LockProblem("it changes while it is read")
