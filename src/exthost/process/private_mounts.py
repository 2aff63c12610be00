"""Starts a process in a mount namespace in which another user can reach files in closed folders.

A root host runs a sandboxed extension as a separate user, who cannot enter a folder such as /root.
If the program of the extension is in such a folder, the process that makes the sandbox needs a way
to it. So the host starts that process in a new mount namespace. There, an empty folder is mounted
over the closed folder, and inside it only the visible paths are mounted, read-only, at their usual
places. The mounts of the host do not change. The namespace ends with its last process.

A mount namespace belongs to a thread, so a thread that is made for it enters the namespace and
starts the process, which inherits it. The file descriptors of the paths are opened before the
closed folder is covered. Our init, the first program in the sandbox, compares the files again there
(`Wrapper.paths`).
"""

import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from exthost.model.launch_plan import InaccessibleFolder

# Flags of unshare(2): a working folder and a mount namespace of its own.
_CLONE_FS = 0x200
_CLONE_NEWNS = 0x20000

# Flags of mount(2).
_MS_RDONLY = 0x1
_MS_NOSUID = 0x2
_MS_NODEV = 0x4
_MS_REMOUNT = 0x20
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000

# The folder that is mounted over a closed one has only folders and empty files.
_COVER_OPTIONS = b"mode=0755,size=1m"

_T = TypeVar("_T")


@cache
def can_open_folders() -> bool:
    """Return whether this host is allowed to make mount namespaces, and to mount in them. A root
    user in a container often is not."""
    try:
        call_with_open_folders((), lambda: None)
    except OSError:
        return False
    return True


def call_with_open_folders(folders: Sequence[InaccessibleFolder], function: Callable[[], _T]) -> _T:
    """Call the function in a new thread with its own mount namespace, in which every user can enter
    these folders, and return its result. Raises OSError if the namespace cannot be made."""
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            _enter_new_namespace()
            _open_folders(folders)
            results.append(function())
        except BaseException as error:  # raised again below, in the thread of the caller
            errors.append(error)

    thread = threading.Thread(target=run, name="exthost-mounts")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _enter_new_namespace() -> None:
    import ctypes  # imported lazily: few hosts need it

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | _CLONE_FS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    _mount("none", "/", _MS_REC | _MS_PRIVATE)  # mounts must not appear in the host's namespace


def _open_folders(folders: Sequence[InaccessibleFolder]) -> None:
    """Cover the folders with empty ones, and mount the visible paths there. Raises OSError."""
    # An outer path comes before the paths in it.
    paths = sorted(
        (path for folder in folders for path in folder.visible_paths),
        key=lambda path: path.count("/"),
    )
    opened: dict[str, int] = {}
    try:
        for path in paths:
            opened[path] = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        for folder in folders:
            flags = _MS_NOSUID | _MS_NODEV
            _mount("tmpfs", folder.path, flags, file_system=b"tmpfs", options=_COVER_OPTIONS)
        for path, fd in opened.items():
            _make_mount_point(Path(path), is_folder=stat.S_ISDIR(os.fstat(fd).st_mode))
            _mount(f"/proc/thread-self/fd/{fd}", path, _MS_BIND | _MS_REC)
            _mount("none", path, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | _locked_flags(path))
    finally:
        for fd in opened.values():
            os.close(fd)


def _make_mount_point(path: Path, *, is_folder: bool) -> None:
    """Create an empty file or folder, if there is none, in folders that every user can enter."""
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in (*reversed(missing), *([path] if is_folder else [])):
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)  # whatever the umask of the host is
    if not is_folder and not path.exists():
        path.touch()


def _locked_flags(path: str) -> int:
    """Return the flags that a mount already has, which a new one must keep."""
    present = os.statvfs(path).f_flag
    # ST_NODEV, ST_NOEXEC and the others have the values of the flags for `mount`.
    kept = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
    return present & kept


def _mount(
    source: str, target: str, flags: int, *, file_system: bytes | None = None, options: bytes = b""
) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (os.fsencode(source), os.fsencode(target), file_system)
    if libc.mount(*arguments, ctypes.c_ulong(flags), options or None):
        number = ctypes.get_errno() or errno.EPERM
        raise OSError(number, f"{os.strerror(number)}: mount of {target}")
