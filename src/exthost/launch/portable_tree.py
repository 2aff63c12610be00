"""Computes digests of code that are the same on two machines.

The listing of a folder has each file with its digest, as in `package_tree`. It differs in this:

- Left out are `.git` at the top, caches (`__pycache__` among them: Python does not read them in a
  locked extension, see `launch.bytecode`), and `RECORD` of installed Python packages.
- Compiled files, such as `.so`, `.node` and programs of the system, are listed apart: they are the
  same only on machines of one platform. So are `.pyc` files outside `__pycache__`, which Python
  imports by name.
- Where a file or link names a folder of this machine, such as the first line of an installed
  script, a mark stands for that folder.
- The interpreter of a virtual environment is not listed; a record has its name and version. In
  `pyvenv.cfg`, the lines that say how the environment was made do not count.

A file that has not changed since it was last read is not read again (`_Digests`).
"""

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from exthost.launch.package_tree import MAX_BYTES, MAX_FILES, PackageTree, UnusableTree

__all__ = ["Marks", "PortableCode", "read_portable"]

_CACHES = frozenset(("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"))
_IGNORED_FILES = frozenset((".DS_Store", "Thumbs.db"))

_COMPILED_NAME = re.compile(r".*\.(?:pyc|pyo|pyd|so|so\.[0-9.]+|dylib|dll|node|o|a|exe)")
_COMPILED_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")

_VENV_NOTES = re.compile(rb"^(?:version|version_info|command|prompt|uv) *=.*\n?", re.MULTILINE)

_PYTHON = re.compile(r"python[0-9.]*")

# A larger file is data, and does not name folders of this machine.
_MAX_MARKED_BYTES = 1 << 20

# A digest is kept if the file had not changed for this long when it was read: a file system may not
# show two changes within one tick of its clock.
_SETTLED_SECONDS = 2.0

# How many digests are kept. The largest package has as many files.
_MAX_KEPT = 100_000

# (folder, the mark that stands for it), the innermost folder first.
Marks = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PortableCode:
    """The files of a program or package: those that are the same on every machine, and the compiled
    ones."""

    portable: PackageTree
    compiled: PackageTree


class _File(NamedTuple):
    """The digest of a file with marks in the place of folders, and whether it is compiled."""

    digest: str
    is_compiled: bool


