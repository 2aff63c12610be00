"""Locks a config file while a subcommand of exthost, such as `exthost add`, edits it.

An edit reads the file, and replaces it by a new one. Of two edits at the same time, the second
would undo the first. The lock is taken on the folder of the file, because the file itself is
replaced and may not exist yet. The kernel releases it when the process ends. It does not keep a
text editor from writing the file. (`exthost.lock` is something else: the record of the approved
extensions.)
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from exthost.errors import Evidence, UsageError

# How long to wait for other edits. One takes milliseconds.
WAIT_SECONDS = 10.0

_POLL_SECONDS = 0.02


@contextmanager
def lock_config(path: Path) -> Iterator[None]:
    """Lock the config at this path during the `with` block. Raises UsageError if another process
    has the lock for too long. If the folder cannot be locked, nothing is locked."""
    fd = -1
    # If the folder cannot be opened, the edit will say what is wrong with it.
    with suppress(OSError):
        # Not `resolve`, which raises RuntimeError for links in a circle.
        folder = os.path.dirname(os.path.realpath(path))  # noqa: PTH120
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if fd >= 0:
            _wait_for_lock(fd, path)
        yield
    finally:
        if fd >= 0:
            os.close(fd)


def _wait_for_lock(fd: int, path: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        except OSError:  # a file system without locks
            return
        else:
            return
        if time.monotonic() >= deadline:
            raise UsageError(
                "X1327",
                f"{path} is edited by another process for longer than {WAIT_SECONDS:g} s",
                help="end it, if it hangs, and try again; nothing was changed",
                evidence=Evidence(path=str(path)),
            )
        time.sleep(_POLL_SECONDS)
