"""The paths of a host's control socket and locks, and the folders that they are in.

Other processes send requests to a running host through its control socket, such as
`/run/user/1000/exthost/0f3a….sock`. `socket_path` has the rules for the paths, as strings.

A folder is used only if it is not a symlink and this user owns it, because another user may have
created a symlink or a folder of that name in /tmp. The mode of the folder is then set to 0700.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from exthost.errors import Evidence, Refused
from exthost.host.control import socket_path
from exthost.host.control.socket_path import is_own_folder
from exthost.process.private_folders import make_shared_root

_PRIVATE_MODE = 0o700


def socket_paths(config: str | os.PathLike[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths where the socket of this config may be, the preferred one first."""
    return tuple(map(Path, socket_path.socket_paths(config, environ)))


def lock_folder() -> Path:
    """Return the folder for locks; see `socket_path`."""
    return Path(socket_path.lock_folder())


def make_private_folder(folder: Path) -> None:
    """Create the folder with access for this user only. Raises Refused if another user owns it."""
    try:
        make_shared_root(folder.parent)
        folder.mkdir(mode=_PRIVATE_MODE, exist_ok=True)
        if is_own_folder(folder):
            folder.chmod(_PRIVATE_MODE)
            return
        reason = "it is not a folder of this user's"
    except OSError as error:
        reason = error.strerror or str(error)
    raise unusable_folder_error(folder, reason)


def unusable_folder_error(folder: Path, reason: str) -> Refused:
    """Return the error for a folder in which the host cannot have its socket or its locks."""
    return Refused(
        "X0375",
        f"{folder} cannot be used as a private folder of this user: {reason}",
        help="set XDG_RUNTIME_DIR or EXTHOST_HOME to a folder of your own",
        evidence=Evidence(path=str(folder)),
    )
