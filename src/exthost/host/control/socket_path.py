"""The rules by which a host and its clients find the control socket of a config.

The path is `$XDG_RUNTIME_DIR/exthost/<hash of the config's path>.sock`. If that folder is missing
or belongs to another user, or if the path is too long for a socket address, the socket is in `run/`
in the state folder, or else in `/tmp/exthost-<uid>`. The host and its clients compute the path in
the same way.

The relay of `exthost gateway` (`faces/relay`) imports this module, and must start as fast as
possible. So paths are strings here, and nothing is imported that takes longer than a millisecond.
`address` has the same paths as `Path`, and creates the folders.
"""

import os
import sys

from exthost.process.state_root import state_root

try:  # `hashlib` also loads OpenSSL, which takes longer than everything else here
    from _sha2 import sha256  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        from hashlib import sha256

TYPE_CHECKING = False  # type checkers take it for True; importing `typing` would take time
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# The maximum length of a socket address in bytes, with its terminating NUL.
_MAX_ADDRESS_BYTES = 104 if sys.platform == "darwin" else 108


def digest(data: bytes) -> str:
    """Return the SHA-256 digest in hexadecimal."""
    return str(sha256(data).hexdigest())


def config_key(config: "str | os.PathLike[str]") -> str:
    """Return a short hash of the config's real path. It is part of the names of its socket, lock
    and logs."""
    return digest(os.fsencode(os.path.realpath(config)))[:16]


def socket_paths(
    config: "str | os.PathLike[str]", environ: "Mapping[str, str]"
) -> "tuple[str, ...]":
    """Return the paths where the socket of this config may be, the preferred one first."""
    name = f"{config_key(config)}.sock"
    paths = (f"{folder}/{name}" for folder in _candidate_folders(environ))
    return tuple(path for path in paths if len(os.fsencode(path)) < _MAX_ADDRESS_BYTES)


def _candidate_folders(environ: "Mapping[str, str]") -> "Iterator[str]":
    """Yield the folders in which the socket may be, the preferred one first."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    # After `sudo` the variable may name the folder of another user, where no files of this user
    # should be created.
    if runtime.startswith("/") and is_own_folder(runtime):
        yield f"{runtime.rstrip('/')}/exthost"
    yield f"{os.path.join(os.getcwd(), state_root(environ)).rstrip('/')}/run"  # noqa: PTH109, PTH118
    yield lock_folder()


def lock_folder() -> str:
    """Return the folder for locks, which is also the last choice for sockets. It depends on no
    environment variable, so that a shell and a service of the same user get the same folder."""
    return f"/tmp/exthost-{os.geteuid()}"


def is_own_folder(folder: "str | os.PathLike[str]") -> bool:
    """Return whether the path is a folder (not a symlink) that this user owns."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    is_folder = status.st_mode & 0o170000 == 0o040000  # stat.S_ISDIR, without importing `stat`
    return is_folder and status.st_uid == os.geteuid()
