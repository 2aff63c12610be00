"""Reading large messages from a pipe: a wider pipe, and one buffer to read into.

Small reads are plain `os.read`. A read of a quarter megabyte that way allocates as much each time,
and the system hands such blocks out page by page: slower than the copying. So large reads go into
one buffer, kept for the next, and what came is copied once from there.
"""

import fcntl
import os
import threading
from functools import cache

# Large enough to make few reads of a large message, small enough to stay in a core's own cache.
LARGE_READ_BYTES = 256 * 1024

# Linux' limit for users without privileges.
WIDE_PIPE_BYTES = 1024 * 1024

# glibc gives blocks beyond a threshold back to the system when they are freed, and the next one is
# then faulted in page by page: half the time of a megabyte's echo. It raises the threshold to the
# size of the largest such block that was ever freed, so freeing one (never touched, so it costs
# nothing) is all it takes. The price: up to twice as much may stay with the process.
_KEPT_BYTES = 8 * 1024 * 1024

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
    """Expect large messages: make the pipe larger, where the platform can and the user's quota
    allows, and see to it that memory for them is not fetched anew each time."""
    _keep_freed_memory()
    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)
    except (AttributeError, OSError):
        pass


@cache
def _keep_freed_memory() -> None:
    bytes(_KEPT_BYTES)
