"""Reads one small file from a folder whose contents are not trusted.

Whoever can write to a search path can put a pipe there that never ends, a link to a secret, or ten
gigabytes. So only regular files are read, which is checked on the opened file and not by its name;
a link in the last step is not followed (the caller has resolved it and checked its target); and at
most MANIFEST_BYTES are read.

Raises ManifestError X0201 with the system's reason; X0203 is for a link that leaves the root.
"""

import errno
import os
import stat

from exthost.errors import Evidence, ManifestError

__all__ = ["MANIFEST_BYTES", "escape", "is_inside", "read_file", "system_words"]

# A manifest is a page or two of text. This is a hundred times that, and still cheap to read.
MANIFEST_BYTES = 1024 * 1024

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def read_file(path: str) -> bytes | None:
    """Return the bytes of a regular file, or None if nothing has that name."""
    try:
        # Non-blocking: otherwise opening a pipe without a writer would wait for ever.
        fd = os.open(path, _FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, system_words(error)) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(path, "it is not a regular file")
        # One byte more than allowed, to tell "exactly the limit" from "too long". The file may grow
        # after the fstat, so its size only serves to choose a buffer.
        limit = min(status.st_size, MANIFEST_BYTES) + 1
        data = os.read(fd, limit)
        while len(data) <= MANIFEST_BYTES and (more := os.read(fd, limit)):
            data += more
    except OSError as error:
        raise _unreadable(path, system_words(error)) from None
    finally:
        os.close(fd)
    if len(data) > MANIFEST_BYTES:
        raise _unreadable(path, f"it is larger than {MANIFEST_BYTES} bytes")
    return data


def is_inside(path: str, folder: str) -> bool:
    """Return whether a real path is this real folder or below it."""
    return path == folder or path.startswith(folder if folder == "/" else folder + "/")


def escape(path: str, real: str, root: str) -> ManifestError:
    """Return the error for a link that leads out of its search path."""
    return ManifestError(
        "X0203",
        f"this link leads to {real}, outside of the search path {root}; skipped",
        help=f"move what it points to below {root}, or add its folder to the search paths",
        evidence=Evidence(path=path),
    )


def system_words(error: OSError) -> str:
    """Return the system's reason without the path, which our messages already contain."""
    if error.errno == errno.ELOOP:
        # The system also reports "too many levels" for a single link that must not be followed.
        return "it is a link, or a loop of links"
    return (error.strerror or str(error)).lower()


def _unreadable(path: str, why: str) -> ManifestError:
    return ManifestError(
        "X0201",
        f"cannot be read: {why}",
        help="check that the file is there, is a plain file, and that you may read it",
        evidence=Evidence(path=path),
    )
