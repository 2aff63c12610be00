"""Reads large messages from a pipe: a larger pipe, and buffers to read into.

Small reads use `os.read`. A large read that way allocates a new block each time, and the kernel
maps such a block page by page, which is slower than copying. So large reads go directly into the
memory of their message, if its framing supports that (`room_for`), or into a reused buffer, from
which the bytes are copied once.
"""

import fcntl
import mmap
import os
import threading
from functools import cache

# Large enough for few reads of a large message, small enough for the cache of one core.
REUSED_BUFFER_BYTES = 256 * 1024

# The limit on Linux for users without privileges.
WIDE_PIPE_BYTES = 1024 * 1024

# glibc returns freed blocks beyond a threshold to the system, and a new block is then faulted in
# page by page: half the time of an echo of one megabyte. It raises the threshold to the largest
# such block that was ever freed. So one untouched block of this size is allocated and freed, at no
# cost. The price: up to twice as much memory may stay with the process.
_KEPT_BYTES = 8 * 1024 * 1024

# One buffer for each thread, and so for each loop. It is copied before the next read.
_buffers = threading.local()


def read_large(fd: int) -> memoryview | bytes:
    """Return the available bytes, valid until the next read in this thread; b"" at the end."""
    buffer: memoryview | None = getattr(_buffers, "buffer", None)
    if buffer is None:
        buffer = _buffers.buffer = memoryview(bytearray(REUSED_BUFFER_BYTES))
    count = os.readv(fd, [buffer])
    return buffer[:count] if count else b""


def room_for(size: int) -> mmap.mmap | None:
    """Return memory for a message of up to `size` bytes, of which only written pages count; None
    if there is not enough."""
    try:
        room = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        return None  # a buffer that grows with the message may still fit
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            room.madvise(mmap.MADV_HUGEPAGE)  # 512 times fewer faults to write to it
        except OSError:
            pass  # a kernel without it
    return room


def widen(fd: int) -> None:
    """Prepare for large messages: enlarge the pipe, if the platform and the user's quota allow it,
    and keep freed memory in the process."""
    _keep_freed_memory()
    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)
    except (AttributeError, OSError):
        pass


@cache
def _keep_freed_memory() -> None:
    bytes(_KEPT_BYTES)
