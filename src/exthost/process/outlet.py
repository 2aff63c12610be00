"""Reading large messages from a pipe: a wider pipe, and one buffer to read into.

Small reads are plain `os.read`. A read of a quarter megabyte that way allocates as much each time,
and the system hands such blocks out page by page: slower than the copying. So large reads go into
one buffer, kept for the next, and what came is copied once from there.
"""

import fcntl
import os
import threading

# Large enough to make few reads of a large message, small enough to stay in a core's own cache.
LARGE_READ_BYTES = 256 * 1024

# Linux' limit for users without privileges.
WIDE_PIPE_BYTES = 1024 * 1024

# One buffer a thread, so one a loop: it is copied from before anyone else can read.
_buffers = threading.local()


def read_large(fd: int) -> memoryview | bytes:
    """What is there, good until the next read in this thread; b"" at the end."""
    buffer: memoryview | None = getattr(_buffers, "buffer", None)
    if buffer is None:
        buffer = _buffers.buffer = memoryview(bytearray(LARGE_READ_BYTES))
    count = os.readv(fd, [buffer])
    return buffer[:count] if count else b""


def widen(fd: int) -> None:
    """Make the pipe larger, where the platform can and the user's quota allows."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)
    except (AttributeError, OSError):
        pass
