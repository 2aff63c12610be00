"""Recognises files that other programs execute or obey without asking the user, by their paths.

An extension that could write such a file could run code outside its sandbox. `protected_files.toml`
lists them: files of version control, shells, editors, agents, CI systems, build tools and package
managers, and the config of exthost. For example, `why_protected(".git/hooks/pre-commit")` returns
"git and other version control systems run what it names". `file_writer` refuses such files. The
names of manifests come from the installed dialects. No list of such files is complete. Only names
are compared, and the files themselves are not read.
"""

import unicodedata
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from exthost.dialects.find import load_manifest_formats
from exthost.model.package_tables import read_tables

_WHY_MANIFEST = "exthost takes it for an extension, or for a part of one"


class _Group(NamedTuple):
    """Names of files, and of folders whose whole contents are protected, with the reason for all of
    them. A name may contain *. The names have the form that `_fold_name` returns."""

    reason: str
    files: tuple[str, ...]
    folders: tuple[str, ...]


def is_protected(path: str) -> bool:
    """Return whether other programs execute the file at this path, or read their settings from
    it."""
    return bool(why_protected(path))


def why_protected(path: str) -> str:
    """Return what other programs do with the file at this path, as a clause for an error; "" if
    the file is not protected."""
    *folders, name = map(_fold_name, path.split("/"))
    for group in _load_groups():
        if _matches(name, group.files) or any(
            _matches(folder, group.folders) for folder in (*folders, name)
        ):
            return group.reason
    return ""


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def is_at_or_below(path: str, folder: str) -> bool:
    """Return whether an absolute path is that of the folder or of something in it. Names that some
    file system takes for the same are the same (see `_fold_name`)."""
    names, folder_names = _fold_path(path), _fold_path(folder)
    return names[: len(folder_names)] == folder_names


@cache
def _load_groups() -> tuple[_Group, ...]:
    listed = tuple(
        _Group(
            group["why"],
            (*group.get("files", ()), *group.get("patterns", ())),
            tuple(group.get("folders", ())),
        )
        for group in read_tables("exthost.host", "protected_files.toml")["group"]
    )
    return (_manifest_group(), *listed)


def _manifest_group() -> _Group:
    """Return the file names of the manifests of all dialects, some of which contain *, and the
    folders that contain manifests."""
    names: set[str] = set()
    folders: set[str] = set()
    for format in load_manifest_formats():
        names.update(map(_fold_name, format.names))
        if format.parent:
            folders.add(_fold_name(format.parent))
        # Of a home such as "~/.synaps-cli/plugins", the first folder is protected.
        folders.update(_fold_path(home.removeprefix("~"))[0] for home in format.homes)
    return _Group(_WHY_MANIFEST, tuple(names), tuple(folders))


def _fold_path(path: str) -> list[str]:
    return [_fold_name(name) for name in path.split("/") if name]


def _fold_name(name: str) -> str:
    """Return a form of a file name that is the same for all names which some file system takes for
    the same: those of macOS ignore case, forms of one letter and invisible characters, and those of
    Windows ignore dots and blanks at the end."""
    visible = "".join(char for char in name if unicodedata.category(char) != "Cf")
    folded = unicodedata.normalize("NFKC", visible).casefold().rstrip(". ")
    return ".git" if folded == "git~1" else folded  # its short name on Windows
