"""Reading one small file out of a tree that somebody else wrote.

Whoever may put a file into a search path can put there a pipe that never ends, a link to a
secret, or ten gigabytes. So: regular files only, checked on the opened file and not by its name;
never through a link in the last step (the caller has resolved it and judged where it leads);
at most MANIFEST_BYTES.

Failures are ManifestError X0201 with what the system said, and X0203 for a way out of the root.
"""

import errno
import os
import stat

from exthost.errors import Evidence, ManifestError

__all__ = ["MANIFEST_BYTES", "escape", "is_inside", "read_file", "system_words"]

# A manifest is a page or two of text. This is a hundred times that, and still too small to hurt.
MANIFEST_BYTES = 1024 * 1024

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def read_file(path: str) -> bytes | None:
    """The bytes of a regular file; None where there is nothing of that name."""
    try:
        # Non-blocking, or opening a pipe that nobody writes to would wait for ever.
        fd = os.open(path, _FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, system_words(error)) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(path, "it is not a regular file")
        # One byte more than allowed tells "exactly full" from "too long"; a file may also grow
        # between the fstat and the read, so its stated size only saves us a needless buffer.
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
    """Whether a real path is this real folder or below it."""
    return path == folder or path.startswith(folder if folder == "/" else folder + "/")


def escape(path: str, real: str, root: str) -> ManifestError:
    """A link that leads out of the search path it was found in."""
    return ManifestError(
        "X0203",
        f"this link leads to {real}, outside of the search path {root}; skipped",
        help=f"move what it points to below {root}, or add its folder to the search paths",
        evidence=Evidence(path=path),
    )


def system_words(error: OSError) -> str:
    """What the system said, without the path, which our messages carry already."""
    if error.errno == errno.ELOOP:
        # The system's "too many levels" is as often a single link that was not to be followed.
        return "it is a link, or a loop of links"
    return (error.strerror or str(error)).lower()


def _unreadable(path: str, why: str) -> ManifestError:
    return ManifestError(
        "X0201",
        f"cannot be read: {why}",
        help="check that the file is there, is a plain file, and that you may read it",
        evidence=Evidence(path=path),
    )
