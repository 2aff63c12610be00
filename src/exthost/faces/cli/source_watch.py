"""Finds the source files of an extension that have changed, by modification time and size.

`exthost dev` polls the files a few times a second. Polling needs no package and works on every file
system, and a folder of sources is small. Hidden files, and files that tools generate (caches,
dependencies, build output), are ignored.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

IGNORED_FOLDERS = frozenset(
    {"__pycache__", "node_modules", "target", "dist", "build", "venv", "site-packages"}
)
IGNORED_SUFFIXES = (".pyc", ".swp", ".tmp", "~", ".log")

# The maximum number of watched files. A folder with more files is probably not a folder of sources;
# its other files are not watched.
MAX_FILES = 5000

Stamps = dict[str, tuple[int, int]]
"""By path: the modification time in nanoseconds, and the size in bytes."""


def watched_paths(folder: str | None, argv: Sequence[str]) -> list[Path]:
    """Return the paths to watch: the folder of an extension, or if that is None the files in its
    command line."""
    if folder is not None:
        return [Path(folder)]
    return [
        Path(argument)
        for argument in argv
        # Not `Path.is_file`, which raises OSError for an argument that is too long for a path.
        if os.path.isfile(argument) and not _is_installed(argument)  # noqa: PTH113
    ]


def _is_installed(argument: str) -> bool:
    """Return whether a file is an installed program, such as an interpreter, not a source
    file."""
    return os.access(argument, os.X_OK) and Path(argument).parent.name in ("bin", "sbin", "shims")


def read_stamps(paths: Iterable[Path]) -> Stamps:
    """Return the modification time and the size of each watched file. Blocks for some
    milliseconds."""
    stamps_by_path: Stamps = {}
    for path in _walk_files(paths):
        try:
            status = path.stat()
        except OSError:  # deleted since it was listed
            continue
        stamps_by_path[str(path)] = status.st_mtime_ns, status.st_size
        if len(stamps_by_path) >= MAX_FILES:
            break
    return stamps_by_path


def changed_files(earlier: Stamps, later: Stamps) -> list[str]:
    """Return the files that were added, deleted or changed."""
    return sorted(
        path for path in earlier.keys() | later.keys() if earlier.get(path) != later.get(path)
    )


def _is_watched_name(name: str) -> bool:
    """Return whether the file or folder of this name is watched: it is not hidden, or it is a
    folder for a manifest, such as `.synaps-plugin`."""
    return not name.startswith(".") or name.endswith("-plugin")


def _walk_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the watched files in these folders, and those of the paths that are files."""
    for path in paths:
        if path.is_dir():
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(
                    name
                    for name in folders
                    if name not in IGNORED_FOLDERS and _is_watched_name(name)
                )
                for name in sorted(names):
                    if _is_watched_name(name) and not name.endswith(IGNORED_SUFFIXES):
                        yield Path(folder, name)
        elif path.is_file():
            yield path
