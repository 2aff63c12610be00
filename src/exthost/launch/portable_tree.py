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

A file that has not changed since it was last read is not read again (`DigestCache`).
"""

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from exthost.launch.package_tree import MAX_BYTES, MAX_FILES, PackageTree, UnusableTree
from exthost.process.private_folders import make_folder
from exthost.process.small_files import read_start

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

# Of how many folders the digests are kept in memory.
_MAX_CACHES = 256

# The digests of a package of the largest size take less.
_MAX_CACHE_BYTES = 32 * 1024 * 1024

# (folder, the mark that stands for it), the innermost folder first.
Marks: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PortableCode:
    """The files of a program or package: those that are the same on every machine, and the compiled
    ones. `has_bytecode` is whether there are compiled Python files in caches, which are left out.
    """

    portable: PackageTree
    compiled: PackageTree
    has_bytecode: bool = field(default=False, compare=False)


class _File(NamedTuple):
    """The digest of a file with marks in the place of folders, and whether it is compiled."""

    digest: str
    is_compiled: bool


class DigestCache:
    """The digests of the files of one folder, from one start to the next. They are kept in memory,
    and in a file of the host's state folder, which no sandboxed extension can write.

    A file is known by its inode, its size and the times of its last changes. A program cannot set
    the time at which an inode changed.
    """

    def __init__(self, file: str, marks: Marks) -> None:
        self._file = file
        self._marks = [list(mark) for mark in marks]
        self._files: dict[str, list[Any]] = {}
        self._has_changed = False
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            stored = json.loads(read_start(file, _MAX_CACHE_BYTES))
            if stored["marks"] == self._marks:
                self._files = dict(stored["files"])

    def read(self, path: str, status: os.stat_result, marks: Marks) -> _File:
        """Return the digest of a file. `status` is its `lstat`. Raises OSError."""
        identity = _identity(status)
        known = self._files.get(path)
        if known is not None and known[0] == identity:
            return _File(known[1], known[2])
        file, identity, is_settled = _read_file(path, marks)
        self._has_changed = self._has_changed or is_settled or known is not None
        self._files.pop(path, None)
        if is_settled:
            self._files[path] = [identity, file.digest, file.is_compiled]
        return file

    def save(self, seen: Collection[str]) -> None:
        """Store the digests of the files that were seen. A folder that cannot be written is not an
        error."""
        if not self._has_changed and len(self._files) <= len(seen):
            return
        self._files = {path: self._files[path] for path in seen if path in self._files}
        self._has_changed = False
        with suppress(OSError):
            path = Path(self._file)
            make_folder(path.parent)
            temp_path = path.with_suffix(f".{os.getpid()}")
            temp_path.write_text(json.dumps({"marks": self._marks, "files": self._files}))
            temp_path.replace(path)


_caches: dict[tuple[str, str, Marks], DigestCache] = {}


def _find_cache(folder: str, root: str, marks: Marks) -> DigestCache:
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    file = os.path.join(folder, f"{name}.stat") if folder else os.devnull  # noqa: PTH118
    key = (file, root, marks)
    if (cache := _caches.get(key)) is None:
        if len(_caches) >= _MAX_CACHES:
            _caches.clear()
        cache = _caches[key] = DigestCache(file, marks)
    return cache


def _identity(status: os.stat_result) -> list[int]:
    return [
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_mode,
    ]


def _read_file(path: str, marks: Marks) -> tuple[_File, list[int], bool]:
    """Return a file, its identity, and whether it has not changed for a while. Raises OSError."""
    # A pipe in the place of a file must not block the start.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        file = _digest(fd, path, status, marks)
        identity = _identity(status)
        if _identity(os.fstat(fd)) != identity:
            raise OSError(0, "it changes while it is read")
    finally:
        os.close(fd)
    age_ns = time.time_ns() - max(status.st_ctime_ns, status.st_mtime_ns)
    return file, identity, age_ns > _SETTLED_SECONDS * 1e9


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


def read_portable(
    root: str, marks: Sequence[tuple[str, str]] = (), skipped: Sequence[str] = (), cache: str = ""
) -> PortableCode:
    """Read a folder, or a single file. `marks` stand for folders of this machine, `skipped` are the
    real paths of folders that are left out, and `cache` is a folder for the digests of files that
    do not change. Raises UnusableTree."""
    base = os.path.realpath(root)
    own_marks = ((base, "package"), *((folder, mark) for folder, mark in marks if folder != base))
    digests = _find_cache(cache, base, own_marks)
    files: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
    remaining_bytes, seen = MAX_BYTES, list[str]()
    caches: list[str] = []
    start = len(base) + 1 if os.path.isdir(base) else len(os.path.dirname(base)) + 1  # noqa: PTH112, PTH120
    for path in _paths(base, skipped, caches):
        try:
            content, is_compiled, size = _content(path, base, own_marks, digests)
        except OSError as error:
            raise UnusableTree(path, f"it cannot be read: {error.strerror}") from None
        files[is_compiled].append((path[start:], content))
        seen.append(path)
        remaining_bytes -= size
        if remaining_bytes < 0 or len(seen) > MAX_FILES:
            raise UnusableTree(root, f"it has more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB")
    digests.save(seen)
    portable, compiled = (PackageTree(tuple(sorted(files[kind]))) for kind in (False, True))
    return PortableCode(portable, compiled, any(map(_has_bytecode, caches)))


def _has_bytecode(cache: str) -> bool:
    """Return whether a folder `__pycache__` has any file, or cannot be read."""
    try:
        return bool(os.listdir(cache))  # noqa: PTH208
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _paths(root: str, skipped: Sequence[str], caches: list[str]) -> Iterator[str]:
    """Yield everything below a folder that is listed and not a folder itself. Append the folders
    with compiled Python files to `caches`."""
    if not os.path.isdir(root):  # noqa: PTH112
        caches.append(f"{os.path.dirname(root)}/__pycache__")  # noqa: PTH120
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
            elif name == "__pycache__":
                caches.append(path)
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


def _content(path: str, base: str, marks: Marks, digests: DigestCache) -> tuple[str, bool, int]:
    """Return a text that describes the content at a path, whether it is compiled, and how many
    bytes it has. Raises OSError and UnusableTree."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return _link(path, base, marks, digests)
    if not stat.S_ISREG(status.st_mode):
        return f"kind {stat.S_IFMT(status.st_mode):o}", False, 0
    file = digests.read(path, status, marks)
    kind = "program" if status.st_mode & 0o111 else "file"
    return f"{kind} {file.digest}", file.is_compiled, status.st_size


def _link(path: str, base: str, marks: Marks, digests: DigestCache) -> tuple[str, bool, int]:
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
    status = os.stat(real)  # noqa: PTH116
    file = digests.read(real, status, marks)
    return f"link {target} {file.digest}", file.is_compiled, status.st_size
