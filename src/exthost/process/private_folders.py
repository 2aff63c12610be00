"""Creates folders of the host with exact modes, whatever the umask is.

A folder that is created on the way to another one is open to the host's user alone. Of a root host
it can also be entered by others, not listed: each sandboxed extension has a user of its own, who
must reach its state folder. Folders that exist keep their modes.
"""

import os
from pathlib import Path

__all__ = ["make_folder", "make_shared_root"]

_PRIVATE, _ENTERED = 0o700, 0o711


def make_folder(path: Path | str) -> None:
    """Create a folder for the host's user alone, and the folders above it. Raises OSError."""
    folder = Path(path)
    make_shared_root(folder.parent)
    _make(folder, _PRIVATE)


def make_shared_root(path: Path | str) -> None:
    """Create a folder that contains those of others, and the folders above it. Raises OSError."""
    folder = Path(path)
    if not folder.exists():
        make_shared_root(folder.parent)
    _make(folder, _ENTERED if os.geteuid() == 0 else _PRIVATE)


def _make(folder: Path, mode: int) -> None:
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        folder.chmod(mode)  # the umask may have narrowed it
