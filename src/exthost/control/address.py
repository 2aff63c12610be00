"""Where a running host is met: one socket per config, in a folder that is this user's alone.

`$XDG_RUNTIME_DIR/exthost/<hash of the config's path>.sock`; where there is no such folder, or its
name is too long for a socket, `run/` in our own state folder, and last `/tmp/exthost-<uid>`. Host
and client work it out by themselves from the same path, so nothing has to be told.

A folder is used only if it is ours: a real folder, owned by this user, open to nobody else. In
/tmp anybody may have made one before us.
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

# What the kernel has room for in a socket's address, its closing zero included.
_ADDRESS_BYTES = 104 if sys.platform == "darwin" else 108

_PRIVATE = 0o700


def key_of(config: str | os.PathLike[str]) -> str:
    """The name of a config in paths of ours: short, and the same from every folder."""
    real = os.path.realpath(config)
    return hashlib.sha256(os.fsencode(real)).hexdigest()[:16]


def sockets(config: str | os.PathLike[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where the socket of this config may be, the best place first."""
    name = f"{key_of(config)}.sock"
    found = (folder / name for folder in _folders(environ))
    return tuple(path for path in found if len(os.fsencode(path)) < _ADDRESS_BYTES)


def _folders(environ: Mapping[str, str]) -> Iterator[Path]:
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    # After a `sudo` it may be another user's: what we made there would be in that user's way.
    if runtime.startswith("/") and ours(Path(runtime)):
        yield Path(runtime, "exthost")
    yield Path(state_root(environ), "run").absolute()
    yield lock_folder()


def lock_folder() -> Path:
    """The folder of this user that no variable changes: a shell and a service find the same."""
    return Path(f"/tmp/exthost-{os.geteuid()}")


def ours(folder: Path) -> bool:
    """Whether it is a real folder of this user's."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def private_folder(folder: Path) -> None:
    """Make it, open to this user alone. Raises Refused if it is somebody else's."""
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
