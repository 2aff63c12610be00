"""Computes one digest of all files of a package, and finds the first file that differs from the
pinned state.

The digest is the SHA-256 of a listing: each file with its digest, each symlink with its target.
When a tree matches its pin (the digest in the config), its listing is stored in the host's state
folder, so that the error for a later mismatch can name the file that differs. A stored listing
needs no protection: it is used only if its SHA-256 is the pinned digest.

The listing contains everything in the folder except a `.git` at the top. It contains `__pycache__`,
since Python runs the files in it. For a symlink to a file outside the folder, the listing contains
the digest of that file. A folder cannot be pinned if it has a symlink to a folder outside, or a
file that cannot be read, or if it is too large to be read before each start.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from exthost.process.private_folders import make_folder

_CHUNK_BYTES = 1 << 20

# The largest package that can be pinned. Reading it takes a second or two at each start.
MAX_FILES = 50_000
MAX_BYTES = 1 << 30

_IGNORED_FOLDER = ".git"

# The files of a Python module.
_MODULE_SUFFIXES = (".py", ".pyc", ".so")


class UnusableTree(Exception):
    """A folder cannot be pinned. The message says why; `path` is the file or folder at fault."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


class PackageTree(NamedTuple):
    """The files of a folder: relative path → a text that describes the content (`_content`)."""

    files: tuple[tuple[str, str], ...]

    @property
    def listing(self) -> str:
        """The tree as text: one JSON array per line."""
        return "".join(f"{json.dumps(file)}\n" for file in self.files)

    @property
    def digest(self) -> str:
        """The SHA-256 of the listing."""
        return _digest_files(self.files)

    def keep(self, folder: str) -> None:
        """Store the listing in a folder for a later comparison, atomically. A folder that cannot be
        written is not an error."""
        path = Path(folder, f"{self.digest}.json")
        with suppress(OSError):
            if not path.exists():
                make_folder(path.parent)
                temp_path = path.with_suffix(f".{os.getpid()}")
                temp_path.write_text(self.listing)
                temp_path.replace(path)


@lru_cache(maxsize=64)  # a tree is compared, and then its listing is stored
def _digest_files(files: tuple[tuple[str, str], ...]) -> str:
    return hashlib.sha256(PackageTree(files).listing.encode()).hexdigest()


def first_difference(digest: str, now: PackageTree, folder: str) -> tuple[str, str] | None:
    """Return the first path at which `now` differs from the tree with this digest, and how it
    differs; None if the listing of that tree is not stored in `folder`."""
    try:
        text = Path(folder, f"{digest}.json").read_bytes()
    except OSError:
        return None
    if hashlib.sha256(text).hexdigest() != digest:
        return None
    pinned_files = dict(json.loads(line) for line in text.splitlines())
    current_files = dict(now.files)
    for path in sorted(pinned_files.keys() | current_files.keys()):
        if path not in current_files:
            return path, "is gone"
        if path not in pinned_files:
            return path, "is new"
        if pinned_files[path] != current_files[path]:
            return path, "has changed"
    return None


def read_tree(root: str) -> PackageTree:
    """Read a folder, or a single file. Raises UnusableTree."""
    return _read_paths(_paths(root), root)


def read_module(path: str) -> PackageTree:
    """Read a Python module of one file, with its compiled forms: Python runs whichever of them it
    prefers. Raises UnusableTree."""
    folder, file = os.path.split(path)
    prefix = f"{file.partition('.')[0]}."
    paths = [
        os.path.join(place, name)  # noqa: PTH118
        for place in (folder, os.path.join(folder, "__pycache__"))  # noqa: PTH118
        for name in (os.listdir(place) if os.path.isdir(place) else ())  # noqa: PTH112, PTH208
        if name.startswith(prefix) and name.endswith(_MODULE_SUFFIXES)
    ]
    return _read_paths(paths, folder)


def _read_paths(paths: Iterable[str], root: str) -> PackageTree:
    """Read these files and symlinks. Raises UnusableTree if they are too large."""
    files: list[tuple[str, str]] = []
    remaining_bytes = MAX_BYTES
    for path in paths:
        relative = os.path.relpath(path, root)
        content, size = _content(path, root)
        files.append((relative, content))
        remaining_bytes -= size
        if remaining_bytes < 0 or len(files) > MAX_FILES:
            raise UnusableTree(
                root,
                f"it has more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB",
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
        if folder == root and _IGNORED_FOLDER in folders:
            folders.remove(_IGNORED_FOLDER)  # `os.walk` then does not enter it
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]  # noqa: PTH114, PTH118
        for name in (*names, *links):
            yield os.path.join(folder, name)  # noqa: PTH118


def _content(path: str, root: str) -> tuple[str, int]:
    """Return a text that describes the content at a path, and how many bytes were read. The text is
    the type, and the digest of a file or the target of a symlink."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return _link(path, root)
        if not stat.S_ISREG(status.st_mode):
            return f"kind {stat.S_IFMT(status.st_mode):o}", 0
        digest, size = _digest(path)
    except OSError as error:
        raise UnusableTree(path, f"it cannot be read: {error.strerror}") from None
    return f"{'program' if status.st_mode & 0o111 else 'file'} {digest}", size


def _link(path: str, root: str) -> tuple[str, int]:
    """The same as `_content`, for a symlink. A target inside the folder is listed itself."""
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
    """The digest of a file, its size in bytes, and its identity: device and inode number."""

    digest: str
    size: int
    device: int
    inode: int


def read_digest(path: str) -> DigestedFile:
    """Read a whole file and return its digest. Raises OSError, also if it is not a regular file, or
    too large to be read before a start: a sparse file may claim any size."""
    hasher, size = hashlib.sha256(), 0
    # A pipe in the place of a file must not block the start.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb") as file:  # noqa: PTH123
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file")
        if status.st_size > MAX_BYTES:
            raise OSError(0, f"it has more than {MAX_BYTES >> 20} MiB")
        while (data := file.read(_CHUNK_BYTES)) and size <= MAX_BYTES:
            hasher.update(data)
            size += len(data)
    return DigestedFile(hasher.hexdigest(), size, status.st_dev, status.st_ino)
