"""Reading large messages from a pipe: a wider pipe, and memory to read into.

Small reads are plain `os.read`. A read of a quarter megabyte that way allocates as much each time,
and the system hands such blocks out page by page: slower than the copying. So large reads go
straight into the memory in which their message is gathered, where its framing can have that
(`room_for`), else into one buffer, kept for the next, from which what came is copied once.
"""

import fcntl
import mmap
import os
import threading
from functools import cache

# Large enough to make few reads of a large message, small enough to stay in a core's own cache.
REUSED_BUFFER_BYTES = 256 * 1024

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
        buffer = _buffers.buffer = memoryview(bytearray(REUSED_BUFFER_BYTES))
    count = os.readv(fd, [buffer])
    return buffer[:count] if count else b""


def room_for(size: int) -> mmap.mmap | None:
    """Memory for a message that may become so large. It costs only what is written to it."""
    try:
        room = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        return None  # so much is not to be had at once; as it grows, it may be
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            room.madvise(mmap.MADV_HUGEPAGE)  # 512 times fewer faults to write to it
        except OSError:
            pass  # a kernel without it
    return room


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
