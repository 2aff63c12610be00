"""Computes the path of a host's control socket from the path of its config.

The path is `$XDG_RUNTIME_DIR/exthost/<hash of the config's path>.sock`. If that folder is missing
or belongs to another user, or if the path is too long for a socket address, the socket is in `run/`
in the state folder, or else in `/tmp/exthost-<uid>`. The host and its clients compute the path in
the same way.

A folder is used only if it is not a symlink and this user owns it, because another user may have
created a symlink or a folder of that name in /tmp. The mode of the folder is then set to 0700.
"""

import hashlib
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from exthost.errors import Evidence, Refused
from exthost.process.private_folders import make_shared_root
from exthost.process.state_dirs import state_root

# The maximum length of a socket address in bytes, with its terminating NUL.
_MAX_ADDRESS_BYTES = 104 if sys.platform == "darwin" else 108

_PRIVATE_MODE = 0o700


def config_key(config: str | os.PathLike[str]) -> str:
    """Return a short hash of the config's real path. It is part of the names of its socket, lock
    and logs."""
    real_path = os.path.realpath(config)
    return hashlib.sha256(os.fsencode(real_path)).hexdigest()[:16]


def socket_paths(config: str | os.PathLike[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths where the socket of this config may be, the preferred one first."""
    name = f"{config_key(config)}.sock"
    paths = (folder / name for folder in _candidate_folders(environ))
    return tuple(path for path in paths if len(os.fsencode(path)) < _MAX_ADDRESS_BYTES)


def _candidate_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    # After `sudo` the variable may name the folder of another user, where no files of this user
    # should be created.
    if runtime.startswith("/") and is_own_folder(Path(runtime)):
        yield Path(runtime, "exthost")
    yield Path(state_root(environ), "run").absolute()
    yield lock_folder()


def lock_folder() -> Path:
    """Return the folder for locks, which is also the last choice for sockets. It depends on no
    environment variable, so that a shell and a service of the same user get the same folder."""
    return Path(f"/tmp/exthost-{os.geteuid()}")


def is_own_folder(folder: Path) -> bool:
    """Return whether the path is a folder, not a symlink, that this user owns."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def make_private_folder(folder: Path) -> None:
    """Create the folder with access for this user only. Raises Refused if another user owns it."""
    try:
        make_shared_root(folder.parent)
        folder.mkdir(mode=_PRIVATE_MODE, exist_ok=True)
        if is_own_folder(folder):
            folder.chmod(_PRIVATE_MODE)
            return
        why = "it is not a folder of this user's"
    except OSError as error:
        why = error.strerror or str(error)
    raise unusable_folder_error(folder, why)


def unusable_folder_error(folder: Path, why: str) -> Refused:
    """Return the error for a folder in which the host cannot have its socket or its locks."""
    return Refused(
        "X0375",
        f"{folder} cannot be used as a private folder of this user: {why}",
        help="set XDG_RUNTIME_DIR or EXTHOST_HOME to a folder of your own",
        evidence=Evidence(path=str(folder)),
    )
