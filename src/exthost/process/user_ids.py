"""Computes the uid that a root host prefers to run a sandboxed extension as.

The uid is computed from a hash of the extension's id. So it is usually the same on every machine,
and no account has to exist. If two ids have the same hash, one of them gets another uid
(`user_registry`). Inside the sandbox the extension sees its uid as 65534 (nobody), for which every
system has a name.

Whether that user can read or write a path is decided by the permission bits. Access control lists
are ignored: a path to which only they give access is treated as not accessible.
"""

import hashlib
import os
import re
import stat
from functools import cache
from pathlib import Path

# From this version on the kernel counts the processes of a user by user namespace.
_COUNTS_BY_NAMESPACE = (5, 14)

# The ranges from which uids are taken, as (first id, count). The first is above the ranges of
# distributions, containers and directory services. The second is systemd's range for dynamic users;
# it is used in a container that has only 16 bits of ids.
_RANGES = ((1_900_000_000, 100_000_000), (61_184, 4_336))

_UID_MAPS = ("/proc/self/uid_map", "/proc/self/gid_map")


def user_id(extension: str) -> int | None:
    """Return the user and group id that an extension has, unless another one has it already; None
    if the host's user namespace has no such ids. The id "" stands for the user that sandboxes are
    tried as."""
    ids = user_id_range()
    if ids is None:
        return None
    digest = int.from_bytes(hashlib.sha256(extension.encode(errors="surrogatepass")).digest()[:8])
    return ids[digest % len(ids)]


def user_id_range() -> range | None:
    """Return the numbers that extensions have as user ids; None if the host's user namespace has no
    such ids."""
    for first, count in _RANGES:
        if all(_is_mapped(ids, first, count) for ids in map(_read_map, _UID_MAPS)):
            return range(first, first + count)
    return None


def is_kernel_root() -> bool:
    """Return whether uid 0 in the host's user namespace is the real root of the machine. It is not
    in a container that an ordinary user started."""
    return any(inside == 0 and outside == 0 for inside, outside, _ in _read_map(_UID_MAPS[0]))


def counts_processes(uid: int | None) -> bool:
    """Return whether the kernel can limit the number of processes for an extension alone. `uid` is
    the uid that it runs as, None for the host's. The kernel does not limit root, and before Linux
    5.14 it counts all processes of a user."""
    if uid is not None:
        return True
    if os.geteuid() == 0 and is_kernel_root():
        return False
    return _kernel_version() >= _COUNTS_BY_NAMESPACE


@cache
def _kernel_version() -> tuple[int, ...]:
    match = re.match(r"([0-9]+)\.([0-9]+)", os.uname().release)
    return tuple(map(int, match.groups())) if match is not None else (0,)


def find_inaccessible_folder(path: str, uid: int) -> str:
    """Return the outermost of the folders above a path that this user cannot enter; "" if the user
    can enter all of them. Folders that do not exist yet are skipped."""
    for above in reversed(Path(path).parents):
        if above.exists() and not _has_rights(str(above), uid, stat.S_IXOTH):
            return str(above)
    return ""


def find_forbidden_folder(path: str) -> str:
    """Return the outermost of the folders on the way to a path that the user of this process cannot
    enter; "" if there is none. Symbolic links are followed."""
    try:
        folders = [str(folder) for folder in reversed(Path(os.path.realpath(path)).parents)]
    except ValueError:  # no file has such a name
        return ""
    # Not `Path.is_dir`, which raises PermissionError below such a folder.
    return next((f for f in folders if os.path.isdir(f) and not os.access(f, os.X_OK)), "")  # noqa: PTH112


def find_inaccessible_path(path: str, uid: int) -> str:
    """Return the file or folder whose permissions keep this user from reading a path: the path
    itself, or a folder above it; "" if the user can read the path."""
    if folder := find_inaccessible_folder(path, uid):
        return folder
    return "" if can_read(path, uid) else path


def can_read(path: str, uid: int) -> bool:
    """Return whether this user may read a file, or list and enter a folder. The folders above it
    are not considered."""
    is_folder = os.path.isdir(path)  # noqa: PTH112
    return _has_rights(path, uid, stat.S_IROTH | (stat.S_IXOTH if is_folder else 0))


def can_write(path: str, uid: int) -> bool:
    """Return whether this user may write a file, or create files in a folder."""
    is_folder = os.path.isdir(path)  # noqa: PTH112
    return _has_rights(path, uid, stat.S_IWOTH | (stat.S_IXOTH if is_folder else 0))


def _has_rights(path: str, uid: int, rights: int) -> bool:
    """Return whether this user, whose group has the same id, has these rights on a path. `rights`
    are permission bits of the class "others" (S_IROTH and so on)."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return False
    if status.st_uid == uid:
        shift = 6  # the bits of the owner
    elif status.st_gid == uid:
        shift = 3  # the bits of the group
    else:
        shift = 0
    return (status.st_mode >> shift) & rights == rights


def _is_mapped(ids: tuple[tuple[int, int, int], ...], first: int, count: int) -> bool:
    """Return whether these ids exist in the user namespace whose map is `ids` (see `_read_map`)."""
    return any(inside <= first and first + count <= inside + length for inside, _, length in ids)


@cache
def _read_map(path: str) -> tuple[tuple[int, int, int], ...]:
    """Return the ranges of ids in this user namespace: (first id inside, first id outside, number
    of ids)."""
    try:
        lines = Path(path).read_text("ascii").splitlines()
    except OSError:
        return ()
    numbers = (tuple(map(int, line.split())) for line in lines)
    return tuple((range_[0], range_[1], range_[2]) for range_ in numbers if len(range_) == 3)
