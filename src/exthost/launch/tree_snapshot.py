"""Caches a value that was computed from all files of a folder, until one of the files changes. So
an unchanged folder is not read again at each start.

A snapshot is the value, and a digest of the identities of all files, folders and symlinks: device,
inode, size, mode, and the times of the last changes. A new, renamed or deleted entry changes the
time of its folder. A program can set the time of a file's content, but not the time at which its
inode changed.

Snapshots are in the host's state folder, which no sandboxed extension can write. A snapshot that
cannot be read, or whose digest differs, is not used. No snapshot is stored of a folder that changed
shortly before it was read, because a file system does not show two changes within one tick of its
clock.
"""

import hashlib
import json
import marshal
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

from exthost._version import __version__
from exthost.process.private_folders import make_folder
from exthost.process.small_files import read_start

# How long a folder must not have changed before it is read. The clocks of file systems tick every
# ten milliseconds, or every two seconds on FAT.
_SETTLED_NS = 2_000_000_000

# The largest snapshot that is read. That of the largest allowed package is smaller.
_MAX_BYTES = 32 * 1024 * 1024

# The largest snapshot of a small folder, and how many files and folders it may have. It is compared
# in less than a millisecond, so an event loop can do it without a thread.
_SMALL_BYTES = 64 * 1024
_SMALL_PATHS = 256

_read_identity = attrgetter("st_dev", "st_ino", "st_size", "st_mode", "st_mtime_ns", "st_ctime_ns")


class NotSmall(Exception):
    """The files of an extension cannot be compared in less than a millisecond."""


class TreeSnapshot:
    """The snapshot of one folder, in a file. `key` is what the value depends on besides the
    folder."""

    def __init__(self, file: str, key: Any) -> None:
        self._file = file
        self._key = [__version__, key]

    def load(self) -> Any:
        """Return the value that was stored, or None if anything has changed since."""
        return self._load(_MAX_BYTES, None)

    def load_small(self) -> Any:
        """Return the value that was stored for a small folder. Raises NotSmall if the folder is
        larger, if anything has changed since, or if nothing was stored."""
        value = self._load(_SMALL_BYTES, _SMALL_PATHS)
        if value is None:
            raise NotSmall
        return value

    def _load(self, max_bytes: int, max_paths: int | None) -> Any:
        """Return the stored value; None if it cannot be used, or exceeds one of the limits."""
        try:
            # A larger file is cut, so it is not valid JSON.
            stored = json.loads(read_start(self._file, max_bytes))
            if stored["key"] == self._key:
                paths, links = _split(stored["paths"]), _split(stored["links"])
                if max_paths is not None and len(paths) > max_paths:
                    return None
                if stored["identities"] == _digest(_identities(paths, links)):
                    return stored["value"]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass
        return None

    def store(
        self, paths: Sequence[str], links: Sequence[str], value: Any, *, read_since_ns: int
    ) -> None:
        """Store a value, unless anything may have changed while it was computed. A file that cannot
        be written is not an error.

        paths          all files, folders and symlinks
        links          the symlinks among them, whose targets must not change either
        value          what was read, as JSON
        read_since_ns  the time at which the reading began
        """
        with suppress(OSError):
            identities = _identities(paths, links)
            if max(identity[-1] for identity in identities) > read_since_ns - _SETTLED_NS:
                return
            document = {
                "key": self._key,
                "paths": "\0".join(paths),
                "links": "\0".join(links),
                "identities": _digest(identities),
                "value": value,
            }
            path = Path(self._file)
            make_folder(path.parent)
            temp_path = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
            temp_path.write_text(json.dumps(document))
            temp_path.replace(path)


def _split(text: str) -> list[str]:
    return text.split("\0") if text else []


def _identities(paths: Iterable[str], links: Iterable[str]) -> list[tuple[int, ...]]:
    """Return the identities of paths, and of what links lead to. Raises OSError."""
    # `map` and `attrgetter` take half the time of a loop, and packages have thousands of files.
    return [
        *map(_read_identity, map(os.lstat, paths)),
        *map(_read_identity, map(os.stat, links)),
    ]


def _digest(identities: list[tuple[int, ...]]) -> str:
    # The second version of the format writes equal values as equal bytes.
    return hashlib.sha256(marshal.dumps(identities, 2)).hexdigest()
