"""Collects the paths that a sandboxed extension sees, and the symlinks that lead to them.

The result is a `View`: the part of the host's file system that the sandbox mounts. The module knows
nothing of packages or programs. It reads the file system to resolve symlinks.
"""

import os
from pathlib import Path

from exthost.launch.sandbox.strict import View, VisiblePath

# The folders of a Linux system's own programs and libraries. Nix and Guix have the last two.
SYSTEM_FOLDERS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
)

# The most symlinks in one path, as in the kernel.
_MAX_LINKS = 40

_TEMP_ROOTS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/var/run")

_NOTHING = View()


class PathCollection:
    """Collects visible paths, each with a source: a label that says why the path is visible, such
    as "package". If a path is added twice, the first source is kept; only a grant replaces it."""

    def __init__(self, base: View = _NOTHING, protected: tuple[str, ...] = ()) -> None:
        """`protected` are paths in granted folders that the extension cannot write."""
        self._protected = protected
        # The source of each path, and the target of each symlink.
        self._read_only = {visible.path: visible.source for visible in base.visible_paths}
        self._writable: dict[str, str] = {}
        self._links = dict(base.links)
        self._private = list(base.private_folders)

    def grant(self, path: str, may_write: bool) -> None:
        """Make a path visible that the operator granted."""
        (self._writable if may_write else self._read_only)[path] = "granted"

    def show(self, path: str, source: str) -> str:
        """Make the real path of this path visible, and the symlinks that lead to it. Return the
        real path; "" if it does not exist."""
        real_path, _ = self.walk(path)
        if real_path:
            self.add(real_path, source)
        return real_path

    def add(self, real_path: str, source: str) -> None:
        """Make a real path visible."""
        self._read_only.setdefault(real_path, source)

    def add_private(self, real_path: str) -> None:
        """Put an empty folder in memory at this real path, which the extension may write. A folder
        that is visible, or contains a path that was granted, stays as it is."""
        is_granted = any(
            is_below(path, real_path)
            for path, source in (*self._read_only.items(), *self._writable.items())
            if source == "granted"
        )
        if not self.has(real_path) and not is_granted:
            self._private.append(real_path)

    def has(self, real_path: str) -> bool:
        """Return whether a real path is visible, by itself or in a folder."""
        return any(is_below(real_path, visible) for visible in (*self._read_only, *self._writable))

    def may_write(self, real_path: str) -> bool:
        """Return whether the extension may write this real path."""
        return any(is_below(real_path, visible) for visible in self._writable)

    def walk(self, path: str) -> tuple[str, list[str]]:
        """Resolve an absolute path, and add each symlink in it to the view. Return the real path,
        "" if it does not exist, and the symlinks. A symlink that the extension may have made itself
        leads nowhere: otherwise it would decide what its next start sees."""
        remaining = [name for name in path.split("/") if name]
        folder, links = "", list[str]()
        while remaining:
            name = remaining.pop(0)
            if name in ("", "."):
                continue
            if name == "..":
                folder = folder.rpartition("/")[0]
                continue
            current = f"{folder}/{name}"
            try:
                target = os.readlink(current)  # noqa: PTH115
            except FileNotFoundError:
                return "", links
            except OSError:  # not a symlink
                folder = current
                continue
            if len(links) == _MAX_LINKS or self._may_be_written(current):
                return "", links
            links.append(current)
            self._links[current] = target
            if target.startswith("/"):
                folder = ""
            remaining = [name for name in target.split("/") if name] + remaining
        return folder or "/", links

    def _may_be_written(self, path: str) -> bool:
        """Return whether the extension may write this path: it is in a granted folder, but not
        protected there."""
        return any(is_below(path, folder) for folder in self._writable) and not any(
            is_below(path, protected) for protected in self._protected
        )

    def view(self) -> View:
        """Return the collected view. Paths inside a visible folder are left out."""
        read = self._read_only.keys() - self._writable.keys()
        visible = [
            VisiblePath(path, "read", self._read_only[path]) for path in self._outermost(read)
        ]
        visible += [VisiblePath(path, "write", source) for path, source in self._writable.items()]
        return View(
            visible_paths=tuple(sorted(visible)),
            links=tuple(sorted(self._links.items())),
            private_folders=tuple(sorted(set(self._private))),
        )

    def _outermost(self, read: set[str]) -> list[str]:
        """Return the read-only paths, without those that lie in another of these paths. A path in a
        writable folder is kept, because it must be mounted read-only over that folder."""
        outermost = []
        for path in read:
            parents = {str(parent) for parent in Path(path).parents}
            if not parents & read or parents & self._writable.keys():
                outermost.append(path)
        return outermost


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is this folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_too_wide(folder: str, home: str) -> bool:
    """Return whether this folder contains files of others: the root, a folder directly below it
    (/etc, /home, /var), a home folder or one above it, a folder for temporary files."""
    real_path = os.path.realpath(folder)
    homes = {os.path.realpath(home), f"{os.path.realpath(home)}/.local"}
    if real_path.count("/") < 2 or real_path in homes or real_path in _TEMP_ROOTS:
        return True
    if any(home.startswith(f"{real_path}/") for home in homes):
        return True
    is_home = os.path.dirname(real_path) in ("/home", "/Users")  # noqa: PTH120
    return is_home or real_path == os.path.realpath(os.environ.get("TMPDIR", "/"))
