"""Finds configs and search paths that other users can write.

A user who can write them decides which programs the host runs. They are reported and not refused,
because on some file systems (those of Windows, for example) every file has mode 0777.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from exthost.config.discovery.report import Diagnostic

if TYPE_CHECKING:
    from exthost.config import Config


def find_writable_files(config: Config) -> list[Diagnostic]:
    """Return a warning for the folder of the config, or else the config, and for each search path
    that others can write."""
    reasons = {path: reason for path in _paths(config) if (reason := _find_reason(path))}
    if config.folder in reasons:
        reasons.pop(config.origin, None)  # a user who can write the folder can replace the config
        from exthost.config.lock_file import LOCK_NAME

        reasons.pop(f"{config.folder}/{LOCK_NAME}", None)
    import shlex

    return [
        Diagnostic(
            level="warning",
            path=path,
            code="X0113",
            message=f"{reason}: a user who can write it can make this host run any program",
            help=f"change its owner or its mode: chmod go-w {shlex.quote(path)}",
        )
        for path, reason in reasons.items()
    ]


def _paths(config: Config) -> Iterable[str]:
    """Yield the paths to check: those of the config and the lock, and the search paths."""
    if config.origin and config.folder is not None and Path(config.origin).is_file():
        from exthost.config.lock_file import LOCK_NAME

        yield from (config.folder, config.origin, f"{config.folder}/{LOCK_NAME}")
    settings = config.discovery
    if settings is not None and settings.enabled:
        from exthost.config.discovery.search import base_folders, resolve_search_path

        bases = base_folders(settings, config.folder or ".")
        for search_path in settings.search_paths:
            # $PATH and the folders of other hosts ($SYNAPS) do not belong to this config.
            if not search_path.startswith("$"):
                folder = resolve_search_path(search_path, bases)
                if isinstance(folder, str):
                    yield folder


def _find_reason(path: str) -> str:
    """Return how another user can write this file or folder; "" if none can."""
    try:
        status = os.stat(path)  # noqa: PTH116 - called for every listing
    except OSError:
        return ""
    if status.st_uid not in (0, os.geteuid()):
        return f"user {status.st_uid} owns it"
    # In a folder with the sticky bit, such as /tmp, users cannot replace the files of others. It is
    # reported too, since every user can create files in it.
    return "every user can write it" if status.st_mode & stat.S_IWOTH else ""
