"""Computes digests of code that are the same on two machines.

The listing of a folder has each file with its digest, as in `package_tree`. It differs in this:

- Left out are `.git` at the top, caches (`__pycache__` among them: Python does not read them in a
  locked extension, see `launch.bytecode`), and `RECORD` of installed Python packages.
- Compiled files, such as `.so`, `.node` and programs of the system, are listed apart: they are the
  same only on machines of one platform. So are `.pyc` files outside `__pycache__`, which Python
  imports by name.
- Where a link, or a file that an installer writes, names a folder of this machine, such as the
  first line of an installed script, a mark stands for that folder. Other files have the same text
  on every machine, also if it names a folder that this machine has.
- The interpreter of a virtual environment is not listed; a record has its name and version. In
  `pyvenv.cfg`, the lines that say how the environment was made do not count.

A folder in which nothing has changed since it was last read is not read again (`tree_snapshot`).
"""

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from exthost.launch.package_tree import MAX_BYTES, MAX_FILES, PackageTree, UnusableTree
from exthost.launch.tree_snapshot import NotSmall, TreeSnapshot

_CACHES = frozenset(("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"))
_IGNORED_FILES = frozenset((".DS_Store", "Thumbs.db"))

# These patterns are compiled at their first use: a start whose files have a snapshot needs none.
_COMPILED_NAME = r".*\.(?:pyc|pyo|pyd|so|so\.[0-9.]+|dylib|dll|node|o|a|exe)"
_COMPILED_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")

_VENV_NOTES = rb"(?m)^(?:version|version_info|command|prompt|uv) *=.*\n?"

_PYTHON = r"python[0-9.]*"

# The files of an installed package that an installer writes for the machine: those of a virtual
# environment, and notes about the place of a package.
_INSTALLED_NAME = (
    r"pyvenv\.cfg|(?:de)?activate.*|.*\.pth|direct_url\.json|uv-receipt\.toml|__editable__.*"
)

# The lines of an installed script that name its interpreter: the first one, or for a long path the
# first three, which a shell reads.
_INTERPRETER_LINES = rb"#!.*\n?(?:.*\n?){0,2}"

# A snapshot with another number was written by an exthost that computes other digests.
_FORMAT = 3

# A larger file is data, and does not name folders of this machine.
_MAX_MARKED_BYTES = 1 << 20

# (folder, the mark that stands for it), the innermost folder first.
Marks: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PortableCode:
    """The files of a program or package.

    digest        of the files that are the same on every machine; "" if there are none
    compiled      the compiled files
    caches        the folders with compiled Python files, which are left out
    read_files    returns the files that `digest` covers; may read them again, and raise
                  UnusableTree
    """

    digest: str
    compiled: PackageTree
    caches: tuple[str, ...] = field(compare=False)
    read_files: Callable[[], PackageTree] = field(compare=False, repr=False)


class _File(NamedTuple):
    """The digest of a file with marks in the place of folders, and whether it is compiled."""

    digest: str
    is_compiled: bool


def _read_file(path: str, marks: Marks) -> _File:
    """Return the digest of a file. Raises OSError."""
    # A pipe in the place of a file must not block the start.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        file = _digest(fd, path, status, marks)
        after = os.fstat(fd)
    finally:
        os.close(fd)
    if (status.st_size, status.st_ctime_ns) != (after.st_size, after.st_ctime_ns):
        raise OSError(0, "it changes while it is read")
    return file


def _digest(fd: int, path: str, status: os.stat_result, marks: Marks) -> _File:
    """Return the digest of an open file. Raises OSError."""
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
            start = data[:4]
            is_marked = False
            if path.endswith("/pyvenv.cfg"):
                data = re.sub(_VENV_NOTES, b"", data)
            # Most files name none of the folders.
            if any(os.fsencode(folder) in data for folder, _ in marks):
                end = _installed_bytes(os.path.basename(path), data)  # noqa: PTH119
                for folder, mark in marks if end else ():
                    encoded, written = os.fsencode(folder), f"\0{mark}\0".encode()
                    if encoded in data[:end]:
                        head = data[:end].replace(encoded, written)
                        data, end, is_marked = head + data[end:], len(head), True
            digest = hashlib.sha256(data).hexdigest() + ("*" if is_marked else "")
    name = os.path.basename(path)  # noqa: PTH119
    is_compiled = start.startswith(_COMPILED_MAGIC) or bool(re.fullmatch(_COMPILED_NAME, name))
    is_compiled = is_compiled or name == "pyvenv.cfg"  # it names the interpreter of this machine
    return _File(digest, is_compiled)


