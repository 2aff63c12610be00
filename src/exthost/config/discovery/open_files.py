"""Finds configs and search paths that other users can write.

A user who can write them decides which programs the host runs, and as whom. It is reported and
not refused, because on some file systems (those of Windows, for example) every file has mode 0777.
"""

import os
import shlex
import stat
from collections.abc import Iterable
from pathlib import Path

from exthost.config import Config
from exthost.config.discovery.report import Diagnostic
from exthost.config.discovery.search import base_folders, resolve_search_path
from exthost.config.lock_file import LOCK_NAME


def find_open_files(config: Config) -> list[Diagnostic]:
    """Return a warning for the folder of the config, or else the config, and for each search path
    that others can write."""
    reasons = {path: reason for path in _paths(config) if (reason := _find_reason(path))}
    if config.folder in reasons:
        reasons.pop(config.origin, None)  # a user who can write the folder can replace the config
        reasons.pop(f"{config.folder}/{LOCK_NAME}", None)
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
    if config.origin and config.folder is not None and Path(config.origin).is_file():
        yield from (config.folder, config.origin, f"{config.folder}/{LOCK_NAME}")
    settings = config.discovery
    if settings is not None and settings.enabled:
        bases = base_folders(settings, config.folder or ".")
        for search_path in settings.search_paths:
            # $PATH and the folders of other hosts ($SYNAPS) are not this config's business.
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
