"""Remembers which uid each sandboxed extension of a root host has, so that no two have the same.

An extension's uid is preferably the one that is computed from its id (`user_ids.user_id`). But
packages choose their ids, and an id whose number is that of another extension is found in a minute.
So each number is recorded in a file of the state folder. An extension whose number is taken gets
the next free one. A record is never removed: what an extension leaves behind belongs to its number,
and must not become the property of another one.

All hosts with the same state folder share the file, one at a time.
"""

import errno
import fcntl
import json
import os
from itertools import chain
from pathlib import Path

from exthost.process.private_folders import make_shared_root
from exthost.process.user_ids import user_id, user_id_range

# The numbers that this process has looked up, by state folder and extension.
_known: dict[tuple[str, str], int] = {}


def registry_file(state_root: str) -> str:
    """Return the path of the file. A line is a uid and the id of an extension, as JSON."""
    return str(Path(state_root, "users"))


def allot_user_id(state_root: str, extension: str) -> int | None:
    """Return the uid of an extension, and record it if it is new; None if the host's user namespace
    has no such ids. Raises OSError if it cannot be recorded, or if no number is free (ENOSPC)."""
    key = (state_root, extension)
    if (uid := _known.get(key)) is None:
        preferred, ids = user_id(extension), user_id_range()
        if preferred is None or ids is None:
            return None
        uid = _known[key] = _look_up(registry_file(state_root), extension, preferred, ids)
    return uid


def _look_up(path: str, extension: str, preferred: int, ids: range) -> int:
    """Return the recorded uid of an extension, or record a free one. Raises OSError."""
    make_shared_root(Path(path).parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    with open(fd, "rb+", buffering=0) as file:  # noqa: PTH123
        fcntl.flock(fd, fcntl.LOCK_EX)
        text = file.read()
        # Without a newline, a host died while it wrote the last line, before it used the number.
        complete, _, incomplete = text.rpartition(b"\n")
        owners = _parse(complete, path)
        # A state folder may have been used in a container that has another range of ids.
        for uid, owner in owners.items():
            if owner == extension and uid in ids:
                return uid
        # The sandbox is tried as the user of the empty id.
        taken = {*owners, user_id("")}
        start = ids.index(preferred)
        for uid in chain(ids[start:], ids[:start]):
            if uid not in taken:
                break
        else:
            raise OSError(errno.ENOSPC, "every number is taken", path)
        if incomplete:
            os.ftruncate(fd, len(text) - len(incomplete))
        file.write(json.dumps([uid, extension]).encode() + b"\n")
        os.fsync(fd)
        return uid


def _parse(text: bytes, path: str) -> dict[int, str]:
    """Return the extension of each recorded uid. Raises OSError for a line that is not valid."""
    owners: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            uid, extension = json.loads(line)
            owners[int(uid)] = str(extension)
        except (ValueError, TypeError):
            raise OSError(errno.EINVAL, f"line {number} cannot be read", path) from None
    return owners
