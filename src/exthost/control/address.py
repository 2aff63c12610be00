"""The path of the socket of a running host: one per config, in a folder for this user only.

The path is `$XDG_RUNTIME_DIR/exthost/<hash of the config's path>.sock`. If that folder is missing
or another user's, or if the path is too long for the address of a socket, the socket is in `run/`
in the state folder, or else in `/tmp/exthost-<uid>`. Host and client both compute the path from
that of the config.

A folder is used only if it is a real folder that this user owns: in /tmp, another user may have
created a link or a folder of the same name. Others are then denied access to it.
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

__all__ = ["config_key", "is_own_folder", "lock_folder", "make_private_folder", "socket_paths"]

# The longest address of a socket, with its closing zero byte.
_ADDRESS_BYTES = 104 if sys.platform == "darwin" else 108

_PRIVATE = 0o700


def config_key(config: str | os.PathLike[str]) -> str:
    """Return a short hash of the config's real path, which names its socket, lock and logs."""
    real = os.path.realpath(config)
    return hashlib.sha256(os.fsencode(real)).hexdigest()[:16]


def socket_paths(config: str | os.PathLike[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths where the socket of this config may be, the preferred one first."""
    name = f"{config_key(config)}.sock"
    found = (folder / name for folder in _folders(environ))
    return tuple(path for path in found if len(os.fsencode(path)) < _ADDRESS_BYTES)


def _folders(environ: Mapping[str, str]) -> Iterator[Path]:
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    # After `sudo` the variable may name another user's folder, where our files would be in the way.
    if runtime.startswith("/") and is_own_folder(Path(runtime)):
        yield Path(runtime, "exthost")
    yield Path(state_root(environ), "run").absolute()
    yield lock_folder()


def lock_folder() -> Path:
    """Return the folder for locks, and the last choice for sockets. It depends on no environment
    variable, so a shell and a service of the same user get the same folder."""
    return Path(f"/tmp/exthost-{os.geteuid()}")


def is_own_folder(folder: Path) -> bool:
    """Return whether the path is a real folder that this user owns."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def make_private_folder(folder: Path) -> None:
    """Create the folder with access for this user only. Raises Refused if another user owns it."""
    try:
        make_shared_root(folder.parent)
        folder.mkdir(mode=_PRIVATE, exist_ok=True)
        if is_own_folder(folder):
            folder.chmod(_PRIVATE)
            return
        why = "it is not a folder of this user's"
    except OSError as error:
        why = error.strerror or str(error)
    raise Refused(
        "X0375",
        f"{folder} cannot be used as a private folder of this user: {why}",
        help="set XDG_RUNTIME_DIR or EXTHOST_HOME to a folder of your own",
        evidence=Evidence(path=str(folder)),
    )
