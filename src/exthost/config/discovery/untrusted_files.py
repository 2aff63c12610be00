"""Reads one small file from a folder whose contents are not trusted.

A user who can write to a search path can create an endless pipe there, a symlink to a secret,
or a file of ten gigabytes. Therefore

- only regular files are read; the type is checked on the opened file, not on its path, which could
  be replaced in between;
- a symlink as the last component of a path is not followed: the caller has already resolved the
  path and checked its target, so a symlink there was created afterwards;
- at most MANIFEST_BYTES are read.

A file that cannot be read raises ManifestError X0201, with the reason of the operating system.
X0203 is the error for a symlink that leads out of its search path.
"""

import errno
import os
import stat

from exthost.errors import Evidence, ManifestError

# A manifest is a page or two of text. This is a hundred times that, and still cheap to read.
MANIFEST_BYTES = 1024 * 1024

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def read_file(path: str) -> bytes | None:
    """Return the bytes of a regular file, or None if the path does not exist. Raises
    ManifestError."""
    try:
        # Non-blocking: otherwise opening a pipe without a writer would wait for ever.
        fd = os.open(path, _FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable_error(path, describe_os_error(error)) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable_error(path, "it is not a regular file")
        # One byte more than allowed is read, to distinguish a file of exactly the limit from a
        # larger one. The file may grow after the fstat, so its size only decides about the buffer.
        limit = min(status.st_size, MANIFEST_BYTES) + 1
        data = os.read(fd, limit)
        while len(data) <= MANIFEST_BYTES and (chunk := os.read(fd, limit)):
            data += chunk
    except OSError as error:
        raise _unreadable_error(path, describe_os_error(error)) from None
    finally:
        os.close(fd)
    if len(data) > MANIFEST_BYTES:
        raise _unreadable_error(path, f"it is larger than {MANIFEST_BYTES} bytes")
    return data


def is_inside(path: str, folder: str) -> bool:
    """Return whether a real path is this real folder or below it."""
    return path == folder or path.startswith(folder if folder == "/" else folder + "/")


def link_escape_error(path: str, real: str, root: str) -> ManifestError:
    """Return the error for a symlink at `path` that leads to `real`, outside of `root`."""
    return ManifestError(
        "X0203",
        f"this link leads to {real}, outside of the search path {root}; skipped",
        help=f"move its target below {root}, or add its folder to the search paths",
        evidence=Evidence(path=path),
    )


def describe_os_error(error: OSError) -> str:
    """Return the reason of an OSError as text, without the path, because the caller's message
    already contains it."""
    if error.errno == errno.ELOOP:
        # The kernel also reports ELOOP for a single symlink that O_NOFOLLOW forbids to follow.
        return "it is a link, or a loop of links"
    return (error.strerror or str(error)).lower()


def _unreadable_error(path: str, reason: str) -> ManifestError:
    return ManifestError(
        "X0201",
        f"cannot be read: {reason}",
        help="check that the file exists, is a regular file, and is readable",
        evidence=Evidence(path=path),
    )