def _installed_bytes(name: str, data: bytes) -> int:
    """Return how many bytes at the beginning of a file an installer writes for this machine."""
    if re.fullmatch(_INSTALLED_NAME, name):
        return len(data)
    lines = re.match(_INTERPRETER_LINES, data)
    return lines.end() if lines is not None else 0


def read_portable(
    root: str, marks: Sequence[tuple[str, str]] = (), skipped: Sequence[str] = (), cache: str = ""
) -> PortableCode:
    """Read a folder, or a single file. `marks` stand for folders of this machine, `skipped` are the
    real paths of folders that are left out, and `cache` is a folder for listings and snapshots.
    Raises UnusableTree."""
    tree = _make_tree(root, marks, skipped)
    if not cache:
        return tree.read()
    snapshot = _find_snapshot(tree, cache)
    if (stored := snapshot.load()) is not None:
        with suppress(KeyError, TypeError, ValueError):  # written in another form
            return _restore(tree, stored)
    began_ns = time.time_ns()
    code = tree.read()
    code.read_files().keep(cache)
    value = {
        "digest": code.digest,
        "compiled": code.compiled.files,
        "caches": code.caches if tree.is_folder else (),
    }
    snapshot.store(tree.paths, tree.links, value, read_since_ns=began_ns)
    return code


def read_small_snapshot(
    root: str, marks: Sequence[tuple[str, str]] = (), skipped: Sequence[str] = (), cache: str = ""
) -> PortableCode:
    """Return what `read_portable` would return for a small folder that has not changed since it was
    read. Takes less than a millisecond. Raises NotSmall for any other folder."""
    tree = _make_tree(root, marks, skipped)
    stored = _find_snapshot(tree, cache).load_small()
    try:
        return _restore(tree, stored)
    except (KeyError, TypeError, ValueError):  # written in another form
        raise NotSmall from None


def _make_tree(root: str, marks: Sequence[tuple[str, str]], skipped: Sequence[str]) -> "_Tree":
    base = os.path.realpath(root)
    own_marks = ((base, "package"), *((folder, mark) for folder, mark in marks if folder != base))
    return _Tree(base, own_marks, skipped)


def _find_snapshot(tree: "_Tree", cache: str) -> TreeSnapshot:
    """Return the snapshot of a folder, which may not exist yet. `cache` is the folder with all
    snapshots."""
    name = hashlib.sha256(os.fsencode(tree.base)).hexdigest()[:32]
    key = [_FORMAT, list(map(list, tree.marks)), list(tree.skipped)]
    return TreeSnapshot(os.path.join(cache, f"{name}.snapshot"), key)  # noqa: PTH118


def _restore(tree: "_Tree", stored: Any) -> PortableCode:
    """Return the code whose value was stored. Raises KeyError, TypeError or ValueError if the value
    has another form."""
    return PortableCode(
        stored["digest"],
        PackageTree(tuple((path, content) for path, content in stored["compiled"])),
        (*stored["caches"], *tree.caches_beside()),
        lambda: tree.read().read_files(),
    )


