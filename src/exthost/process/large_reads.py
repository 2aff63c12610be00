"""Reads large messages from a pipe fast: enlarges the pipe, and provides buffers to read into.

Small reads use `os.read`, which allocates a new block of memory for each read. The kernel maps a
large block page by page, which is slower than copying the bytes. So a large read goes directly into
the memory of its message, if the framing supports that (`allocate_message`), or into a reused
buffer, from which the bytes are copied once.
"""

import fcntl
import mmap
import threading
from collections.abc import Callable
from functools import cache

# Large enough that a large message needs few reads, small enough for the cache of one core.
REUSED_BUFFER_BYTES = 256 * 1024

# The size of an enlarged pipe: the most that Linux allows to unprivileged users by default.
WIDE_PIPE_BYTES = 1024 * 1024

# glibc returns freed blocks above a threshold to the system. Each new block then causes a page
# fault for each page, which takes half the time of a call with one megabyte of arguments and
# result. glibc raises the threshold to the largest such block that was ever freed. So one block of
# this size is allocated and freed; that is cheap, since its pages are never touched. In return, up
# to twice as much freed memory may stay with the process.
_KEPT_BYTES = 8 * 1024 * 1024

# One buffer per thread, and so per event loop. Its bytes are copied before the next read.
_buffers = threading.local()


def read_large(read_into: Callable[[memoryview], int], size: int) -> memoryview | bytes:
    """Return at most `size` of the bytes that are in the pipe, b"" at its end. They are valid until
    the next call in this thread. `read_into` reads into a buffer and returns the number."""
    buffer: memoryview | None = getattr(_buffers, "buffer", None)
    if buffer is None:
        buffer = _buffers.buffer = memoryview(bytearray(REUSED_BUFFER_BYTES))
    count = read_into(buffer[:size])
    return buffer[:count] if count else b""


def allocate_message(size: int, *, in_huge_pages: bool = True) -> mmap.mmap | None:
    """Return memory for a message of up to `size` bytes; None if there is not enough. Only pages
    that are written to take up memory. The kernel clears a huge page in up to some milliseconds,
    while the event loop waits.

    Without it, an echo of 16 MiB took 1.2 to 1.4 times as long (330 to 400 ms instead of 270), and
    one of 1 MiB as long as with it.
    """
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        return None  # a buffer that grows with the message may still fit
    if in_huge_pages and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)  # 512 times fewer page faults
        except OSError:
            pass  # the kernel has no huge pages
    return memory


def widen(fd: int) -> None:
    """Prepare for large messages: enlarge the pipe if the platform and the user's quota allow it,
    and let glibc keep freed memory in the process."""
    _keep_freed_memory()
    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)
    except (AttributeError, OSError):
        pass


@cache
def _keep_freed_memory() -> None:
    bytes(_KEPT_BYTES)
