"""Which source files of an extension have changed, by their times and sizes.

Looks at the files a few times a second: that needs no package, works on every file system, and a
folder of sources is small. What tools write themselves (caches, dependencies, build output) and
hidden files do not count.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

IGNORED_FOLDERS = frozenset(
    {"__pycache__", "node_modules", "target", "dist", "build", "venv", "site-packages"}
)
IGNORED_SUFFIXES = (".pyc", ".swp", ".tmp", "~", ".log")

# More files than that are no sources of one extension: the rest is not watched.
MAX_FILES = 5000

Stamps = dict[str, tuple[int, int]]


def watched_paths(folder: str | None, argv: Sequence[str]) -> list[Path]:
    """Return what to watch: the folder of an extension, or the files that its command names."""
    if folder is not None:
        return [Path(folder)]
    return [Path(word) for word in argv if Path(word).is_file() and not _is_installed(word)]


def _is_installed(word: str) -> bool:
    """Return whether a program is no source of the author's: an interpreter, a system program."""
    return os.access(word, os.X_OK) and Path(word).parent.name in ("bin", "sbin", "shims")


def stamps(paths: Iterable[Path]) -> Stamps:
    """Return time and size of every file that is watched. Blocks for some milliseconds."""
    stamps_by_path: Stamps = {}
    for path in _files(paths):
        try:
            status = path.stat()
        except OSError:  # gone since it was listed
            continue
        stamps_by_path[str(path)] = status.st_mtime_ns, status.st_size
        if len(stamps_by_path) >= MAX_FILES:
            break
    return stamps_by_path


def changed_files(before: Stamps, after: Stamps) -> list[str]:
    """Return the files that are new, gone, or not what they were."""
    return sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )


def _is_shown(name: str) -> bool:
    """Return whether a name is not hidden, or that of a folder for a manifest."""
    return not name.startswith(".") or name.endswith("-plugin")


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(
                    name for name in folders if name not in IGNORED_FOLDERS and _is_shown(name)
                )
                for name in sorted(names):
                    if _is_shown(name) and not name.endswith(IGNORED_SUFFIXES):
                        yield Path(folder, name)
        elif path.is_file():
            yield path
