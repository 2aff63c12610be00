"""Remembers what was read of a folder for as long as nothing below the folder changes, so that not
every start reads every file.

A snapshot has one digest of the identities of all files, folders and symlinks: device, inode, size,
mode, and the times of the last changes. A new, renamed or deleted entry changes the time of its
folder. A program can set the time of a file's content, but not the time at which its inode changed.

Snapshots are in the host's state folder, which no sandboxed extension can write. A snapshot that
cannot be read, or that differs in anything, is not used: the folder is read again. So is a folder
that changed shortly before it was read, because a file system does not show two changes within
one tick of its clock.
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

# The snapshot of a package of the largest size takes less.
_MAX_BYTES = 32 * 1024 * 1024

_read_identity = attrgetter("st_dev", "st_ino", "st_size", "st_mode", "st_mtime_ns", "st_ctime_ns")


class TreeSnapshot:
    """The snapshot of one folder, in a file. `key` is everything else that the value depends on."""

    def __init__(self, file: str, key: Any) -> None:
        self._file = file
        self._key = [__version__, key]

    def load(self) -> Any:
        """Return the value that was stored, or None if anything has changed since."""
        try:
            stored = json.loads(read_start(self._file, _MAX_BYTES))
            if stored["key"] == self._key:
                paths, links = _split(stored["paths"]), _split(stored["links"])
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
        links          the symlinks among them, whose targets count as well
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
