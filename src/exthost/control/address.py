"""The path of the socket of a running host: one per config, in a folder for this user only.

The path is `$XDG_RUNTIME_DIR/exthost/<hash of the config's path>.sock`. If there is no such folder,
or its name is too long for a socket, it is in `run/` in our state folder, or else in
`/tmp/exthost-<uid>`. Host and client both compute it from the path of the config.

A folder is used only if it is a real folder, owned by this user, without access for others. In
/tmp, another user may have created a folder of the same name.
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

__all__ = ["key_of", "lock_folder", "ours", "private_folder", "sockets"]

# The longest address of a socket, with its closing zero byte.
_ADDRESS_BYTES = 104 if sys.platform == "darwin" else 108

_PRIVATE = 0o700


def key_of(config: str | os.PathLike[str]) -> str:
    """Return the name of a config in paths of ours: short, and the same from every folder."""
    real = os.path.realpath(config)
    return hashlib.sha256(os.fsencode(real)).hexdigest()[:16]


def sockets(config: str | os.PathLike[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths where the socket of this config may be, the preferred one first."""
    name = f"{key_of(config)}.sock"
    found = (folder / name for folder in _folders(environ))
    return tuple(path for path in found if len(os.fsencode(path)) < _ADDRESS_BYTES)


def _folders(environ: Mapping[str, str]) -> Iterator[Path]:
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    # After `sudo` the variable may name another user's folder, where our files would be in the way.
    if runtime.startswith("/") and ours(Path(runtime)):
        yield Path(runtime, "exthost")
    yield Path(state_root(environ), "run").absolute()
    yield lock_folder()


def lock_folder() -> Path:
    """Return a folder of this user that depends on no variable: it is the same for a service."""
    return Path(f"/tmp/exthost-{os.geteuid()}")


def ours(folder: Path) -> bool:
    """Return whether the path is a real folder that this user owns."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def private_folder(folder: Path) -> None:
    """Create the folder with access for this user only. Raises Refused if another user owns it."""
    try:
        make_shared_root(folder.parent)
        folder.mkdir(mode=_PRIVATE, exist_ok=True)
        if ours(folder):
            folder.chmod(_PRIVATE)
            return
        why = "it is not a folder of this user's"
    except OSError as error:
        why = error.strerror or str(error)
    raise Refused(
        "X0375",
        f"the host's socket cannot be put into {folder}: {why}",
        help="set XDG_RUNTIME_DIR or EXTHOST_HOME to a folder of your own",
        evidence=Evidence(path=str(folder)),
    )
