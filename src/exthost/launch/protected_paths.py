"""Decides which paths are protected in the folders that a sandboxed extension may write: those with
code of the host or of an extension are mounted read-only there. For example, an extension that may
write a project must not change the virtual environment in it from which another extension runs.

A mount point cannot be written, renamed or removed. Its parent folders can be renamed, so that
another folder takes the place of the code; therefore every folder between the granted folder and
the code becomes a mount point, too, which stays writable.

Some code cannot be protected: the granted folder itself, a symlink (nothing can be mounted on it),
and a path that does not exist yet. Such code is exposed, and one of the two extensions must be
refused. The module does no I/O.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from exthost.launch.code_paths import CodePath, Scope
from exthost.launch.sandbox.strict import ProtectedPath
from exthost.launch.visible_paths import is_below

_PARENT_REASON = "folder above protected code"


class OwnedCode(NamedTuple):
    """A path of code, and the extension that runs it: its id, "" for the host."""

    owner: str
    code: CodePath


class ExposedPath(NamedTuple):
    """Code that cannot be protected in a granted folder.

    granted  the folder that an extension may write
    owner    the extension that runs the code; "" for the host
    code     the code, in that folder
    """

    granted: str
    owner: str
    code: CodePath


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeProtection:
    """The protected paths in the folders that an extension may write, and the code there that
    cannot be protected."""

    protected: tuple[ProtectedPath, ...] = ()
    exposed: tuple[ExposedPath, ...] = ()

    def missing_in(self, protected_paths: Iterable[str]) -> str:
        """Return a path that must be protected, and is not in one of these protected paths; "" if
        there is none."""
        known = tuple(protected_paths)
        for needed in self.protected:
            is_protected = any(is_below(needed.path, path) for path in known)
            if needed.access == "read" and not is_protected:
                return needed.path
        return ""


def protect_code(
    granted: Iterable[str], code: Iterable[OwnedCode], read_only: Iterable[str] = ()
) -> CodeProtection:
    """Return what is protected from an extension that may write these folders (real paths).
    `read_only` are the paths that it may only read: in a granted folder they are mounted read-only
    in any case, and what is in them needs no mount of its own."""
    folders, owned, shown = tuple(dict.fromkeys(granted)), tuple(code), tuple(read_only)
    if not folders:
        return CodeProtection()
    protected: dict[str, ProtectedPath] = {}
    exposed: list[ExposedPath] = []
    for folder in folders:
        shown_inside = [path for path in shown if path != folder and is_below(path, folder)]
        inside, unsafe = _sort_code(folder, owned, shown_inside)
        exposed += (ExposedPath(folder, item.owner, item.code) for item in unsafe)
        for path, item in inside.items():
            protected[path] = ProtectedPath(path, "read", _describe(item))
            for parent in _folders_between(path, folder):
                protected.setdefault(parent, ProtectedPath(parent, "write", _PARENT_REASON))
    return CodeProtection(protected=tuple(sorted(protected.values())), exposed=tuple(exposed))


def expose_code(granted: Iterable[str], code: Iterable[OwnedCode]) -> CodeProtection:
    """Return the same for a WebAssembly module, whose engine cannot make a part of a folder
    read-only: nothing is protected, and all code in a granted folder is exposed."""
    owned = tuple(code)
    exposed = [
        ExposedPath(folder, owner, path)
        for folder in dict.fromkeys(granted)
        for owner, path in owned
        if is_below(path.path, folder) or (path.scope is Scope.ALL and is_below(folder, path.path))
    ]
    return CodeProtection(exposed=tuple(exposed))


def _sort_code(
    folder: str, code: Iterable[OwnedCode], read_only: Iterable[str]
) -> tuple[dict[str, OwnedCode], list[OwnedCode]]:
    """Return the outermost paths to protect in a granted folder, and the code that cannot be
    protected. `read_only` are the paths in that folder which are read-only in any case."""
    inside: dict[str, OwnedCode] = {}  # paths that can be mounted read-only
    not_mountable: list[OwnedCode] = []
    exposed: list[OwnedCode] = []
    for item in code:
        path, scope = item.code.path, item.code.scope
        # What is read-only in any case protects the code in it.
        if outer := next((shown for shown in read_only if is_below(path, shown)), ""):
            inside.setdefault(outer, item)
        elif scope in (Scope.LINK, Scope.MISSING):
            # Nothing can be mounted there, but a folder around it may be protected for other code.
            if is_below(path, folder):
                not_mountable.append(item)
        elif scope is Scope.UPWARD:
            # The settings could be created in the granted folder itself.
            if is_below(path, folder):
                exposed.append(item)
        elif path == folder:
            # The parts of a fence are code paths of their own, which can be protected.
            if scope is not Scope.FENCE:
                exposed.append(item)
        elif is_below(path, folder):
            inside.setdefault(path, item)
        elif scope is Scope.ALL and is_below(folder, path) and not _is_cache(folder, path):
            exposed.append(item)  # the granted folder is a part of the code
    outermost = {
        path: item
        for path, item in inside.items()
        if not any(other != path and is_below(path, other) for other in inside)
    }
    exposed += (
        item
        for item in not_mountable
        if not any(is_below(item.code.path, path) for path in outermost)
    )
    return outermost, exposed


def _is_cache(folder: str, tree: str) -> bool:
    """Return whether a granted folder is the cache in a tree of code, as node_modules/.cache:
    bundlers write there, and no interpreter imports from there."""
    return is_below(folder, f"{tree}/.cache")


def _folders_between(path: str, folder: str) -> Iterable[str]:
    """Return the folders above a path that are inside of the granted folder."""
    for parent in PurePosixPath(path).parents:
        if str(parent) == folder:
            return
        yield str(parent)


def _describe(item: OwnedCode) -> str:
    if not item.owner:
        return f"of the host: {item.code.reason}"
    return f"code of {item.owner}: {item.code.reason}"