class _Digests:
    """The digests of files that were read, by path. A file is known by its inode, its size and the
    times of its last changes; a program cannot set the time at which its inode changed."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, Marks], tuple[tuple[int, ...], _File]] = {}

    def read(self, path: str, marks: tuple[tuple[str, str], ...]) -> tuple[_File, int]:
        """Return the file, and its size. Raises OSError."""
        # A pipe in the place of a file must not block the start.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(fd)
            identity = _identity(status)
            known = self._files.get((path, marks))
            if known is not None and known[0] == identity:
                return known[1], status.st_size
            file = _digest(fd, path, status, marks)
            if _identity(os.fstat(fd)) != identity:
                raise OSError(0, "it changes while it is read")
        finally:
            os.close(fd)
        if time.time_ns() - max(status.st_ctime_ns, status.st_mtime_ns) > _SETTLED_SECONDS * 1e9:
            if len(self._files) >= _MAX_KEPT:
                self._files.clear()
            self._files[path, marks] = identity, file
        return file, status.st_size


_digests = _Digests()


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_mode,
    )


def _digest(fd: int, path: str, status: os.stat_result, marks: Marks) -> _File:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "it is not a regular file")
    if status.st_size > MAX_BYTES:
        raise OSError(0, f"it has more than {MAX_BYTES >> 20} MiB")
    with open(fd, "rb", closefd=False) as file:
        if status.st_size > _MAX_MARKED_BYTES:
            start = file.peek(4)[:4]
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        else:
            data = file.read()
            start, is_marked = data[:4], False
            if path.endswith("/pyvenv.cfg"):
                data = _VENV_NOTES.sub(b"", data)
            for folder, mark in marks:
                if (encoded := os.fsencode(folder)) in data:
                    data, is_marked = data.replace(encoded, f"\0{mark}\0".encode()), True
            digest = hashlib.sha256(data).hexdigest() + ("*" if is_marked else "")
    name = os.path.basename(path)  # noqa: PTH119
    is_compiled = start.startswith(_COMPILED_MAGIC) or bool(_COMPILED_NAME.fullmatch(name))
    is_compiled = is_compiled or name == "pyvenv.cfg"  # it names the interpreter of this machine
    return _File(digest, is_compiled)


def read_portable(root: str, marks: Marks = (), skipped: Sequence[str] = ()) -> PortableCode:
    """Read a folder, or a single file. `marks` stand for folders of this machine, `skipped` are the
    real paths of folders that are left out. Raises UnusableTree."""
    base = os.path.realpath(root)
    own_marks = ((base, "package"), *((folder, mark) for folder, mark in marks if folder != base))
    files: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
    remaining_bytes, count = MAX_BYTES, 0
    for path in _paths(base, skipped):
        relative = os.path.relpath(path, base) if path != base else os.path.basename(base)  # noqa: PTH119
        try:
            content, is_compiled, size = _content(path, base, own_marks)
        except OSError as error:
            raise UnusableTree(path, f"it cannot be read: {error.strerror}") from None
        files[is_compiled].append((relative, content))
        remaining_bytes, count = remaining_bytes - size, count + 1
        if remaining_bytes < 0 or count > MAX_FILES:
            raise UnusableTree(root, f"it has more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB")
    portable, compiled = (PackageTree(tuple(sorted(files[kind]))) for kind in (False, True))
    return PortableCode(portable, compiled)


def _paths(root: str, skipped: Sequence[str]) -> Iterator[str]:
    """Yield everything below a folder that is listed and not a folder itself."""
    if not os.path.isdir(root):  # noqa: PTH112
        yield root
        return

    def fail(error: OSError) -> None:
        raise UnusableTree(str(error.filename), f"it cannot be read: {error.strerror}")

    for folder, folders, names in os.walk(root, onerror=fail):
        is_dist_info = folder.endswith(".dist-info")
        kept = []
        for name in folders:
            path = f"{folder}/{name}"
            if os.path.islink(path):  # noqa: PTH114
                yield path
            elif not (
                name in _CACHES
                or path in skipped
                or (name == ".git" and folder == root)
                or (name == ".cache" and folder.endswith("/node_modules"))
            ):
                kept.append(name)
        folders[:] = kept  # `os.walk` does not enter the others
        for name in names:
            if not (name in _IGNORED_FILES or (is_dist_info and name == "RECORD")):
                yield f"{folder}/{name}"


def _content(path: str, base: str, marks: tuple[tuple[str, str], ...]) -> tuple[str, bool, int]:
    """Return a text that describes the content at a path, whether it is compiled, and how many
    bytes it has. Raises OSError and UnusableTree."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return _link(path, base, marks)
    if not stat.S_ISREG(status.st_mode):
        return f"kind {stat.S_IFMT(status.st_mode):o}", False, 0
    file, size = _digests.read(path, marks)
    kind = "program" if status.st_mode & 0o111 else "file"
    return f"{kind} {file.digest}", file.is_compiled, size


def _link(path: str, base: str, marks: tuple[tuple[str, str], ...]) -> tuple[str, bool, int]:
    """The same as `_content`, for a symlink. A target inside the folder is listed itself."""
    target, real = os.readlink(path), os.path.realpath(path)  # noqa: PTH115
    name = os.path.basename(real)  # noqa: PTH119
    if _PYTHON.fullmatch(os.path.basename(path)) and _PYTHON.fullmatch(name):  # noqa: PTH119
        # The interpreter of a virtual environment. A record has its name and version.
        is_inside = real.startswith(f"{base}/")
        return (f"link {target}" if is_inside else "link to an interpreter"), False, 0
    for folder, mark in marks:
        target = target.replace(folder, f"\0{mark}\0")
    if real == base or real.startswith(f"{base}/"):
        return f"link {target}", False, 0
    if os.path.isdir(real):  # noqa: PTH112
        raise UnusableTree(path, f"it is a link to {real}, a folder outside")
    if not os.path.isfile(real):  # noqa: PTH113
        return f"link {target}", False, 0
    file, size = _digests.read(real, marks)
    return f"link {target} {file.digest}", file.is_compiled, size