class _Tree:
    """A folder, or a single file.

    base     its real path
    marks    stand for folders of this machine
    skipped  the folders that are left out
    paths    everything that was seen: files, links and folders, among them those with compiled
             Python files
    links    the symlinks in `paths`
    """

    def __init__(self, base: str, marks: Marks, skipped: Sequence[str]) -> None:
        self.base = base
        self.marks = marks
        self.skipped = skipped
        self.paths: list[str] = []
        self.links: list[str] = []
        self.is_folder = os.path.isdir(base)  # noqa: PTH112

    def read(self) -> PortableCode:
        """Read all files. Raises UnusableTree."""
        self.paths, self.links = [], []
        caches: list[str] = []
        # The path and the content of each file, of portable and of compiled ones.
        files: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
        remaining_bytes = MAX_BYTES
        start = len(self.base if self.is_folder else os.path.dirname(self.base)) + 1  # noqa: PTH120
        for path in self._walk(caches) if self.is_folder else (self.base,):
            try:
                content, is_compiled, size = self._content(path)
            except OSError as error:
                raise UnusableTree(path, f"it cannot be read: {error.strerror}") from None
            files[is_compiled].append((path[start:], content))
            self.paths.append(path)
            remaining_bytes -= size
            if remaining_bytes < 0 or len(files[False]) + len(files[True]) > MAX_FILES:
                raise UnusableTree(
                    self.base, f"it has more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB"
                )
        portable, compiled = (PackageTree(tuple(sorted(files[kind]))) for kind in (False, True))
        return PortableCode(
            portable.digest if portable.files else "",
            compiled,
            (*filter(_has_files, caches), *self.caches_beside()),
            lambda: portable,
        )

    def caches_beside(self) -> list[str]:
        """Return the folder with compiled Python files beside a single file, if there is one."""
        cache = f"{os.path.dirname(self.base)}/__pycache__"  # noqa: PTH120
        return [cache] if not self.is_folder and _has_files(cache) else []

    def _walk(self, caches: list[str]) -> Iterator[str]:
        """Yield everything below the folder that is listed and not a folder itself. Append the
        folders with compiled Python files to `caches`."""

        def fail(error: OSError) -> None:
            raise UnusableTree(str(error.filename), f"it cannot be read: {error.strerror}")

        for folder, folders, names in os.walk(self.base, onerror=fail):
            self.paths.append(folder)
            kept = []
            for name in folders:
                path = f"{folder}/{name}"
                if os.path.islink(path):  # noqa: PTH114
                    yield path
                elif name == "__pycache__":
                    caches.append(path)
                    self.paths.append(path)
                elif not (_is_cache(path, self.base) or path in self.skipped):
                    kept.append(name)
            folders[:] = kept  # `os.walk` does not enter the others
            for name in names:
                if not _is_note(folder, name):
                    yield f"{folder}/{name}"

    def _content(self, path: str) -> tuple[str, bool, int]:
        """Return a text that describes the content at a path, whether it is compiled, and how many
        bytes it has. Raises OSError and UnusableTree."""
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return self._link(path)
        if not stat.S_ISREG(status.st_mode):
            if not self.is_folder:  # the program itself, whose content has no digest
                raise OSError(0, "it is not a regular file")
            return f"kind {stat.S_IFMT(status.st_mode):o}", False, 0
        file = _read_file(path, self.marks)
        kind = "program" if status.st_mode & 0o111 else "file"
        return f"{kind} {file.digest}", file.is_compiled, status.st_size

    def _link(self, path: str) -> tuple[str, bool, int]:
        """The same as `_content`, for a symlink. A target inside the folder is listed itself."""
        self.links.append(path)
        target, real = os.readlink(path), os.path.realpath(path)  # noqa: PTH115
        name = os.path.basename(real)  # noqa: PTH119
        is_folder = os.path.isdir(real)  # noqa: PTH112
        is_python = re.fullmatch(_PYTHON, os.path.basename(path)) and re.fullmatch(_PYTHON, name)  # noqa: PTH119
        if is_python and not is_folder:
            # The interpreter of a virtual environment. A record has its name and version.
            is_inside = real.startswith(f"{self.base}/")
            return (f"link {target}" if is_inside else "link to an interpreter"), False, 0
        for folder, mark in self.marks:
            target = target.replace(folder, f"\0{mark}\0")
        is_inside = real == self.base or real.startswith(f"{self.base}/")
        if is_inside and not is_left_out(real, self.base):
            return f"link {target}", False, 0
        if is_folder:
            where = "that is left out" if is_inside else "outside"
            raise UnusableTree(path, f"it is a link to {real}, a folder {where}")
        if not os.path.isfile(real):  # noqa: PTH113
            return f"link {target}", False, 0
        status = os.stat(real)  # noqa: PTH116
        file = _read_file(real, self.marks)
        return f"link {target} {file.digest}", file.is_compiled, status.st_size


def is_left_out(path: str, base: str, skipped: Sequence[str] = ()) -> bool:
    """Return whether the listing of the folder `base` leaves out this path inside it. `skipped` are
    folders that are left out besides caches."""
    folder, name = os.path.split(path)
    if _is_note(folder, name):
        return True
    while len(path) > len(base):
        if path in skipped or _is_cache(path, base) or path.endswith("/__pycache__"):
            return True
        path = os.path.dirname(path)  # noqa: PTH120
    return False


def _is_cache(path: str, base: str) -> bool:
    """Return whether a folder below `base` is a cache, apart from those with compiled Python
    files."""
    folder, name = os.path.split(path)
    return (
        name in _CACHES
        or (name == ".git" and folder == base)
        or (name == ".cache" and folder.endswith("/node_modules"))
    )


def _is_note(folder: str, name: str) -> bool:
    """Return whether a file is a note of a file manager or of an installer."""
    return name in _IGNORED_FILES or (name == "RECORD" and folder.endswith(".dist-info"))


def _has_files(folder: str) -> bool:
    """Return whether a folder has any file, or cannot be read."""
    try:
        return bool(os.listdir(folder))  # noqa: PTH208
    except FileNotFoundError:
        return False
    except OSError:
        return True
