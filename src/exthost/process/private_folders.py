"""Creates folders of the host with exact modes, whatever the umask is.

As a rule a new folder can be used by the host's user alone. If the host is root, other users can
enter the folders above (but not list them), since each sandboxed extension runs as a user of its
own that must reach its state folder. Folders that exist already keep their modes.
"""

import errno
import os
from pathlib import Path

_PRIVATE, _ENTERED = 0o700, 0o711


def make_folder(path: Path | str) -> None:
    """Create a folder for the host's user alone, and the folders above it. Raises OSError."""
    folder = Path(path)
    make_shared_root(folder.parent)
    _make(folder, _PRIVATE)


def make_shared_root(path: Path | str) -> None:
    """Create a folder that contains folders of other users, and the folders above it. Raises
    OSError."""
    folder = Path(path)
    if not folder.exists():
        make_shared_root(folder.parent)
    _make(folder, _ENTERED if os.geteuid() == 0 else _PRIVATE)


def _make(folder: Path, mode: int) -> None:
    """Create a folder with this mode. A folder that exists keeps its mode."""
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder") from None
    else:
        folder.chmod(mode)  # the umask may have narrowed it


def free_bytes(path: Path | str) -> int | None:
    """Return how many bytes this user can still write to the file system of a folder; None if that
    is not known."""
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize
