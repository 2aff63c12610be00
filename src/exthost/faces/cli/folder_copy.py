"""Copies the folder of an extension, for `exthost install`. The folder is not trusted, and may
change during the copy.

The copy has the contents, the names, the links and the execute bits of the original, and nothing
else. It has no set-user-ID bits, since the copy of a program of another user belongs to this user,
and no extended attributes. The umask decides which other users can read and write it. No link of
the copy leads out of it, so that a change of the original does not change the installed copy.

The size of a copy is limited. A file, a folder or a link counts as one block at least, so that
their number is limited as well.
"""

import os
import shutil
import stat
from pathlib import Path

from exthost.config.discovery.untrusted_files import is_inside
from exthost.errors import Evidence, UsageError
from exthost.faces.cli.common import plural

# Not copied, because a running extension does not need it and it may be large.
_NOT_COPIED = ".git"

# How deep folders may be nested.
_MAX_DEPTH = 100

# The largest folder that is copied by default.
MAX_COPY_BYTES = 2**30

# The minimum size of a file on most file systems.
_BLOCK_BYTES = 4096

_CHUNK_BYTES = 1024 * 1024

# NOFOLLOW and NONBLOCK: a file that was replaced by a link is not opened, and one that was replaced
# by a pipe does not block.
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class _SizeLimit:
    """Counts the bytes of a copy, and raises UsageError if they are more than `max_bytes`."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._bytes = 0

    def add(self, size: int) -> None:
        """Count a file of this size; 0 for a folder or a link."""
        self._bytes += max(size, _BLOCK_BYTES)
        if self._bytes > self._max_bytes:
            raise UsageError(
                "X1396",
                f"{self._folder} is larger than {self._max_bytes:,} bytes, each file counted with "
                f"{_BLOCK_BYTES:,} at least",
                help="--max-size SIZE copies more, such as 4GiB; --link copies nothing",
                evidence=Evidence(path=str(self._folder)),
            )


def check_copy(folder: Path, target: Path, max_bytes: int = MAX_COPY_BYTES) -> str:
    """Check that a folder can be copied to the target. Return its number of files and its size as
    text. Raises UsageError for a symlink that leads out of the folder or is absolute, for a special
    file, and for a folder that is larger than `max_bytes` or than the free space."""
    limit = _SizeLimit(folder, max_bytes)
    files = size = 0
    for folder_path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != _NOT_COPIED]
        for path in (Path(folder_path, name) for name in (*names, *folders)):
            status = path.lstat()
            is_file = stat.S_ISREG(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                _check_link(path, folder)
            elif not is_file and not stat.S_ISDIR(status.st_mode):
                raise _copy_error(path, "is neither a file nor a folder")
            elif is_file:
                files, size = files + 1, size + status.st_size
            limit.add(status.st_size if is_file else 0)
    free = shutil.disk_usage(_existing_folder(target)).free
    if size > free:
        raise _copy_error(folder, f"has {size:,} bytes, and only {free:,} are free for the copy")
    return f"{plural(files, 'file')}, {size:,} bytes"


def copy_folder(folder: Path, target: Path, max_bytes: int = MAX_COPY_BYTES) -> None:
    """Copy a folder to the target, which must not exist. Raises UsageError for what `check_copy`
    refuses, and OSError."""
    limit = _SizeLimit(folder, max_bytes)
    target.mkdir()
    for path, folders, names, fd in os.fwalk(folder, onerror=_raise_error):
        relative = Path(path).relative_to(folder)
        if len(relative.parts) > _MAX_DEPTH:
            raise _copy_error(Path(path), f"is nested more than {_MAX_DEPTH} folders deep")
        # `fwalk` enters the folders that remain in this list, and never a link.
        folders[:] = [name for name in folders if name != _NOT_COPIED]
        for name in folders:
            limit.add(0)
            if not _copy_link(fd, name, target / relative / name):
                (target / relative / name).mkdir()
        for name in names:
            if _copy_link(fd, name, target / relative / name):
                limit.add(0)
            else:
                _copy_file(fd, name, folder / relative / name, target / relative / name, limit)
    # The links are checked in the finished copy: those of the original may change meanwhile.
    for path, folders, names in os.walk(target):
        for link in (Path(path, name) for name in (*names, *folders)):
            if link.is_symlink():
                _check_link(link, target)


def _copy_link(folder_fd: int, name: str, target: Path) -> bool:
    """Copy a symlink, and return True; return False if the file is not a symlink."""
    if not stat.S_ISLNK(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode):
        return False
    target.symlink_to(os.readlink(name, dir_fd=folder_fd))
    return True


def _copy_file(folder_fd: int, name: str, path: Path, target: Path, limit: _SizeLimit) -> None:
    """Copy a regular file: as many bytes as it has when it is opened, since it may grow."""
    source_fd = os.open(name, _READ_FLAGS, dir_fd=folder_fd)  # fails for a symlink
    try:
        status = os.fstat(source_fd)
        if not stat.S_ISREG(status.st_mode):
            raise _copy_error(path, "has changed, and is not a file any more")
        limit.add(status.st_size)
        # The kernel takes the bits of the umask away.
        target_fd = os.open(target, _WRITE_FLAGS, status.st_mode & 0o777)
        with os.fdopen(target_fd, "wb") as copy:
            remaining = status.st_size
            while chunk := os.read(source_fd, min(remaining, _CHUNK_BYTES)):
                copy.write(chunk)
                remaining -= len(chunk)
    finally:
        os.close(source_fd)


def _check_link(link: Path, folder: Path) -> None:
    """Raise UsageError if a symlink is absolute, or leads out of the folder."""
    if link.readlink().is_absolute() or not is_inside(os.path.realpath(link), str(folder)):
        raise _copy_error(link, "is a link that leads out of the folder, or is absolute")


def _existing_folder(path: Path) -> Path:
    """Return the nearest folder above a path that exists."""
    return next(parent for parent in path.parents if parent.is_dir())


def _raise_error(error: OSError) -> None:
    raise error


def _copy_error(path: Path, reason: str) -> UsageError:
    return UsageError(
        "X1396",
        f"{path} {reason}",
        help="take it out, or install a link to the folder: --link",
        evidence=Evidence(path=str(path)),
    )
