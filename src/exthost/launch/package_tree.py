"""One digest of all files of a package, and which of them differ from an earlier state.

The digest is that of a listing: each file with its digest, each link with where it leads. The
listing of a tree that matched its pin is kept below the host's state folder, under its digest, so
that a later mismatch can name the file. A kept listing needs no protection: it is used only if its
own digest is the pinned one.

Everything in the folder counts, `__pycache__` too, since Python runs what lies there; only `.git`
at the top does not. A link out of the folder counts with the content of the file that it leads to.
A link to a folder outside, a file that cannot be read, or a folder that is too large to be read
before a start makes the tree unusable for a pin.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from exthost.process.private_folders import make_folder

__all__ = [
    "DigestedFile",
    "PackageTree",
    "UnusableTree",
    "file_digest",
    "first_difference",
    "read_digest",
    "read_tree",
]

_CHUNK_BYTES = 1 << 20

# What can be read before a start: a second or two.
_MAX_FILES = 50_000
_MAX_BYTES = 1 << 30

_NOT_COUNTED = ".git"


class UnusableTree(Exception):
    """The folder cannot be pinned; the message says why, and `path` where."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


@dataclass(frozen=True, slots=True)
class PackageTree:
    """The files of a folder: each path below it, and what is there, as text."""

    files: tuple[tuple[str, str], ...]

    @property
    def listing(self) -> str:
        """The tree as text: one JSON array a line."""
        return "".join(f"{json.dumps(file)}\n" for file in self.files)

    @property
    def digest(self) -> str:
        """The SHA-256 of the listing."""
        return hashlib.sha256(self.listing.encode()).hexdigest()

    def keep(self, folder: str) -> None:
        """Keep the listing for a later comparison. A folder that cannot be written is no error."""
        path = Path(folder, f"{self.digest}.json")
        with suppress(OSError):
            if not path.exists():
                make_folder(path.parent)
                unfinished = path.with_suffix(f".{os.getpid()}")
                unfinished.write_text(self.listing)
                unfinished.replace(path)


def first_difference(digest: str, now: PackageTree, folder: str) -> tuple[str, str] | None:
    """Return the first path that differs from the tree with this digest, and how; None if that tree
    was never kept."""
    try:
        text = Path(folder, f"{digest}.json").read_bytes()
    except OSError:
        return None
    if hashlib.sha256(text).hexdigest() != digest:
        return None
    before = dict(json.loads(line) for line in text.splitlines())
    after = dict(now.files)
    for path in sorted(before.keys() | after.keys()):
        if path not in after:
            return path, "is gone"
        if path not in before:
            return path, "is new"
        if before[path] != after[path]:
            return path, "has changed"
    return None


def read_tree(root: str) -> PackageTree:
    """Read a folder, or a single file. Raises UnusableTree."""
    files: list[tuple[str, str]] = []
    left = _MAX_BYTES
    for path in _paths(root):
        relative = os.path.relpath(path, root)
        content, size = _content(path, root)
        files.append((relative, content))
        left -= size
        if left < 0 or len(files) > _MAX_FILES:
            raise UnusableTree(
                root,
                f"it has more than {_MAX_FILES} files or {_MAX_BYTES >> 20} MiB",
            )
    return PackageTree(tuple(sorted(files)))


def file_digest(path: str) -> str:
    """Return the SHA-256 of a file; "" if it cannot be read."""
    try:
        return _digest(path)[0]
    except OSError:
        return ""


def _paths(root: str) -> Iterator[str]:
    """Yield everything below a folder that is not a folder itself."""
    if not os.path.isdir(root):  # noqa: PTH112
        yield root
        return

    def fail(error: OSError) -> None:
        raise UnusableTree(str(error.filename), f"it cannot be read: {error.strerror}")

    for folder, folders, names in os.walk(root, onerror=fail):
        if folder == root and _NOT_COUNTED in folders:
            folders.remove(_NOT_COUNTED)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]  # noqa: PTH114, PTH118
        for name in (*names, *links):
            yield os.path.join(folder, name)  # noqa: PTH118


def _content(path: str, root: str) -> tuple[str, int]:
    """Return what is at a path, as text, and how many bytes were read."""
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            return _link(path, root)
        if not stat.S_ISREG(found.st_mode):
            return f"kind {stat.S_IFMT(found.st_mode):o}", 0
        digest, size = _digest(path)
    except OSError as error:
        raise UnusableTree(path, f"it cannot be read: {error.strerror}") from None
    return f"{'program' if found.st_mode & 0o111 else 'file'} {digest}", size


def _link(path: str, root: str) -> tuple[str, int]:
    target = os.readlink(path)  # noqa: PTH115
    real, base = os.path.realpath(path), os.path.realpath(root)
    if real == base or real.startswith(f"{base}/"):
        return f"link {target}", 0
    if os.path.isdir(real):  # noqa: PTH112
        raise UnusableTree(path, f"it is a link to {real}, a folder outside")
    if not os.path.isfile(real):  # noqa: PTH113
        return f"link {target}", 0
    digest, size = _digest(real)
    return f"link {target} {digest}", size


def _digest(path: str) -> tuple[str, int]:
    read = read_digest(path)
    return read.digest, read.size


class DigestedFile(NamedTuple):
    """A file that was read: its digest, its size, and which file it was."""

    digest: str
    size: int
    device: int
    inode: int


def read_digest(path: str) -> DigestedFile:
    """Read a whole file. Raises OSError, also for what is no regular file and for one that is too
    large to be read before a start: a file without content can have any size."""
    found, size = hashlib.sha256(), 0
    # A pipe in the place of a file must not block the start.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb") as file:  # noqa: PTH123
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file")
        if status.st_size > _MAX_BYTES:
            raise OSError(0, f"it has more than {_MAX_BYTES >> 20} MiB")
        while (data := file.read(_CHUNK_BYTES)) and size <= _MAX_BYTES:
            found.update(data)
            size += len(data)
    return DigestedFile(found.hexdigest(), size, status.st_dev, status.st_ino)
